//! Discarding free blocks of a volume on request.
//!
//! Owns: the loop over the groups, and the place of the realtime section in the range. Does **not**
//! own which blocks may be discarded (`group/discard.rs`, `realtime/discard.rs`).

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::AgNumber;
use xfs_format::reservation::TransactionKind;
use xfs_trans::Journal;

use crate::group::GroupSpace;
use crate::realtime::RealtimeSpace;
use crate::space::AllocatorState;

/// Discards free extents within a range of blocks of the volume, in runs of at least
/// `minimum_blocks`. Returns the number of blocks discarded. The blocks of the realtime section
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
                group.discard_free(tx, from..end, minimum_blocks.max(1))
            })?;
            discarded += turn.blocks;
            start = turn.next;
        }
    }
    let Some(space) = RealtimeSpace::of(journal) else { return Ok(discarded) };
    let within = |block: u64| block.saturating_sub(geometry.data_blocks);
    let section = within(blocks.start)..within(blocks.end).min(geometry.realtime.blocks);
    Ok(discarded + space.discard_free(journal, &section, minimum_blocks.into())?)
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
