//! One realtime group, or the whole of a section without groups: its free space and its btrees.
//!
//! Owns: the files and the inodes of the group, the number of its free extents, and the extents
//! that were freed and are not durable yet. Does **not** own the choice of the group.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{BufferCache, Result};
use xfs_format::realtime::RealtimeSpaceCheck;
use xfs_sync::{AtomicU64, Group, Mutex, Ordering};
use xfs_trans::{InodeRecord, Journal, Transaction};

use super::runs::{FreeRuns, SpaceSizes, corrupt};
use super::words::{CachedWords, JoinedWords, SpaceFiles};
use crate::space::AllocatorState;

/// The free space and the btrees of a group.
#[derive(Debug)]
pub(super) struct RealtimeGroup {
    /// The log record of the inode whose latch protects the free space: that of the bitmap, or in a
    /// zone that of the reverse map.
    pub(super) space_record: Arc<InodeRecord>,
    pub(super) files: SpaceFiles,
    pub(super) sizes: SpaceSizes,
    /// The inode of the reverse map; `None` if the group has none.
    pub(super) reverse_map: Option<Arc<InodeRecord>>,
    /// The inode of the reference counts; `None` if the group has none.
    pub(super) refcounts: Option<Arc<InodeRecord>>,
    /// Number of free realtime extents.
    free: AtomicU64<Group>,
    busy: Mutex<BusyRuns, Group>,
}

/// The runs of extents that were freed and may not be used again yet, because their freeing is not
/// durable.
#[derive(Debug, Default)]
struct BusyRuns {
    runs: Vec<BusyRun>,
    /// Runs whose freeing has become durable, and that wait to be discarded. Empty unless the
    /// volume discards freed space.
    expired: Vec<Range<u64>>,
    next_ticket: u64,
}

impl BusyRuns {
    /// Removes the runs whose step is durable. Keeps them in `expired` if `discards`.
    fn expire(&mut self, durable: u64, discards: bool) {
        let is_durable =
            |run: &mut BusyRun| run.sequence.is_some_and(|sequence| sequence <= durable);
        let expired = self.runs.extract_if(.., is_durable).map(|run| run.extents);
        if discards {
            self.expired.extend(expired);
        } else {
            expired.for_each(drop);
        }
    }
}

/// Extents that were freed by a step that may not be durable yet.
#[derive(Debug)]
struct BusyRun {
    extents: Range<u64>,
    /// The number by which the step finds the run when the step is committed.
    ticket: u64,
    /// The checkpoint with the step that freed the extents. `None`: the step is not committed yet.
    sequence: Option<u64>,
}

/// The inodes of the btrees of a group.
#[derive(Debug, Default)]
pub(super) struct GroupTrees {
    pub(super) reverse_map: Option<Arc<InodeRecord>>,
    pub(super) refcounts: Option<Arc<InodeRecord>>,
}

/// The place of a group's extents on the realtime device, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtentBytes {
    /// Offset of the group's first extent on the device.
    pub(super) start: u64,
    /// Length of an extent.
    pub(super) extent: u64,
}

impl ExtentBytes {
    /// Returns the range of bytes of the device that a run of extents has.
    pub(super) fn of(&self, extents: &Range<u64>) -> Range<u64> {
        self.start + extents.start * self.extent..self.start + extents.end * self.extent
    }
}

/// Returns whether the volume discards freed blocks.
pub(super) fn discards(journal: &Journal) -> bool {
    AllocatorState::of(journal).discards()
}

impl RealtimeGroup {
    pub(super) fn new(
        space_record: Arc<InodeRecord>,
        files: SpaceFiles,
        sizes: SpaceSizes,
        trees: GroupTrees,
    ) -> Self {
        let GroupTrees { reverse_map, refcounts } = trees;
        Self {
            space_record,
            files,
            sizes,
            reverse_map,
            refcounts,
            free: AtomicU64::new(0),
            busy: Mutex::default(),
        }
    }

    /// Latches the free space of the group until the end of the current step (I1 of
    /// [`realtime`](super)).
    pub(super) fn lock(&self, tx: &mut Transaction<'_>) {
        tx.join(&self.space_record);
        tx.leave(&self.space_record);
    }

