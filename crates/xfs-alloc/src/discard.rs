//! Discarding free blocks of a volume on request, or clearing them to zeros.
//!
//! Owns: the loop over the groups, the place of the realtime section in the range, and what happens
//! to the bytes. Does **not** own which blocks may be discarded (`group/discard.rs`,
//! `realtime/discard.rs`).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_device::{BlockDevice, Durability};
use xfs_format::AgNumber;
use xfs_format::reservation::TransactionKind;
use xfs_trans::Journal;

use crate::group::GroupSpace;
use crate::realtime::RealtimeSpace;
use crate::space::AllocatorState;

/// The number of bytes that are read at a time to find those that are not zero.
const PIECE_BYTES: u64 = 1 << 20;

/// The treatment of the bytes of free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSpaceClearing {
    /// The device may forget them. Later reads return undefined bytes. A device that supports no
    /// discards does nothing.
    Discard,
    /// They read as zeros. A file gets holes, if its host can make holes; otherwise zeros are
    /// written.
    Holes,
    /// They read as zeros. Zeros are written over other bytes, so that the space stays allocated.
    Zeros,
}

impl FreeSpaceClearing {
    /// Clears a range of bytes of a device.
    pub(crate) fn clear(
        self,
        device: &dyn BlockDevice,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        match self {
            Self::Discard => device.discard(offset, length),
            Self::Holes => device.write_zeros(offset, length),
            Self::Zeros => overwrite_with_zeros(device, offset, length),
        }
    }
}

/// Writes zeros over the parts of a range that hold other bytes. A hole of a file stays a hole.
fn overwrite_with_zeros(device: &dyn BlockDevice, offset: u64, length: u64) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(length.min(PIECE_BYTES)).unwrap_or(usize::MAX)];
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let count = (end - at).min(bytes.len() as u64);
        let piece = bytes.get_mut(..count as usize).expect("a piece is as long as the buffer");
        device.read_at(piece, at)?;
        if piece.iter().any(|byte| *byte != 0) {
            piece.fill(0);
            device.write_at(piece, at, Durability::Cached)?;
        }
        at += count;
    }
    Ok(())
}

/// Discards or clears free extents within a range of blocks of the volume, in runs of at least
/// `minimum_blocks`. Returns the number of these blocks. The blocks of the realtime section
/// follow those of the data section in the range, as in the kernel. A zone counts as free if it is
/// empty.
///
/// Other threads can allocate meanwhile: the header of a group is latched for a few extents at a
/// time.
///
/// # Errors
///
/// The device's error, the error that stopped the log, or a corrupt header or btree.
#[doc(alias = "xfs_ioc_trim")]
pub fn discard_free_space(
    journal: &Arc<Journal>,
    blocks: Range<u64>,
    minimum_blocks: u32,
    clearing: FreeSpaceClearing,
) -> Result<u64> {
    // Blocks that were freed a moment ago can then be discarded too.
    journal.force_all()?;
    let geometry = journal.geometry();
    let mut discarded = 0;
    for number in geometry.groups() {
        let first = u64::from(number.0) * u64::from(geometry.ag_blocks);
        let within = |block: u64| {
            u32::try_from(block.saturating_sub(first)).unwrap_or(u32::MAX).min(geometry.ag_blocks)
        };
        let (mut start, end) = (Some(within(blocks.start)), within(blocks.end));
        while let Some(from) = start.filter(|from| *from < end) {
            let turn = with_group(journal, number, |tx, group| {
                group.discard_free(tx, from..end, minimum_blocks.max(1), clearing)
            })?;
            discarded += turn.blocks;
            start = turn.next;
        }
    }
    let Some(space) = RealtimeSpace::of(journal) else { return Ok(discarded) };
    let within = |block: u64| block.saturating_sub(geometry.data_blocks);
    let section = within(blocks.start)..within(blocks.end).min(geometry.realtime.blocks);
    Ok(discarded + space.discard_free(journal, &section, minimum_blocks.into(), clearing)?)
}

/// Turns on discards of freed blocks. From then on, once a free is durable, the blocks are
/// discarded before they are used again.
#[doc(alias = "XFS_MOUNT_DISCARD")]
pub fn enable_discard(journal: &Journal) {
    AllocatorState::of(journal).set_discards();
}

/// Forces the log, so that all frees are durable. Then latches each group once. Latching a group
/// discards its freed blocks that have not been discarded yet. Does nothing unless
/// [`enable_discard`] was called.
///
/// # Errors
///
/// The error that stopped the log, the device's error, or a corrupt header.
pub fn discard_remaining(journal: &Arc<Journal>) -> Result<()> {
    if !AllocatorState::of(journal).discards() {
        return Ok(());
    }
    journal.force_all()?;
    if let Some(space) = RealtimeSpace::of(journal) {
        space.discard_remaining(journal)?;
    }
    journal.geometry().groups().try_for_each(|number| with_group(journal, number, |_, _| Ok(())))
}

/// Latches a group in a transaction that changes nothing, and calls a function with the group.
fn with_group<R>(
    journal: &Arc<Journal>,
    number: AgNumber,
    act: impl FnOnce(&xfs_trans::Transaction<'_>, &GroupSpace) -> Result<R>,
) -> Result<R> {
    journal.begin(TransactionKind::ChangeInode, 0)?.cancel_after(|tx| {
        let group = GroupSpace::open(tx, number)?;
        let group = group.expect("a step that keeps no header waits for any (I1 of `group`)");
        let done = act(tx, &group);
        group.leave(tx);
        done
    })
}
