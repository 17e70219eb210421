//! Blocks of a realtime group that several files share.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_btree::{BtreeStore, Editor, Seek};
use xfs_buffer::Result;
use xfs_format::AgBlock;
use xfs_format::FsBlock;
use xfs_format::realtime::RealtimeRefcounts;
use xfs_format::refcount::{Refcount, RefcountDomain};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{Journal, Transaction};

use super::tree::edit_tree;
use super::work::{in_group, latch, space_of};
use crate::deferred::{defer_free_realtime, defer_unstage};
use crate::extent::BlockExtent;
use crate::owner::Section;
use crate::sharing::SharingRun;

/// Returns the longest run of blocks of the realtime section from `start` on, at most
/// `length_blocks`, that are all shared or all unshared. Waits until a crash can no longer give
/// unshared blocks back to a file that shared them, as
/// [`overwritable_run`](crate::overwritable_run) does.
///
/// # Errors
///
/// The device's error, a corrupt block, or the error that stopped the log.
pub fn realtime_sharing_run(
    journal: &Arc<Journal>,
    start: FsBlock,
    length_blocks: u32,
) -> Result<SharingRun> {
    let unshared = SharingRun { shared: false, length_blocks };
    let space = space_of(journal)?;
    let place = in_group(journal.geometry(), BlockExtent { start, length_blocks })?;
    let group = space.group(place.number as usize);
    let Some(record) = &group.refcounts else { return Ok(unshared) };
    // No thread changes the counts of the group while the inode of their btree is latched.
    let tx = journal.begin(TransactionKind::ChangeInode, 0)?;
    let (run, sequence) = tx.cancel_after(|tx| {
        latch(tx, record);
        let first = place.blocks.start;
        let run = edit_tree::<RealtimeRefcounts, _>(tx, &space.reserve, record, |editor| {
            run_of(editor, AgBlock(first), length_blocks)
        })?;
        let start = u64::from(first);
        let busy = || group.busy_sequence(&(start..start + u64::from(run.length_blocks)));
        let sequence = if run.shared { None } else { busy() };
        Ok((run, sequence))
    })?;
    let durable = journal.durable_sequence();
    sequence
        .filter(|sequence| *sequence > durable)
        .map_or(Ok(()), |sequence| journal.force(sequence))?;
    Ok(run)
}

/// Returns the run of blocks from `block` on that are all shared or all unshared.
fn run_of<S: BtreeStore>(
    editor: &mut Editor<RealtimeRefcounts, S>,
    block: AgBlock,
    length_blocks: u32,
) -> Result<SharingRun> {
    let end = AgBlock(block.0.saturating_add(length_blocks));
    let before = editor.seek(Seek::AtOrBefore((RefcountDomain::Shared, block)))?;
    if let Some(first) = before.filter(|record| record.end() > block) {
        let mut shared_end = first.end();
        while shared_end < end {
            match editor.advance()? {
                Some(next) if is_shared(&next) && next.start == shared_end => {
                    shared_end = next.end();
                }
                _ => break,
            }
        }
        return Ok(SharingRun { shared: true, length_blocks: shared_end.min(end).0 - block.0 });
    }
    let next = editor.seek(Seek::AtOrAfter((RefcountDomain::Shared, block)))?;
    let next_start = next.filter(is_shared).map_or(end, |record| record.start.min(end));
    Ok(SharingRun { shared: false, length_blocks: (next_start.0 - block.0).max(1) })
}

fn is_shared(record: &Refcount) -> bool {
    record.domain == RefcountDomain::Shared
}

/// Frees all blocks of realtime groups that are staged for copy-on-write, and returns the number of
/// freed blocks.
///
/// # Errors
///
/// The device's error, a corrupt btree, or the error that stopped the log.
pub(crate) fn recover_realtime_leftovers(journal: &Arc<Journal>) -> Result<u64> {
    let Ok(space) = space_of(journal) else { return Ok(0) };
    let (mut freed, log) = (0, journal.geometry().realtime.group_blocks_log);
    for (number, group) in (0_u64..).zip(&space.groups) {
        let Some(record) = &group.refcounts else { continue };
        let free_first = |tx: &mut Transaction<'_>| {
            latch(tx, record);
            let first = edit_tree::<RealtimeRefcounts, _>(tx, &space.reserve, record, |editor| {
                editor.seek(Seek::AtOrAfter((RefcountDomain::Staging, AgBlock(0))))
            })?;
            let Some(staged) = first.filter(|record| !is_shared(record)) else {
                return Ok(ControlFlow::Break(()));
            };
            let start = FsBlock(number << log | u64::from(staged.start.0));
            let extent = BlockExtent { start, length_blocks: staged.count };
            defer_unstage(tx, Section::Realtime, extent);
            defer_free_realtime(tx, extent);
            Ok(ControlFlow::Continue(u64::from(staged.count)))
        };
        while let ControlFlow::Continue(blocks) =
            journal.begin(TransactionKind::Write, 0)?.commit_or_break(free_first)?
        {
            freed += blocks;
        }
    }
    Ok(freed)
}