    /// Returns the number of free realtime extents.
    pub(super) fn free_extents(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    pub(super) fn set_free_extents(&self, free: u64) {
        self.free.store(free, Ordering::Relaxed);
    }

    /// Counts the free extents in the bitmap.
    pub(super) fn recount(&self, cache: &BufferCache) -> Result<u64> {
        FreeRuns::new(&mut CachedWords::new(cache, &self.files), self.sizes).count()
    }

    /// Finds a run of up to `wanted` free extents near extent `near`, and takes it into use. The
    /// group is locked. Returns `None` if no extent is free.
    pub(super) fn take(
        &self,
        tx: &mut Transaction<'_>,
        near: u64,
        wanted: u64,
    ) -> Result<Option<Range<u64>>> {
        let mut words = CachedWords::new(tx.cache(), &self.files);
        let found = FreeRuns::new(&mut words, self.sizes).find(near, wanted)?;
        let Some(run) = found else { return Ok(None) };
        let (counted, found) = (self.free_extents(), run.end - run.start);
        let Some(free) = counted.checked_sub(found) else {
            return Err(corrupt(RealtimeSpaceCheck::FreeCount { counted, found }));
        };
        // I3 of `realtime`: a crash must not undo the freeing of extents that are in use again.
        self.wait_until_free(tx.journal(), &run)?;
        FreeRuns::new(&mut JoinedWords::new(tx, &self.files), self.sizes).take(&run)?;
        self.set_free_extents(free);
        Ok(Some(run))
    }

    /// Makes a range of extents in use free. The group is locked.
    pub(super) fn release(&self, tx: &mut Transaction<'_>, extents: &Range<u64>) -> Result<()> {
        let free = self.free_extents() + (extents.end - extents.start);
        FreeRuns::new(&mut JoinedWords::new(tx, &self.files), self.sizes).release(extents)?;
        self.set_free_extents(free);
        Ok(())
    }

    /// Notes extents that this step frees, until the step is durable (I3 of
    /// [`realtime`](super)). Returns the ticket for [`settle_busy`](Self::settle_busy).
    pub(super) fn note_busy(&self, tx: &Transaction<'_>, extents: Range<u64>) -> u64 {
        let mut busy = self.busy.lock();
        busy.expire(tx.journal().durable_sequence(), discards(tx.journal()));
        let ticket = busy.next_ticket;
        busy.next_ticket += 1;
        busy.runs.push(BusyRun { extents, ticket, sequence: None });
        ticket
    }

    /// Discards the extents whose freeing has become durable since the last call, as far as they
    /// are still free. The group is locked, so that no thread takes them meanwhile. Errors are
    /// ignored: a discard is only a hint.
    pub(super) fn discard_expired(&self, journal: &Journal, bytes: &ExtentBytes) {
        if !discards(journal) {
            return;
        }
        let expired = {
            let mut busy = self.busy.lock();
            busy.expire(journal.durable_sequence(), true);
            core::mem::take(&mut busy.expired)
        };
        let Some(device) = journal.cache().realtime_device() else { return };
        let mut words = CachedWords::new(journal.cache(), &self.files);
        let mut runs = FreeRuns::new(&mut words, self.sizes);
        for extents in expired {
            let mut at = extents.start;
            while let Ok(Some(free)) = runs.first_free(at..extents.end) {
                at = free.end;
                // Others may have been freed again, by a step that is not durable.
                if self.busy_sequence(&free).is_none() {
                    let bytes = bytes.of(&free);
                    drop(device.discard(bytes.start, bytes.end - bytes.start));
                }
            }
        }
    }

    /// Returns the parts of a free run whose freeing is durable, in order. The group is locked.
    pub(super) fn durably_free(&self, journal: &Journal, run: Range<u64>) -> Vec<Range<u64>> {
        let mut busy = self.busy.lock();
        busy.expire(journal.durable_sequence(), discards(journal));
        let mut held: Vec<Range<u64>> = busy.runs.iter().map(|run| run.extents.clone()).collect();
        drop(busy);
        held.sort_unstable_by_key(|extents| extents.start);
        let (mut parts, mut at) = (Vec::new(), run.start);
        for extents in held {
            if at < extents.start.min(run.end) {
                parts.push(at..extents.start.min(run.end));
            }
            at = at.max(extents.end);
        }
        if at < run.end {
            parts.push(at..run.end);
        }
        parts
    }

    /// Records the checkpoint with the step that has got this ticket.
    pub(super) fn settle_busy(&self, ticket: u64, sequence: u64) {
        for run in self.busy.lock().runs.iter_mut().filter(|run| run.ticket == ticket) {
            run.sequence = Some(sequence);
        }
    }

    /// Returns the newest checkpoint with a step that has freed some of these extents, or has taken
    /// them from a file that shared them. Returns `None` if there is no such step.
    pub(super) fn busy_sequence(&self, extents: &Range<u64>) -> Option<u64> {
        let meets =
            |run: &BusyRun| run.extents.start < extents.end && extents.start < run.extents.end;
        let busy = self.busy.lock();
        busy.runs.iter().filter(|run| meets(run)).filter_map(|run| run.sequence).max()
    }

    /// Waits until the extents of a run may be used again (I3 of [`realtime`](super)).
    pub(super) fn wait_until_free(&self, journal: &Journal, extents: &Range<u64>) -> Result<()> {
        match self.busy_sequence(extents) {
            Some(sequence) if sequence > journal.durable_sequence() => journal.force(sequence),
            _ => Ok(()),
        }
    }
}
