//! Growing the realtime section of a volume that is not open.
//!
//! Owns: which sizes are refused, the order of the steps in a section with groups or zones, the
//! files of new groups, and updating the copies of the superblock. Does **not** own a step inside a
//! group, or in a classic section (`xfs-inode`).
//!
//! # New groups
//!
//! 1. The files of the group are made without names, each in a transaction of its own. The bitmap
//!    and the summary get their blocks.
//! 2. The blocks are written to the device, with all extents of the group free, and flushed.
//! 3. One transaction names all files in the metadata directory, and sets the sizes in the
//!    superblock.
//!
//! A crash before the third step is durable leaves files without names, which the recovery frees.
//! So no crash leaves a file of a group that does not exist. A kernel leaves such files, and
//! xfs_repair then reports them.

use std::sync::Arc;

use thiserror::Error;
use xfs_alloc::{
    NewSpaceFile, RealtimeFileSizes, RealtimeSpace, log_realtime_sizes, next_realtime_size,
    write_group_blocks,
};
use xfs_buffer::{Error, IoError, PosixError, Result as BufferResult};
use xfs_dir::{NewMetadataFile, blocks_to_name, name_metadata_files, prepare_metadata_file};
use xfs_format::btree::BtreeKind;
use xfs_format::realtime::{
    BITMAP_METATYPE, MetadataRootLayout, RealtimeBlockKind, SUMMARY_METATYPE,
};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{SuperblockDisk, Unsupported, VolumeAccess};
use xfs_format::timestamp::Timestamp;
use xfs_format::{AgNumber, BlockKind, DiskAddr, InodeNumber, RoCompatFeatures, Superblock};
use xfs_inode::LiveInode;
use xfs_trans::Journal;

use super::{Devices, OpenError, read_superblock, realtime};
use crate::volume::GrowError;

/// Why a realtime section does not grow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RealtimeGrowthError {
    /// The volume could not be opened, or its realtime section cannot grow.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The size is refused, or growing failed.
    #[error(transparent)]
    Grow(#[from] GrowError),
}

impl Devices {
    /// Grows the realtime section to `blocks` blocks, or to the end of its device. A zoned section
    /// grows by whole zones, so that the result may be smaller than requested. Returns the number
    /// of blocks that the section then has. The devices must have been opened [to
    /// write](super::OpenOptions::write). A dirty log is recovered first. The new size is durable
    /// on return. A crash leaves the old size, the new size, or a size between them.
    ///
    /// # Errors
    ///
    /// [`RealtimeGrowthError`]. A volume without a realtime section is refused.
    #[doc(alias = "XFS_IOC_FSGROWFSRT")]
    #[doc(alias = "xfs_growfs -r")]
    pub fn grow_realtime(&self, blocks: Option<u64>) -> Result<u64, RealtimeGrowthError> {
        let superblock = read_superblock(&self.data).map_err(OpenError::Volume)?;
        if let Some(reason) = superblock.refusal(VolumeAccess::Write) {
            return Err(OpenError::Volume(reason.into()).into());
        }
        if !superblock.has_writable_realtime() {
            return Err(OpenError::Volume(Unsupported::RealtimeGrowth.into()).into());
        }
        let Some(wanted) = self.size_to_grow_to(&superblock, blocks)? else {
            return Ok(superblock.realtime_blocks);
        };
        let (superblock, journal, opened) = self.open_journal(VolumeAccess::Write)?;
        let quota = opened.start_quota(&journal)?;
        let grown = if superblock.has_classic_realtime() {
            xfs_inode::grow_realtime_section(&journal, &superblock, wanted)
        } else {
            grow_groups(&journal, &superblock, wanted, self.options.options.clock.now())
        };
        let copied = grown.and_then(|grown| update_copies(&journal).map(|()| grown));
        let ended = journal.unmount();
        drop(quota);
        let grown = copied.map_err(GrowError::Failed)?;
        ended.map_err(GrowError::Failed)?;
        Ok(grown.realtime_blocks)
    }

