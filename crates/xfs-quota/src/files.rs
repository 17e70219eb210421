//! The quota inodes of a volume: finding, checking and making them.
//!
//! Owns: where the quota inodes are named. Without a metadata directory, the superblock has their
//! numbers. With one, they are the files `user`, `group` and `project` of its directory `quota`,
//! and the fields of the superblock stay 0. Does **not** own: the flags of the superblock.

use std::sync::Arc;

use xfs_alloc::{InodePurpose, allocate_inode, inode_blocks};
use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_dir::{NewMetadataFile, create_metadata_file, find_metadata_file};
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::{FileType, ForkFormat, InodeCheck, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockCheck;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Corruption, DiskAddr, InodeNumber, Structure, StructureAddress};
use xfs_inode::{InitialInode, LiveInode};
use xfs_trans::{Journal, Transaction};

use crate::state::QuotaState;
use crate::superblock;

/// The name of the directory of quota inodes in the metadata directory.
const DIRECTORY: &[u8] = b"quota";

/// The quota inodes that a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaInodes {
    numbers: [Option<InodeNumber>; 3],
    /// The root of the metadata directory. `None` on a volume without one.
    metadata_root: Option<InodeNumber>,
    /// The directory of the quota inodes in the metadata directory.
    directory: Option<InodeNumber>,
}

impl QuotaInodes {
    /// Finds the quota inodes. `metadata_root` is the root of the metadata directory.
    ///
    /// # Errors
    ///
    /// Returns the device's error; the failed check of a directory, or of the superblock if two
    /// types have the same inode.
    pub(crate) fn find(
        cache: &BufferCache,
        state: &QuotaState,
        metadata_root: Option<InodeNumber>,
    ) -> Result<Self> {
        let Some(root) = metadata_root else {
            let numbers = QuotaKind::ALL.map(|kind| state.inode(kind));
            return Self { numbers, metadata_root, directory: None }.checked();
        };
        let mut numbers = [None; 3];
        let directory = find_metadata_file(cache, root, DIRECTORY)?;
        if let Some(directory) = directory {
            for (kind, number) in QuotaKind::ALL.into_iter().zip(&mut numbers) {
                *number = find_metadata_file(cache, directory, kind.name().as_bytes())?;
            }
        }
        Self { numbers, metadata_root, directory }.checked()
    }

    /// Checks that no two types have the same quota inode. If two types shared an inode, each would
    /// log a map of its own for it.
    fn checked(self) -> Result<Self> {
        let [user, group, project] = self.numbers;
        let shared = [(user, group), (user, project), (group, project)]
            .into_iter()
            .find_map(|(left, right)| left.filter(|_| left == right));
        let Some(inode) = shared else { return Ok(self) };
        let place = StructureAddress::Disk(DiskAddr(0));
        let check = SuperblockCheck::SharedQuotaInode { inode: inode.0 };
        Err(Corruption::new(Structure::Superblock, place, check).into())
    }

    pub(crate) const fn numbers(&self) -> [Option<InodeNumber>; 3] {
        self.numbers
    }

    pub(crate) const fn number(&self, kind: QuotaKind) -> Option<InodeNumber> {
        let [user, group, project] = self.numbers;
        match kind {
            QuotaKind::User => user,
            QuotaKind::Group => group,
            QuotaKind::Project => project,
        }
    }

    /// Loads a quota inode. Checks that the inode is a regular file of size 0 whose blocks are in
    /// an extent map, as every quota inode is.
    pub(crate) fn load(
        &self,
        journal: &Arc<Journal>,
        kind: QuotaKind,
        number: InodeNumber,
    ) -> Result<Arc<LiveInode>> {
        let live = Arc::new(LiveInode::load(journal, number)?);
        let check = {
            let inode = live.inode();
            let core = inode.core();
            let is_map = matches!(core.data_format, ForkFormat::Extents | ForkFormat::Btree);
            let is_plain = inode.file_type() == FileType::Regular && !core.is_realtime();
            let has_name = core.nlink != 0;
            let is_metadata = core.flags2.contains(InodeFlags2::METADATA);
            let is_of_kind = match self.metadata_root {
                None => true,
                Some(_) => is_metadata && core.metafile_type == kind.metafile_type(),
            };
            let is_empty = core.size == 0 && core.project_id == 0;
            match is_map && is_plain && has_name && is_empty && is_of_kind {
                true => None,
                false => Some(InodeCheck::Mode { mode: core.mode }),
            }
        };
        match check {
            None => Ok(live),
            Some(check) => {
                let place = StructureAddress::Inode(number);
                Err(Corruption::new(Structure::Inode, place, check).into())
            }
        }
    }

