//! Growing a classic realtime section.
//!
//! Owns: one step of the growth. A step adds at most the extents for which one more block of the
//! bitmap has bits. Does **not** own: the blocks of the bitmap and the summary, which the caller
//! has added to both files before, or the choice of the new size.
//!
//! # Crash argument
//!
//! A step is one transaction: it moves the counters of the summary to the places that they have
//! with the new number of bitmap blocks, frees the new extents, and sets the sizes in the
//! superblock. So after a crash the section has its size before or after some step, and bitmap,
//! summary and count fit this size. Blocks of the two files past that size are not used.

use core::mem::offset_of;

use xfs_buffer::Result;
use xfs_format::superblock::{Superblock, SuperblockDisk};
use xfs_format::{BlockKind, DiskAddr};
use xfs_trans::Transaction;

use super::runs::{FreeRuns, SpaceSizes, SpaceWords};
use super::words::{JoinedWords, SpaceFiles};
use super::{RealtimeFiles, block_bytes, sizes};

/// The largest number of blocks of a summary whose counters one transaction can move.
const MOST_SUMMARY_BLOCKS: u64 = 48;

impl RealtimeFiles {
    /// Returns whether a section whose summary will have `blocks` blocks can grow: one transaction
    /// must be able to move all counters.
    #[must_use]
    pub const fn can_grow_to(blocks: u64) -> bool {
        blocks <= MOST_SUMMARY_BLOCKS
    }
}

/// Returns the superblock after the next step of growing a section to `blocks` blocks. The step
/// adds at most the extents of one more block of the bitmap.
#[must_use]
pub fn next_realtime_size(before: &Superblock, blocks: u64) -> Superblock {
    let unit = u64::from(before.geometry.realtime_extent_blocks).max(1);
    let per_block = block_bytes(before) * super::BITS_PER_BYTE;
    let all = blocks / unit;
    let next = (before.realtime_extents / per_block + 1) * per_block;
    let extents = next.min(all);
    let bitmap_blocks = extents.div_ceil(per_block);
    let added = extents - before.realtime_extents;
    let mut after = before.clone();
    after.realtime_extents = extents;
    // The blocks after the last whole extent belong to the section of the last step.
    after.realtime_blocks = if extents == all { blocks } else { extents * unit };
    after.realtime_bitmap_blocks = u32::try_from(bitmap_blocks).unwrap_or(u32::MAX);
    after.free_realtime_extents += added;
    after.geometry.realtime.blocks = extents * unit;
    after
}

/// Grows the section from the size in `before` to that in `after`, which is
/// [`next_realtime_size`] of `before`. `files` has the blocks that the new size needs.
///
/// # Errors
///
/// The device's error; a corruption if a new extent is not marked as in use, or if a counter of the
/// summary is wrong. The transaction must then be cancelled.
#[doc(alias = "xfs_growfs_rt_bmblock")]
pub fn grow_realtime(
    tx: &mut Transaction<'_>,
    files: RealtimeFiles,
    before: &Superblock,
    after: &Superblock,
) -> Result<()> {
    let (old, new) = (sizes(before, 0), sizes(after, 0));
    tx.join(&files.bitmap_record);
    tx.leave(&files.bitmap_record);
    let files = SpaceFiles { bitmap: files.bitmap, summary: files.summary, owners: None };
    let mut words = JoinedWords::new(tx, &files);
    if old.bitmap_blocks != new.bitmap_blocks {
        move_counters(&mut words, old, new)?;
    }
    FreeRuns::new(&mut words, new).release(&(old.extents..new.extents))?;
    log_sizes(tx, after)
}

/// Moves each counter of the summary to its place with the new number of bitmap blocks.
#[doc(alias = "xfs_rtcopy_summary")]
fn move_counters(words: &mut impl SpaceWords, old: SpaceSizes, new: SpaceSizes) -> Result<()> {
    let mut counters = Vec::new();
    for level in 0..u64::from(old.levels()) {
        for block in 0..old.bitmap_blocks {
            let counter = words.counter(level * old.bitmap_blocks + block)?;
            if counter != 0 {
                counters.push((level, block, counter));
            }
        }
    }
    for (level, block, _) in &counters {
        words.set_counter(level * old.bitmap_blocks + block, 0)?;
    }
    for (level, block, counter) in counters {
        words.set_counter(level * new.bitmap_blocks + block, counter)?;
    }
    Ok(())
}

fn log_sizes(tx: &mut Transaction<'_>, after: &Superblock) -> Result<()> {
    let length_bytes = tx.geometry().sector_size;
    let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
    let log = after.realtime_extents.checked_ilog2().unwrap_or(0) as u8;
    let mut put = |offset: usize, bytes: &[u8]| {
        tx.change(&buffer, offset..offset + bytes.len(), |field| field.copy_from_slice(bytes));
    };
    put(offset_of!(SuperblockDisk, realtime_blocks), &after.realtime_blocks.to_be_bytes());
    put(offset_of!(SuperblockDisk, realtime_extents), &after.realtime_extents.to_be_bytes());
    let bitmap_blocks = after.realtime_bitmap_blocks.to_be_bytes();
    put(offset_of!(SuperblockDisk, realtime_bitmap_blocks), &bitmap_blocks);
    put(offset_of!(SuperblockDisk, realtime_extents_log), &[log]);
    let free = after.free_realtime_extents.to_be_bytes();
    put(offset_of!(SuperblockDisk, free_realtime_extents), &free);
    Ok(())
}