    /// Returns the number of blocks to which the section grows, or `None` if it has that size.
    fn size_to_grow_to(
        &self,
        superblock: &Superblock,
        blocks: Option<u64>,
    ) -> Result<Option<u64>, RealtimeGrowthError> {
        let geometry = &superblock.geometry;
        let device = match (&self.realtime, geometry.realtime.is_internal()) {
            (_, true) => &self.data,
            (Some(device), false) => device,
            (None, false) => return Err(OpenError::RealtimeDeviceMissing.into()),
        };
        let has =
            (device.length_bytes() >> geometry.block_log).saturating_sub(geometry.realtime.start);
        let old = superblock.realtime_blocks;
        let wanted = blocks.unwrap_or(has.max(old));
        if wanted < old {
            return Err(GrowError::Shrinks { has: old, wanted }.into());
        }
        if wanted > has {
            return Err(GrowError::DeviceTooShort { wanted, has }.into());
        }
        let unit = u64::from(geometry.realtime_extent_blocks).max(1);
        let group = geometry.realtime.group_blocks;
        // Zones are never shorter than the others.
        let wanted = if superblock.has_zones() { wanted - wanted % group } else { wanted };
        if group != 0 && u32::try_from(wanted.div_ceil(group)).is_err() {
            return Err(GrowError::TooLarge { wanted }.into());
        }
        Ok((wanted / unit > superblock.realtime_extents).then_some(wanted))
    }
}

/// Grows a section with groups or zones step by step. Returns the superblock with the new sizes.
fn grow_groups(
    journal: &Arc<Journal>,
    superblock: &Superblock,
    blocks: u64,
    now: Timestamp,
) -> BufferResult<Superblock> {
    let space = RealtimeSpace::of(journal).ok_or(Unsupported::RealtimeData)?;
    let directory = realtime::groups_directory(journal, superblock)?;
    let extents = blocks / u64::from(superblock.geometry.realtime_extent_blocks).max(1);
    let mut before = superblock.clone();
    while before.realtime_extents < extents {
        let after = next_realtime_size(&before, blocks);
        let group = after.realtime_group_count - 1;
        if after.realtime_group_count == before.realtime_group_count {
            let inodes = realtime::group_inodes(journal, superblock, directory, group)?;
            xfs_inode::grow_realtime_group(journal, &before, &after, inodes)?;
        } else {
            NewGroup { journal, directory, superblock: &after, now }.add()?;
        }
        if !after.has_zones() {
            space.count_growth(after.realtime_extents - before.realtime_extents);
        }
        before = after;
    }
    Ok(before)
}

/// A realtime group that is added to the section.
struct NewGroup<'a> {
    journal: &'a Arc<Journal>,
    /// The directory `rtgroups` of the metadata directory.
    directory: InodeNumber,
    /// The superblock with the group, which is the last one.
    superblock: &'a Superblock,
    now: Timestamp,
}

/// The contents of a file of a realtime group.
#[derive(Clone, Copy)]
enum GroupFileContents {
    /// Blocks of the bitmap or of the summary.
    Blocks(RealtimeBlockKind, u64),
    /// The root of a btree.
    Btree(BtreeKind),
}

/// A file of a realtime group that is made.
struct GroupFile {
    name: String,
    metafile_type: u16,
    contents: GroupFileContents,
}

impl GroupFile {
    fn named(&self, group: u32) -> NewMetadataFile<'_> {
        NewMetadataFile {
            name: self.name.as_bytes(),
            metafile_type: self.metafile_type,
            is_directory: false,
            project_id: group,
        }
    }
}

