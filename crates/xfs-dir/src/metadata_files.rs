//! Files of the metadata directory: finding and making them.
//!
//! Owns: the form of an inode of the metadata directory, and its entry and parent pointer. Does
//! **not** own: the contents of these files, or which of them a volume has.
//!
//! Quota does not count these files. So the first logged change of the inode already has the flag
//! METADATA, by which such files are recognised.
//!
//! Several files can get their names in one step, so that a crash leaves all of them or none. They
//! are made on the unlinked list as ordinary files, without the flag METADATA
//! ([`prepare_metadata_file`], [`name_metadata_files`]). A kernel's recovery does not free an
//! unlinked file with that flag.

use std::sync::Arc;

use xfs_alloc::{InodePurpose, add_unlinked, allocate_inode, inode_blocks, remove_unlinked};
use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeFlags, InodeFlags2, METADATA_FLAGS};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_inode::{InitialInode, Inode, LiveInode, new_attribute_room};
use xfs_trans::Transaction;

use crate::directory::{Directory, add_entry_at, blocks_to_add, init_directory, seek_entry};
use crate::parents::{ParentLink, ParentPath, add_parent, first_parent, parent_blocks};

/// A file to make in the metadata directory.
#[derive(Clone, Copy, Debug)]
pub struct NewMetadataFile<'a> {
    /// The name of the file in its directory.
    pub name: &'a [u8],
    /// The kind of metadata in the file, as `di_metatype` stores it.
    #[doc(alias = "di_metatype")]
    pub metafile_type: u16,
    /// Whether the file is a directory. Any other file is a regular one.
    pub is_directory: bool,
    /// The project ID: the number of the realtime group, and 0 for other files.
    pub project_id: u32,
}

impl NewMetadataFile<'_> {
    /// The value of `di_metatype` for a directory.
    pub const DIRECTORY: u16 = 1;

    /// Returns the kind of transaction that [`create_metadata_file`] needs for this file.
    #[must_use]
    pub const fn transaction(&self) -> TransactionKind {
        match self.is_directory {
            true => TransactionKind::MakeDirectory,
            false => TransactionKind::Create,
        }
    }

    /// Returns the number of blocks that the transaction must reserve.
    #[must_use]
    pub fn blocks(&self, geometry: &Geometry) -> u64 {
        inode_blocks(geometry) + blocks_to_add(geometry) + parent_blocks(geometry, self.name.len())
    }
}

/// Returns the inode of a name in a directory of the metadata directory. Returns `None` if the name
/// does not exist.
///
/// # Errors
///
/// Returns the device's error, or the check that failed.
pub fn find_metadata_file(
    cache: &BufferCache,
    directory: InodeNumber,
    name: &[u8],
) -> Result<Option<InodeNumber>> {
    let inode = Inode::read(cache, directory)?;
    match Directory::new(cache, &inode)?.lookup(name) {
        Err(Error::Posix(PosixError::NotFound)) => Ok(None),
        found => found.map(|(number, _)| Some(number)),
    }
}

/// Creates the file `new` in a directory of the metadata directory. The transaction must have the
/// kind and the reserved blocks that the methods of [`NewMetadataFile`] return.
///
/// # Errors
///
/// Returns [`PosixError::Exists`] if the directory has the name. Returns [`PosixError::NoSpace`] if
/// the volume has no space for an inode; the transaction must be committed even then, since the
/// search may have refilled free lists. Else returns the device's error or the check that failed.
#[doc(alias = "xfs_metadir_create")]
pub fn create_metadata_file(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    new: &NewMetadataFile<'_>,
    now: Timestamp,
) -> Result<Arc<LiveInode>> {
    tx.join(directory.log_item());
    let place = seek_entry(tx, directory, new.name)?;
    if place.meaning().is_some() {
        return Err(PosixError::Exists.into());
    }
    let file_type = if new.is_directory { FileType::Directory } else { FileType::Regular };
    let has_parents = tx.geometry().has_incompat(IncompatFeatures::PARENT);
    let generation = directory.inode().core().generation;
    let attributes = match has_parents {
        true => {
            let room = new_attribute_room(file_type, tx.geometry());
            first_parent(directory.number(), generation, new.name, room)
        }
        false => None,
    };
    let purpose = if new.is_directory { InodePurpose::Directory } else { InodePurpose::File };
    let has_first = attributes.is_some();
    let inode = allocate_inode(tx, directory.number(), purpose)?;
    let links = if new.is_directory { InodeFlags::NOSYMLINKS } else { InodeFlags::empty() };
    let made = InitialInode {
        inode,
        mode: file_type.mode_bits(),
        uid: 0,
        gid: 0,
        project_id: new.project_id,
        nlink: if new.is_directory { 2 } else { 1 },
        now,
        flags: METADATA_FLAGS | links,
        flags2: InodeFlags2::METADATA,
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        rdev: None,
        attr_room: has_parents,
        attributes,
    };
    let live = Arc::new(LiveInode::create(tx, made)?);
    live.change(tx, |core| core.metafile_type = new.metafile_type);
    if new.is_directory {
        init_directory(tx, &live, directory.number())?;
    }
    add_entry_at(tx, directory, place, live.number(), EntryType::of(file_type))?;
    directory.change(tx, |core| {
        (core.modify_time, core.change_time) = (now, now);
        core.nlink += u32::from(new.is_directory);
    });
    if has_parents && !has_first {
        let link = ParentLink { inode: directory.number(), generation, name: new.name.into() };
        add_parent(tx, &live, &link, ParentPath::Direct)?;
    }
    Ok(live)
}

