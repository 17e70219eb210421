//! The active item list: items that are durable in the log and not yet in place.
//!
//! Owns: the items by LSN, the tail, and what they say about used space. Does **not** own writing
//! an item in place (the item does), or the thread that asks for it ([`log`](crate::log)).
//!
//! # Invariants
//!
//! - **I1** The tail is the LSN of the oldest item, or that of the last COMMIT if there is none; it
//!   never goes back.
//! - **I2** When a checkpoint completes, the head moves in the same step of [`Space`] in which its
//!   grant is given back.
//! - **I3** A checkpoint gives back as much grant as the head has moved, and what is left of its own.
//!   Records of a later checkpoint may lie before the COMMIT of an earlier one: then the earlier one
//!   gives back more than it had, and the later one, which still holds the grant for these bytes,
//!   that much less (`balance`).
//! - **I4** The tail is never past the START of a checkpoint that is being written: recovery reads
//!   from the tail on, and would not see that checkpoint begin.
//!
//! # The list
//!
//! The items of a checkpoint come together and mostly leave together, so there is a list of items for
//! each LSN, and a tree of the few LSNs: an item is placed and taken out without a search. What has been
//! written in place leaves without a lock, and the places of many are given up at once ([`in_place`]).
//!
//! Lock order: the writer, the list, then the waiters for space.

mod in_place;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xfs_format::{BASIC_BLOCK_BYTES, Lsn};
use xfs_sync::{AtomicU64, Condvar, Mutex, Ordering, SlotCounters, Volume};

pub use self::in_place::InPlace;
use crate::item::{ItemState, LogItem, Pushed};
use crate::space::Space;
use crate::state::LogState;

/// ItemGroup that a walk takes out of the list at once.
const BATCH_ITEMS: usize = 1024;

/// This share of the log is made free beyond what shall be free: a walk for a few items locks the list as
/// often as one for many.
const AHEAD_SHARE: u64 = 16;

/// Where an item stands: by LSN, and by arrival among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) lsn: Lsn,
    pub(crate) number: u64,
}

/// The record that holds a checkpoint's COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitRecord {
    /// Where it starts.
    pub(crate) start: Lsn,
    /// Where the next one starts.
    pub(crate) end: Lsn,
}

/// A checkpoint whose COMMIT is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableCheckpoint {
    pub(crate) sequence: u64,
    /// The record with its COMMIT.
    pub(crate) record: CommitRecord,
    /// The log space that it had been given.
    pub(crate) granted: u64,
}

/// ItemGroup of a durable checkpoint.
#[derive(Default)]
pub(crate) struct DurableItems {
    /// Those that stand in the list from now on, and where.
    pub(crate) placed: Vec<(Arc<dyn LogItem>, Lsn)>,
    /// Those that have nothing to wait for any more.
    pub(crate) leaving: Vec<Arc<dyn LogItem>>,
}

/// What a walk over the list has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// ItemGroup of which a write was started.
    pub started: usize,
    /// ItemGroup that a checkpoint pins.
    pub pinned: usize,
    /// ItemGroup that somebody holds locked.
    pub locked: usize,
    /// ItemGroup that are being written.
    pub underway: usize,
    /// ItemGroup that could not be written. The log must be shut down.
    pub failed: usize,
}

impl PushReport {
    fn add(&mut self, pushed: Pushed) {
        match pushed {
            Pushed::Done | Pushed::Started => self.started += 1,
            Pushed::Pinned => self.pinned += 1,
            Pushed::Failed => self.failed += 1,
            Pushed::Locked => self.locked += 1,
            Pushed::Underway => self.underway += 1,
        }
    }

    /// ItemGroup that are locked or being written: asking again helps.
    #[must_use]
    pub const fn busy(&self) -> usize {
        self.locked + self.underway
    }
}