impl NewGroup<'_> {
    const fn number(&self) -> u32 {
        self.superblock.realtime_group_count - 1
    }

    /// Returns the files of the group.
    fn files(&self) -> Vec<GroupFile> {
        let file = |name: &str, metafile_type, contents| {
            let name = format!("{}.{name}", self.number());
            GroupFile { name, metafile_type, contents }
        };
        let mut files = Vec::new();
        if !self.superblock.has_zones() {
            let RealtimeFileSizes { bitmap_blocks, summary_blocks } =
                RealtimeFileSizes::of(self.superblock);
            let bitmap = GroupFileContents::Blocks(RealtimeBlockKind::Bitmap, bitmap_blocks);
            let summary = GroupFileContents::Blocks(RealtimeBlockKind::Summary, summary_blocks);
            files.push(file("bitmap", BITMAP_METATYPE, bitmap));
            files.push(file("summary", SUMMARY_METATYPE, summary));
        }
        for (feature, name, kind) in [
            (RoCompatFeatures::RMAPBT, "rmap", BtreeKind::RealtimeReverseMap),
            (RoCompatFeatures::REFLINK, "refcount", BtreeKind::RealtimeRefcount),
        ] {
            if self.superblock.has_ro_compat(feature) {
                let metatype = MetadataRootLayout::metatype(kind);
                let metatype = metatype.expect("a btree of a realtime group has a metatype");
                files.push(file(name, metatype, GroupFileContents::Btree(kind)));
            }
        }
        files
    }

    /// Makes the files of the group, and then the group.
    #[doc(alias = "xfs_growfs_rtg")]
    fn add(&self) -> BufferResult<()> {
        let directory = Arc::new(LiveInode::load(self.journal, self.directory)?);
        let files = self.files();
        let mut made = Vec::new();
        let added = self
            .prepare(&directory, &files, &mut made)
            .and_then(|()| self.name(&directory, &files, &made));
        if added.is_err() && !self.journal.is_shut_down() {
            // The next recovery frees the files that this cannot free: they stay on their lists.
            made.iter().for_each(|live| drop(live.inactivate(self.journal)));
        }
        added
    }

    /// Makes the files without names, and writes their blocks.
    fn prepare(
        &self,
        directory: &Arc<LiveInode>,
        files: &[GroupFile],
        made: &mut Vec<Arc<LiveInode>>,
    ) -> BufferResult<()> {
        let inode_blocks = xfs_alloc::inode_blocks(self.journal.geometry());
        for file in files {
            let tx = self.journal.begin(TransactionKind::CreateUnnamed, inode_blocks)?;
            let live = tx.commit_or_cancel(|tx| {
                match prepare_metadata_file(tx, directory, file.name.as_bytes(), self.now) {
                    // The search may have refilled free lists, which is committed.
                    Err(Error::Posix(PosixError::NoSpace)) => Ok(None),
                    live => live.map(Some),
                }
            })?;
            let live = live.ok_or(PosixError::NoSpace)?;
            made.push(Arc::clone(&live));
            if let GroupFileContents::Blocks(kind, blocks) = file.contents {
                let file = NewSpaceFile { kind, owner: live.number() };
                for extent in live.fill_with_blocks(self.journal, blocks)? {
                    write_group_blocks(self.journal, self.superblock, file, &extent)?;
                }
            }
        }
        let flushed = self.journal.cache().device().flush();
        flushed.map_err(|source| IoError::new("flush", DiskAddr(0), 0, source).into())
    }

    /// Names the files, and sets the sizes of the section, in one transaction.
    fn name(
        &self,
        directory: &Arc<LiveInode>,
        files: &[GroupFile],
        made: &[Arc<LiveInode>],
    ) -> BufferResult<()> {
        let named: Vec<_> = files
            .iter()
            .zip(made)
            .map(|(file, live)| (Arc::clone(live), file.named(self.number())))
            .collect();
        let blocks = blocks_to_name(self.journal.geometry(), files.len());
        let mut tx = self.journal.begin_links(files.len() as u32, blocks)?;
        tx.set_synchronous();
        tx.commit_or_cancel(|tx| {
            name_metadata_files(tx, directory, &named, self.now)?;
            for (file, live) in files.iter().zip(made) {
                if let GroupFileContents::Btree(kind) = file.contents {
                    live.become_realtime_btree(tx, kind)?;
                }
            }
            log_realtime_sizes(tx, self.superblock)
        })
    }
}

/// Writes the superblock with the new sizes into its copies. Only repair tools read the copies.
fn update_copies(journal: &Arc<Journal>) -> BufferResult<()> {
    let geometry = journal.geometry();
    let primary = {
        let buffer =
            journal.cache().read(DiskAddr(0), geometry.sector_size, BlockKind::Superblock)?;
        let bytes = buffer.bytes();
        bytes.get(..size_of::<SuperblockDisk>()).expect("a sector holds a superblock").to_vec()
    };
    for group in geometry.groups().filter(|group| *group != AgNumber(0)) {
        let at = geometry.header_disk_addr(group, 0);
        let tx = journal.begin(TransactionKind::Superblock, 0)?;
        tx.commit_or_cancel(|tx| {
            let copy = tx.read(at, geometry.sector_size, BlockKind::Superblock)?;
            tx.change(&copy, 0..primary.len(), |bytes| bytes.copy_from_slice(&primary));
            Ok(())
        })?;
    }
    journal.force_all()
}
