//! Growing a realtime section.
//!
//! Owns: the blocks of bitmaps and summaries, and the order of the steps inside a classic section
//! and inside a group. Does **not** own: the contents of these files (`grow.rs` in `realtime` of
//! `xfs-alloc`, with the crash argument), or new groups.

use std::sync::Arc;

use xfs_alloc::{
    RealtimeFileSizes, RealtimeFiles, RealtimeSpace, grow_realtime, next_realtime_size,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::log_item::LoggedFields;
use xfs_format::realtime::MetadataRootLayout;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{Superblock, Unsupported};
use xfs_format::{BlockKind, FileBlock};
use xfs_trans::{ForkBytes, Journal, Transaction};

use super::LiveInode;
use super::map::{MapRequest, map_blocks};
use super::realtime::{RealtimeGroupInodes, files_of};
use crate::edit::BlockRange;
use crate::fork_block::BlockShape;
use crate::fork_room::fork_bytes;

/// The largest number of blocks that a new file is given in one transaction.
const FILL_BLOCKS: u64 = 1024;

/// Grows the classic realtime section of a volume to `blocks` blocks. No thread may use the section
/// meanwhile, and its free space in memory is out of date afterwards. Returns the superblock with
/// the new sizes.
///
/// # Errors
///
/// [`Unsupported::RealtimeGrowth`] if the section would need a summary that is too large for one
/// transaction; [`PosixError::NoSpace`]; the device's error; the check that failed. The section
/// then has its old size, or a size between the old and the new one.
#[doc(alias = "xfs_growfs_rt")]
pub fn grow_realtime_section(
    journal: &Arc<Journal>,
    superblock: &Superblock,
    blocks: u64,
) -> Result<Superblock> {
    let unit = u64::from(superblock.geometry.realtime_extent_blocks).max(1);
    let bitmap = LiveInode::load(journal, superblock.realtime_bitmap_inode)?;
    let summary = LiveInode::load(journal, superblock.realtime_summary_inode)?;
    let space = RealtimeSpace::of(journal).ok_or(Unsupported::RealtimeData)?;
    // The recovery may have counted the free extents, or freed some.
    let mut before =
        Superblock { free_realtime_extents: space.free_extents(), ..superblock.clone() };
    while before.realtime_extents < blocks / unit {
        let after = next_realtime_size(&before, blocks);
        let sizes = RealtimeFileSizes::of(&after);
        if !RealtimeFiles::can_grow_to(sizes.summary_blocks) {
            return Err(Unsupported::RealtimeGrowth.into());
        }
        extend(journal, &bitmap, sizes.bitmap_blocks, BlockKind::RealtimeBitmap)?;
        extend(journal, &summary, sizes.summary_blocks, BlockKind::RealtimeSummary)?;
        let files = files_of(journal, &bitmap, &summary, sizes)?;
        let tx = journal.begin(TransactionKind::Truncate, 0)?;
        tx.commit_or_cancel(|tx| grow_realtime(tx, files, &before, &after))?;
        before = after;
    }
    Ok(before)
}

/// Grows the last group of a section with groups in one step: from the size in `before` to that in
/// `after`, the [next size](next_realtime_size). `inodes` has the files of the group.
///
/// # Errors
///
/// The device's error; the check that failed. The section then has its old size.
#[doc(alias = "xfs_growfs_rt_bmblock")]
pub fn grow_realtime_group(
    journal: &Arc<Journal>,
    before: &Superblock,
    after: &Superblock,
    inodes: RealtimeGroupInodes,
) -> Result<()> {
    let bitmap = LiveInode::load(journal, inodes.bitmap)?;
    let summary = LiveInode::load(journal, inodes.summary)?;
    let files = files_of(journal, &bitmap, &summary, RealtimeFileSizes::of(after))?;
    let tx = journal.begin(TransactionKind::Truncate, 0)?;
    tx.commit_or_cancel(|tx| grow_realtime(tx, files, before, after))
}

impl LiveInode {
    /// Gives an empty file `blocks` blocks, whose contents the caller writes to the device. Returns
    /// their extents. Several transactions allocate the blocks.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`]; the device's error; the check that failed. The file may then have
    /// some of the blocks.
    pub fn fill_with_blocks(&self, journal: &Arc<Journal>, blocks: u64) -> Result<Vec<Extent>> {
        let block_size = u64::from(journal.geometry().block_size);
        let mut next = 0;
        while next < blocks {
            let length_blocks = (blocks - next).min(FILL_BLOCKS);
            let reserved = length_blocks + map_blocks(journal.geometry(), ForkKind::Data);
            let range = BlockRange { start: FileBlock(next), length_blocks };
            let request = MapRequest { fork: ForkKind::Data, range, unwritten: false };
            let tx = journal.begin(TransactionKind::AllocateQuota, reserved)?;
            let mapped = tx.commit_or_cancel(|tx| {
                tx.join(self.log_item());
                match self.map(tx, &request) {
                    // The search may have refilled free lists, which is committed.
                    Err(Error::Posix(PosixError::NoSpace)) => Ok(None),
                    mapped => mapped.map(|extent| {
                        self.change(tx, |core| core.size = extent.end().0 * block_size);
                        Some(extent)
                    }),
                }
            })?;
            next = mapped.ok_or(PosixError::NoSpace)?.end().0;
        }
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
        Ok(map.iter().copied().collect())
    }

    /// Makes an empty file the inode of an empty btree of a realtime group. From then on it cannot
    /// be used as a file: this is the last change.
    ///
    /// # Errors
    ///
    /// [`Unsupported::MetadirWrite`] if realtime groups have no btree of this kind; the device's
    /// error.
    pub fn become_realtime_btree(&self, tx: &mut Transaction<'_>, kind: BtreeKind) -> Result<()> {
        let layout = {
            let inode = self.inode();
            let room = fork_bytes(inode.core(), ForkKind::Data, tx.geometry());
            let metatype = MetadataRootLayout::metatype(kind).unwrap_or(0);
            MetadataRootLayout::of_metatype(metatype, room).ok_or(Unsupported::MetadirWrite)?
        };
        let image = self.log_item().image()?;
        // Level 0, and no record.
        let fork = vec![0; layout.fork_bytes];
        tx.change_inode(
            self.log_item(),
            LoggedFields::DATA_ROOT,
            || image,
            |image| {
                image.core.data_format = ForkFormat::MetadataBtree;
                image.data = ForkBytes::Own(fork);
            },
        );
        Ok(())
    }
}

/// Adds blocks of zeros to a file, so that it has `blocks` blocks. Each block is added in a
/// transaction of its own, together with the size of the file.
#[doc(alias = "xfs_growfs_rt_alloc")]
fn extend(journal: &Arc<Journal>, file: &LiveInode, blocks: u64, kind: BlockKind) -> Result<()> {
    let block_size = u64::from(journal.geometry().block_size);
    let have = file.inode().core().size / block_size;
    let reserved = 1 + map_blocks(journal.geometry(), ForkKind::Data);
    let shape = BlockShape { length_blocks: 1, kind };
    for block in have..blocks {
        let tx = journal.begin(TransactionKind::AllocateQuota, reserved)?;
        let is_full = tx.commit_or_cancel(|tx| {
            let buffer = match file.grow_fork(tx, ForkKind::Data, FileBlock(block), shape) {
                // The search may have refilled free lists, which is committed.
                Err(Error::Posix(PosixError::NoSpace)) => return Ok(true),
                grown => grown?,
            };
            let length = buffer.length_bytes() as usize;
            tx.change(&buffer, 0..length, |bytes| bytes.fill(0));
            file.change(tx, |core| core.size = (block + 1) * block_size);
            Ok(false)
        })?;
        if is_full {
            return Err(PosixError::NoSpace.into());
        }
    }
    Ok(())
}