/// What all walks over the list have met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Walks.
    #[doc(alias = "xs_push_ail")]
    pub walks: u64,
    /// As in [`PushReport`].
    #[doc(alias = "xs_push_ail_success")]
    pub started: u64,
    /// As in [`PushReport`].
    #[doc(alias = "xs_push_ail_pinned")]
    pub pinned: u64,
    /// As in [`PushReport`].
    #[doc(alias = "xs_push_ail_locked")]
    pub locked: u64,
    /// As in [`PushReport`].
    #[doc(alias = "xs_push_ail_flushing")]
    pub underway: u64,
}

/// ItemGroup that are not in place, by LSN.
pub struct Ail {
    space: Arc<Space>,
    log_blocks: u32,
    /// How much of the log shall be free.
    free_bytes: u64,
    tail: AtomicU64<Volume>,
    list: Mutex<AilList, Volume>,
    /// The list has become empty.
    removed: Condvar<Volume>,
    /// The fields of [`PushCounts`], in their order.
    pushes: SlotCounters<5>,
}

struct AilList {
    /// By LSN.
    groups: BTreeMap<Lsn, ItemGroup>,
    head: CommitRecord,
    /// START of each checkpoint that is being written, by sequence.
    starts: BTreeMap<u64, Lsn>,
    balance: i64,
    /// The log is shut down: a checkpoint that is durable all the same brings nothing in any more.
    closed: bool,
}

impl Ail {
    /// An empty list of a log with these head and tail, of which so much shall be free.
    pub(crate) fn new(
        space: Arc<Space>,
        log_blocks: u32,
        free_bytes: u64,
        state: &LogState,
    ) -> Self {
        let head = CommitRecord { start: state.tail, end: state.head };
        let list = AilList {
            groups: BTreeMap::new(),
            head,
            starts: BTreeMap::new(),
            balance: 0,
            closed: false,
        };
        let ail = Self {
            space,
            log_blocks,
            free_bytes,
            tail: AtomicU64::new(state.tail.0),
            list: Mutex::new(list),
            removed: Condvar::new(),
            pushes: SlotCounters::new(),
        };
        ail.space.set_used(ail.distance_bytes(state.tail, state.head));
        ail
    }

    /// Waits until the list is empty, but no longer than `limit`. Returns whether it is.
    pub(crate) fn await_empty(&self, limit: Duration) -> bool {
        let mut list = self.list.lock();
        if !list.groups.is_empty() {
            self.removed.wait_for(&mut list, limit);
        }
        list.groups.is_empty()
    }

    /// The oldest LSN that recovery needs.
    #[must_use]
    pub fn tail(&self) -> Lsn {
        Lsn(self.tail.load(Ordering::Acquire))
    }

    /// Where the record with the last durable COMMIT starts.
    #[must_use]
    pub fn head(&self) -> Lsn {
        self.list.lock().head.start
    }

