//! Growing a classic realtime section.
//!
//! Owns: the blocks of the bitmap and the summary, and the order of the steps. Does **not** own:
//! the contents of the two files (`grow.rs` in `realtime` of `xfs-alloc`, with the crash argument).

use std::sync::Arc;

use xfs_alloc::{
    RealtimeFileSizes, RealtimeFiles, RealtimeSpace, grow_realtime, next_realtime_size,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{Superblock, Unsupported};
use xfs_format::{BlockKind, FileBlock};
use xfs_trans::Journal;

use super::LiveInode;
use super::map::map_blocks;
use super::realtime::files_of;
use crate::fork_block::BlockShape;

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
