//! Growing a realtime section.
//!
//! Owns: one step of the growth, and the sizes after it. Does **not** own: the blocks of the bitmap
//! and the summary, which the caller has added to both files before, making the files of new
//! groups, or the choice of the final size.
//!
//! | step | adds |
//! |---|---|
//! | classic section, or the last group | at most the extents of one block of the bitmap |
//! | new group or zone | the group as a whole, at most up to the final size |
//!
//! # Crash argument
//!
//! A step is one transaction. In a classic section, it moves the counters of the summary to the
//! places that they have with the new number of bitmap blocks. It frees the new extents, and sets
//! the sizes in the superblock. So after a crash the section has its size before or after some
//! step, and bitmap, summary and count fit this size. Blocks of the two files past that size are
//! not used.
//!
//! The files of a group have their full size from the start, so that a group grows in the same way.
//! The step of a new group names its files in the metadata directory and sets the sizes
//! ([`log_realtime_sizes`]). The files have their contents before.

use core::mem::offset_of;

use xfs_buffer::{IoError, Result};
use xfs_device::Durability;
use xfs_format::extent::Extent;
use xfs_format::realtime::RealtimeBlockKind;
use xfs_format::superblock::{Superblock, SuperblockDisk};
use xfs_format::{BlockKind, DiskAddr, FsBlock, InodeNumber};
use xfs_mkfs::EmptyGroupBlock;
use xfs_trans::{Journal, Transaction};

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

/// Returns the superblock after the next step of growing a section to `blocks` blocks.
#[must_use]
pub fn next_realtime_size(before: &Superblock, blocks: u64) -> Superblock {
    let unit = u64::from(before.geometry.realtime_extent_blocks).max(1);
    let all = blocks / unit;
    let mut after = before.clone();
    let extents = if before.geometry.realtime.group_count == 0 {
        let per_block = block_bytes(before) * super::BITS_PER_BYTE;
        let next = (before.realtime_extents / per_block + 1) * per_block;
        let extents = next.min(all);
        after.realtime_bitmap_blocks =
            u32::try_from(extents.div_ceil(per_block)).unwrap_or(u32::MAX);
        extents
    } else {
        let (group, count) =
            (u64::from(before.realtime_group_extents), before.realtime_group_count);
        let end = u64::from(count) * group;
        if before.realtime_extents < end {
            let per_block = block_bytes(before) * super::BITS_PER_BYTE;
            let start = end - group;
            let next = start + ((before.realtime_extents - start) / per_block + 1) * per_block;
            next.min(end).min(all)
        } else {
            after.realtime_group_count = count + 1;
            after.geometry.realtime.group_count = count + 1;
            (end + group).min(all)
        }
    };
    after.realtime_extents = extents;
    // The blocks after the last whole extent belong to the section of the last step.
    after.realtime_blocks = if extents == all { blocks } else { extents * unit };
    if !before.has_zones() {
        after.free_realtime_extents += extents - before.realtime_extents;
    }
    after.geometry.realtime.blocks = extents * unit;
    after
}

/// Grows a classic section, or the last group of a section with groups, from the size in `before`
/// to that in `after`, which is [`next_realtime_size`] of `before`. `files` has the blocks that the
/// new size needs.
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
    let group = before.geometry.realtime.group_count.saturating_sub(1);
    let (old, new) = (sizes(before, group), sizes(after, group));
    tx.join(&files.bitmap_record);
    tx.leave(&files.bitmap_record);
    let owners = [files.bitmap_record.number(), files.summary_inode];
    let owners = before.has_realtime_groups().then_some(owners);
    let files = SpaceFiles { bitmap: files.bitmap, summary: files.summary, owners };
    let mut words = JoinedWords::new(tx, &files);
    if old.bitmap_blocks != new.bitmap_blocks {
        move_counters(&mut words, old, new)?;
    }
    FreeRuns::new(&mut words, new).release(&(old.extents..new.extents))?;
    log_realtime_sizes(tx, after)
}

/// The bitmap or the summary of a new group.
#[derive(Clone, Copy, Debug)]
pub struct NewSpaceFile {
    /// The kind of its blocks.
    pub kind: RealtimeBlockKind,
    /// The inode of the file.
    pub owner: InodeNumber,
}

/// Writes the blocks of an extent of the bitmap or the summary of a new group, the last group of
/// `superblock`. All extents of the group are free. The blocks are not durable on return.
///
/// # Errors
///
/// The device's error.
pub fn write_group_blocks(
    journal: &Journal,
    superblock: &Superblock,
    file: NewSpaceFile,
    extent: &Extent,
) -> Result<()> {
    let geometry = journal.geometry();
    let group = superblock.geometry.realtime.group_count.saturating_sub(1);
    let SpaceSizes { extents, bitmap_blocks, .. } = sizes(superblock, group);
    let NewSpaceFile { kind, owner } = file;
    for block in 0..u64::from(extent.length_blocks) {
        let at = geometry.block_disk_addr(FsBlock(extent.start.0 + block));
        let at = at.expect("a block that was allocated lies in the volume");
        let index = extent.file_block.0 + block;
        let mut bytes = vec![0; geometry.block_size as usize];
        let contents = EmptyGroupBlock { kind, owner, extents, bitmap_blocks, index, at };
        contents.encode(geometry, &mut bytes);
        let offset = at.byte_offset().expect("a block of the volume has an offset");
        let written = journal.cache().device().write_at(&bytes, offset, Durability::Cached);
        written.map_err(|source| IoError::new("write", at, bytes.len() as u64, source))?;
    }
    Ok(())
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

/// Sets the sizes of the realtime section in the superblock. The count of free extents is set for a
/// classic section only: elsewhere it is a lazy counter, or is not stored.
///
/// # Errors
///
/// The device's error.
pub fn log_realtime_sizes(tx: &mut Transaction<'_>, after: &Superblock) -> Result<()> {
    let length_bytes = tx.geometry().sector_size;
    let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
    let log = after.realtime_extents.checked_ilog2().unwrap_or(0) as u8;
    let mut put = |offset: usize, bytes: &[u8]| {
        tx.change(&buffer, offset..offset + bytes.len(), |field| field.copy_from_slice(bytes));
    };
    put(offset_of!(SuperblockDisk, realtime_blocks), &after.realtime_blocks.to_be_bytes());
    put(offset_of!(SuperblockDisk, realtime_extents), &after.realtime_extents.to_be_bytes());
    put(offset_of!(SuperblockDisk, realtime_extents_log), &[log]);
    if after.geometry.realtime.group_count != 0 {
        let count = after.realtime_group_count.to_be_bytes();
        put(offset_of!(SuperblockDisk, realtime_group_count), &count);
        return Ok(());
    }
    let bitmap_blocks = after.realtime_bitmap_blocks.to_be_bytes();
    put(offset_of!(SuperblockDisk, realtime_bitmap_blocks), &bitmap_blocks);
    let free = after.free_realtime_extents.to_be_bytes();
    put(offset_of!(SuperblockDisk, free_realtime_extents), &free);
    Ok(())
}