    /// Whether everything is in place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.lock().groups.is_empty()
    }

    /// How many items are not in place.
    pub(crate) fn count(&self) -> u64 {
        self.list.lock().groups.values().map(|group| group.present as u64).sum()
    }

    /// Recovery has left these items open, and put everything else up to the head in place.
    pub(crate) fn adopt(&self, items: impl IntoIterator<Item = (Arc<dyn LogItem>, Lsn)>) {
        let mut list = self.list.lock();
        for (item, lsn) in items {
            assert!((list.head.start..list.head.end).contains(&lsn), "an item at {lsn}");
            list.place(item, lsn);
        }
        list.head.start = list.head.end;
        let used = self.move_tail(&list);
        self.space.set_used(used);
    }

    /// A checkpoint has its START in the record at `start`: the tail waits there until it is
    /// complete. Called before that record can be closed.
    pub(crate) fn begin(&self, sequence: u64, start: Lsn) {
        let mut list = self.list.lock();
        assert!(list.tail() <= start, "the tail {} is past START at {start}", list.tail());
        list.starts.insert(sequence, start);
    }

    /// ItemGroup of a checkpoint that is durable, which are taken over: some with where they stand from
    /// now on, which is never further back than before, and others that leave. All at once, since the
    /// whole volume waits for this list.
    pub(crate) fn insert_durable(&self, batch: &mut DurableItems) {
        let mut list = self.list.lock();
        let before = list.tail();
        if !list.closed {
            for (item, lsn) in batch.placed.drain(..) {
                list.place(item, lsn);
            }
        }
        for item in &batch.leaving {
            // Not the last reference: the batch has one.
            drop(list.leave(item.state()));
        }
        if !batch.leaving.is_empty() {
            self.note_removals(&list, before);
        }
        drop(list);
        // The log is shut down: what is left will never be in place.
        batch.placed.drain(..).for_each(|(item, _)| item.abandon());
        batch.leaving.clear();
    }

    /// A checkpoint is durable, and its items have been placed.
    pub(crate) fn complete(&self, durable: &DurableCheckpoint) {
        let DurableCheckpoint { sequence, record, granted } = *durable;
        let mut list = self.list.lock();
        list.starts.remove(&sequence);
        let written = self.distance_bytes(list.head.end, record.end);
        list.head = record;
        let rest = list.balance + granted as i64 - written as i64;
        list.balance = rest.min(0);
        let returned = written + rest.max(0) as u64;
        let used = self.move_tail(&list);
        self.space.move_head(used, returned);
    }

    /// The log has been ended at `end`, with everything in place, and begins anew there: the tail moves
    /// past the record that has ended it, as if the log had just been opened.
    ///
    /// # Panics
    ///
    /// If something is not in place.
    pub(crate) fn restart(&self, end: Lsn) {
        let mut list = self.list.lock();
        assert!(list.groups.is_empty() && list.starts.is_empty(), "a log in use");
        list.head = CommitRecord { start: end, end };
        let used = self.move_tail(&list);
        self.space.set_used(used);
    }

    /// ItemGroup have left a list that had this tail.
    fn note_removals(&self, list: &AilList, before: Lsn) {
        if list.tail() != before {
            let used = self.move_tail(list);
            self.space.set_used(used);
        }
        if list.groups.is_empty() {
            self.removed.notify_all();
        }
    }

    /// Empties the list, when the log has been shut down: nothing is written in place any more.
    pub(crate) fn abandon(&self) {
        let mut list = self.list.lock();
        list.closed = true;
        let items = std::mem::take(&mut list.groups).into_values().flat_map(|group| group.items);
        let items: Vec<_> =
            items.flatten().map(|item| (item.state().leave().is_some(), item)).collect();
        drop(list);
        // Outside the lock: the last reference to an item may be dropped here.
        let waiting = items.into_iter().filter(|(is_waiting, _)| *is_waiting);
        waiting.for_each(|(_, item)| item.abandon());
    }

    /// Up to where items shall be written in place, when less of the log is free than shall be.
    #[doc(alias = "xfs_ail_push_target")]
    #[must_use]
    pub fn target(&self) -> Option<Lsn> {
        if self.space.has_waiters() {
            return Some(self.head());
        }
        let limit = self.space.size_bytes() - self.free_bytes;
        let excess = self.space.in_use().used.checked_sub(limit).filter(|excess| *excess > 0)?;
        let tail = self.tail();
        let wanted = excess + self.space.size_bytes() / AHEAD_SHARE;
        let blocks = wanted.div_ceil(u64::from(BASIC_BLOCK_BYTES)) as u32;
        let end = tail.block() + blocks;
        Some(if end < self.log_blocks {
            Lsn::new(tail.cycle(), end)
        } else {
            let next = xfs_format::log_record::next_cycle(tail.cycle());
            Lsn::new(next, end - self.log_blocks)
        })
    }

    /// Asks every item up to `target` to be written in place, oldest first.
    ///
    /// The walk holds no reference into the list between two batches: it goes on from the position
    /// of the last item, whatever has become of that one.
    pub fn push(&self, target: Lsn) -> PushReport {
        let report = self.walk(target);
        let PushReport { started, pinned, locked, underway, .. } = report;
        let met = [1, started, pinned, locked, underway];
        met.iter().enumerate().for_each(|(kind, count)| self.pushes.add(kind, *count as u64));
        report
    }

    /// What all pushes since the log was opened have met.
    pub(crate) fn push_counts(&self) -> PushCounts {
        let [walks, started, pinned, locked, underway] =
            std::array::from_fn(|kind| self.pushes.sum(kind));
        PushCounts { walks, started, pinned, locked, underway }
    }

    fn walk(&self, target: Lsn) -> PushReport {
        let mut report = PushReport::default();
        let mut in_place = InPlace::new(self.space.mutant());
        let mut cursor = None;
        loop {
            let batch = self.batch(cursor, target);
            let Some((last, _)) = batch.last() else { return report };
            cursor = Some(*last);
            for (position, item) in batch {
                let pushed = item.push(&mut in_place);
                report.add(pushed);
                if pushed == Pushed::Done {
                    in_place.note(item.state(), position.lsn);
                }
                if in_place.end_push() {
                    self.sweep(&mut in_place);
                }
            }
            self.sweep(&mut in_place);
        }
    }

    /// The next items of a walk.
    fn batch(&self, after: Option<Position>, target: Lsn) -> Vec<(Position, Arc<dyn LogItem>)> {
        let list = self.list.lock();
        let from = after.map_or(Lsn(0), |position| position.lsn);
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        for (lsn, group) in list.groups.range(from..).take_while(|(lsn, _)| **lsn <= target) {
            let first = after.filter(|position| position.lsn == *lsn);
            let first = first.map_or(0, |position| position.number + 1);
            let rest = (first..).zip(group.items.iter().skip(first as usize));
            let there = rest.filter_map(|(number, item)| {
                let position = Position { lsn: *lsn, number };
                item.as_ref().map(|item| (position, Arc::clone(item)))
            });
            batch.extend(there.take(BATCH_ITEMS - batch.len()));
            if batch.len() == BATCH_ITEMS {
                break;
            }
        }
        batch
    }

    /// Stores the tail and returns the bytes between it and the head.
    fn move_tail(&self, list: &AilList) -> u64 {
        let tail = list.tail();
        self.tail.store(tail.0, Ordering::Release);
        self.distance_bytes(tail, list.head.end)
    }

    /// Bytes of the log from one place to a later one.
    fn distance_bytes(&self, from: Lsn, to: Lsn) -> u64 {
        let blocks = if from.cycle() == to.cycle() {
            to.block() - from.block()
        } else {
            self.log_blocks - from.block() + to.block()
        };
        u64::from(blocks) * u64::from(BASIC_BLOCK_BYTES)
    }
}