    /// Makes the quota inode of a type. Calls `made` with the inode before the commit, so that the
    /// caller knows the quota inode by then: the commit must charge it to no owner.
    ///
    /// # Errors
    ///
    /// Returns ENOSPC if the volume has no space for an inode, the device's error, the check that
    /// failed, or the error that stopped the log.
    #[doc(alias = "xfs_qm_qino_alloc")]
    pub(crate) fn make(
        &mut self,
        journal: &Arc<Journal>,
        kind: QuotaKind,
        now: Timestamp,
        made: impl FnOnce(Arc<LiveInode>),
    ) -> Result<()> {
        let Some(root) = self.metadata_root else {
            let blocks = inode_blocks(journal.geometry());
            return with_space(journal, TransactionKind::Create, blocks, |tx| {
                let file = allocate_file(tx, now)?;
                superblock::set_inode(tx, kind, file.number())?;
                made(Arc::new(file));
                Ok(())
            });
        };
        let new = |name, metafile_type, is_directory| NewMetadataFile {
            name,
            metafile_type,
            is_directory,
            project_id: 0,
        };
        let create = |directory, new: NewMetadataFile<'_>, made: &mut dyn FnMut(Arc<LiveInode>)| {
            let directory = Arc::new(LiveInode::load(journal, directory)?);
            with_space(journal, new.transaction(), new.blocks(journal.geometry()), |tx| {
                made(create_metadata_file(tx, &directory, &new, now)?);
                superblock::set_quota_bit(tx)
            })
        };
        let directory = match self.directory {
            Some(directory) => directory,
            None => {
                let mut number = None;
                let directory = new(DIRECTORY, NewMetadataFile::DIRECTORY, true);
                create(root, directory, &mut |made| number = Some(made.number()))?;
                number.expect("a directory that was made has a number")
            }
        };
        self.directory = Some(directory);
        let file = new(kind.name().as_bytes(), kind.metafile_type(), false);
        let mut made = Some(made);
        create(directory, file, &mut |file| {
            made.take().expect("a quota inode is made once")(file);
        })
    }
}

/// Runs `act` in a transaction of its own. If `act` finds no space, the transaction is still
/// committed, because the search for space may have refilled free lists.
fn with_space(
    journal: &Arc<Journal>,
    kind: TransactionKind,
    blocks: u64,
    act: impl FnOnce(&mut Transaction<'_>) -> Result<()>,
) -> Result<()> {
    let tx = journal.begin(kind, blocks)?;
    let is_made = tx.commit_or_cancel(|tx| match act(tx) {
        Err(Error::Posix(PosixError::NoSpace)) => Ok(false),
        made => made.map(|()| true),
    })?;
    if is_made { Ok(()) } else { Err(PosixError::NoSpace.into()) }
}

fn allocate_file(tx: &mut Transaction<'_>, now: Timestamp) -> Result<LiveInode> {
    let root = tx.journal().superblock().root_inode;
    let inode = allocate_inode(tx, root, InodePurpose::File)?;
    LiveInode::create(
        tx,
        InitialInode {
            inode,
            mode: FileType::Regular.mode_bits(),
            uid: 0,
            gid: 0,
            project_id: 0,
            nlink: 1,
            now,
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            extent_size_hint_blocks: 0,
            cow_extent_size_hint_blocks: 0,
            rdev: None,
            attr_room: false,
            attributes: None,
        },
    )
}