/// Creates a file without a name, which [`name_metadata_files`] makes a file of the metadata
/// directory. A crash before that frees it. The transaction must be one for a file without a name
/// ([`TransactionKind::CreateUnnamed`]), with the reserved blocks of a new inode.
///
/// # Errors
///
/// Returns [`PosixError::NoSpace`] if the volume has no space for an inode, or if the inode has no
/// room for a parent pointer with the name. The transaction must be committed even then. Else
/// returns the device's error or the check that failed.
pub fn prepare_metadata_file(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    name: &[u8],
    now: Timestamp,
) -> Result<Arc<LiveInode>> {
    tx.join(directory.log_item());
    let has_parents = tx.geometry().has_incompat(IncompatFeatures::PARENT);
    let generation = directory.inode().core().generation;
    let attributes = match has_parents {
        true => {
            let room = new_attribute_room(FileType::Regular, tx.geometry());
            let first = first_parent(directory.number(), generation, name, room);
            Some(first.ok_or(PosixError::NoSpace)?)
        }
        false => None,
    };
    let inode = allocate_inode(tx, directory.number(), InodePurpose::File)?;
    let made = InitialInode {
        inode,
        mode: FileType::Regular.mode_bits(),
        uid: 0,
        gid: 0,
        project_id: 0,
        nlink: 0,
        now,
        flags: InodeFlags::empty(),
        flags2: InodeFlags2::empty(),
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        rdev: None,
        attr_room: has_parents,
        attributes,
    };
    let live = Arc::new(LiveInode::create(tx, made)?);
    add_unlinked(tx, live.log_item())?;
    Ok(live)
}

/// Returns the number of blocks that a transaction of [`name_metadata_files`] must reserve.
#[must_use]
pub fn blocks_to_name(geometry: &Geometry, count: usize) -> u64 {
    count as u64 * blocks_to_add(geometry)
}

/// Gives prepared files their names in a directory of the metadata directory, in one step. Each
/// file becomes the file that stands beside it.
///
/// # Errors
///
/// Returns [`PosixError::Exists`] if the directory has one of the names. Else returns the device's
/// error or the check that failed.
pub fn name_metadata_files(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    files: &[(Arc<LiveInode>, NewMetadataFile<'_>)],
    now: Timestamp,
) -> Result<()> {
    tx.join(directory.log_item());
    let mut in_order: Vec<_> = files.iter().map(|(live, _)| live).collect();
    // The headers of groups are latched in their order, and before anything else is changed.
    in_order.sort_by_key(|live| live.number());
    for live in &in_order {
        tx.join(live.log_item());
    }
    for live in in_order {
        remove_unlinked(tx, live.log_item())?;
    }
    for (live, new) in files {
        let place = seek_entry(tx, directory, new.name)?;
        if place.meaning().is_some() {
            return Err(PosixError::Exists.into());
        }
        add_entry_at(tx, directory, place, live.number(), EntryType::Regular)?;
        live.change(tx, |core| {
            core.nlink = 1;
            core.flags = METADATA_FLAGS;
            core.flags2 |= InodeFlags2::METADATA;
            core.metafile_type = new.metafile_type;
            core.project_id = new.project_id;
            core.change_time = now;
        });
    }
    directory.change(tx, |core| (core.modify_time, core.change_time) = (now, now));
    Ok(())
}