/// ItemGroup at one LSN, in the order of their arrival.
#[derive(Default)]
struct ItemGroup {
    /// An item that has left leaves its place empty.
    items: Vec<Option<Arc<dyn LogItem>>>,
    /// How many are there. A group of none is not in the list.
    present: usize,
}

impl AilList {
    fn tail(&self) -> Lsn {
        let oldest = self.groups.first_key_value().map(|(lsn, _)| *lsn);
        let started = self.starts.values().copied().min();
        started.into_iter().chain(oldest).min().unwrap_or(self.head.start).min(self.head.start)
    }

    /// Inserts an item, or moves it forward.
    fn place(&mut self, item: Arc<dyn LogItem>, lsn: Lsn) {
        match item.state().position() {
            Some(old) if old.lsn >= lsn => return,
            Some(old) => drop(self.remove(old)),
            None => {}
        }
        let group = self.groups.entry(lsn).or_default();
        let number = group.items.len() as u64;
        item.state().set_position(Position { lsn, number });
        group.items.push(Some(item));
        group.present += 1;
    }

    /// Takes an item out, wherever it stands.
    fn leave(&mut self, item: &ItemState) -> Option<Arc<dyn LogItem>> {
        let position = item.leave()?;
        self.remove(position)
    }

    /// Takes out what stands there.
    fn remove(&mut self, position: Position) -> Option<Arc<dyn LogItem>> {
        let group = self.groups.get_mut(&position.lsn)?;
        let item = group.items.get_mut(position.number as usize)?.take()?;
        group.present -= 1;
        if group.present == 0 {
            self.groups.remove(&position.lsn);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests;
