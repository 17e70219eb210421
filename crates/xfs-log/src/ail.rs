//! The active item list (AIL): items that are durable in the log and not yet "in place", that is,
//! written to their home locations on disk.
//!
//! Owns: the items by LSN, the tail, and the used log space that follows from it. Does **not** own
//! writing an item in place (the item does), or the thread that requests it ([`log`](crate::log)).
//!
//! # Invariants
//!
//! - **I1** The tail is the LSN of the oldest item, or that of the last COMMIT if there is no
//!   item. The tail never moves back.
//! - **I2** When a checkpoint completes, the head moves and its grant is given back in one step of
//!   [`LogSpace`].
//! - **I3** A checkpoint gives back as much grant as the head has moved, and the rest of its own
//!   grant. Records of a later checkpoint may lie before the COMMIT of an earlier one. Then the
//!   earlier one gives back more than it had, and the later one, which still holds the grant for
//!   these bytes, gives back that much less (`balance`).
//! - **I4** The tail is never past the START of a checkpoint that is being written. Recovery reads
//!   from the tail on, and would not see that checkpoint begin.
//!
//! # The list
//!
//! The items of a checkpoint arrive together and mostly leave together. So there is a list of items
//! for each LSN, and a tree of the few LSNs: an item is inserted and removed without a search. An
//! item that has been written in place leaves without a lock, and the positions of many such items
//! are swept at once ([`in_place`]).
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
use crate::space::LogSpace;
use crate::state::LogState;

/// The greatest number of items that a walk takes from the list at once.
const BATCH_ITEMS: usize = 1024;

/// The log size is divided by this number. The result is the space that a push of the AIL frees in
/// addition to the needed space. The additional items cost little: a walk takes items from the list
/// in batches, so it hardly locks the list more often if it writes many items.
const AHEAD_SHARE: u64 = 16;

/// The position of an item in the AIL: its LSN, and its index among the items at that LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AilPosition {
    pub(crate) lsn: Lsn,
    pub(crate) number: u64,
}

/// The place in the log of the record that holds a checkpoint's COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitRecord {
    /// The LSN at which the record starts.
    pub(crate) start: Lsn,
    /// The LSN at which the next record starts.
    pub(crate) end: Lsn,
}

/// A checkpoint whose COMMIT is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableCheckpoint {
    pub(crate) sequence: u64,
    /// The record that holds the checkpoint's COMMIT.
    pub(crate) record: CommitRecord,
    /// Number of bytes of log space that the checkpoint had been granted.
    pub(crate) granted: u64,
}

/// The changes that a durable checkpoint makes to the AIL.
#[derive(Default)]
pub(crate) struct DurableItems {
    /// Items to add to the AIL, with their LSNs.
    pub(crate) placed: Vec<(Arc<dyn LogItem>, Lsn)>,
    /// Items to remove from the AIL.
    pub(crate) leaving: Vec<Arc<dyn LogItem>>,
}

/// The outcome of one push: one walk over the AIL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Number of items whose write this push started, and of items that this push found already
    /// written.
    pub started: usize,
    /// Number of items that a checkpoint pins: they cannot be written before that checkpoint is
    /// durable.
    pub pinned: usize,
    /// Number of items that another thread holds locked.
    pub locked: usize,
    /// Number of items that an earlier push is still writing.
    pub underway: usize,
    /// Number of items that could not be written. If there are any, the log must be shut down.
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

    /// Returns the number of items that this push found locked or being written. A later push can
    /// write them.
    #[must_use]
    pub const fn busy(&self) -> usize {
        self.locked + self.underway
    }
}

/// The sums of the reports of all pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Number of pushes, that is, of walks over the AIL.
    #[doc(alias = "xs_push_ail")]
    pub walks: u64,
    /// Number of items whose write a push started, and of items that a push found already written.
    /// An item counts once for each push that met the item. The next three fields count in the same
    /// way.
    #[doc(alias = "xs_push_ail_success")]
    pub started: u64,
    /// Number of items that a checkpoint pinned.
    #[doc(alias = "xs_push_ail_pinned")]
    pub pinned: u64,
    /// Number of items that another thread held locked.
    #[doc(alias = "xs_push_ail_locked")]
    pub locked: u64,
    /// Number of items that an earlier push was still writing.
    #[doc(alias = "xs_push_ail_flushing")]
    pub underway: u64,
}

/// The active item list: items that are durable in the log and not yet written to their home
/// locations on disk, by LSN.
pub struct Ail {
    space: Arc<LogSpace>,
    log_blocks: u32,
    /// Number of bytes of the log that pushes keep free.
    free_bytes: u64,
    /// The number of items above which items are written in place although the log has room.
    most_items: u64,
    tail: AtomicU64<Volume>,
    list: Mutex<AilList, Volume>,
    /// The condition variable that is signalled when the list becomes empty.
    removed: Condvar<Volume>,
    /// The counters of [`PushCounts`], in the order of its fields.
    pushes: SlotCounters<5>,
}

struct AilList {
    /// The items at each LSN.
    groups: BTreeMap<Lsn, ItemGroup>,
    /// Number of items in all groups.
    present: u64,
    head: CommitRecord,
    /// The LSN of the START of each checkpoint that is being written, by checkpoint sequence.
    starts: BTreeMap<u64, Lsn>,
    balance: i64,
    /// Whether the log is shut down. After a shutdown no checkpoint adds items, not even a durable
    /// one.
    closed: bool,
}

impl Ail {
    /// Creates the empty list of a log of `log_blocks` blocks. Head and tail are those of `state`.
    /// Pushes will keep `free_bytes` bytes of the log free.
    pub(crate) fn new(
        space: Arc<LogSpace>,
        log_blocks: u32,
        free_bytes: u64,
        state: &LogState,
    ) -> Self {
        let head = CommitRecord { start: state.tail, end: state.head };
        let list = AilList {
            groups: BTreeMap::new(),
            present: 0,
            head,
            starts: BTreeMap::new(),
            balance: 0,
            closed: false,
        };
        let ail = Self {
            space,
            log_blocks,
            free_bytes,
            most_items: u64::MAX,
            tail: AtomicU64::new(state.tail.0),
            list: Mutex::new(list),
            removed: Condvar::new(),
            pushes: SlotCounters::new(),
        };
        ail.space.set_used(ail.distance_bytes(state.tail, state.head));
        ail
    }

    /// Sets the number of items above which [`excess`](Self::excess) names items to write in place.
    pub(crate) fn with_most_items(mut self, items: u64) -> Self {
        self.most_items = items;
        self
    }

    /// Waits until the list is empty, but no longer than `limit`. Returns whether the list was
    /// empty at the end of the wait.
    pub(crate) fn await_empty(&self, limit: Duration) -> bool {
        let mut list = self.list.lock();
        if !list.groups.is_empty() {
            self.removed.wait_for(&mut list, limit);
        }
        list.groups.is_empty()
    }

    /// Returns the tail: the oldest LSN that recovery needs.
    #[must_use]
    pub fn tail(&self) -> Lsn {
        Lsn(self.tail.load(Ordering::Acquire))
    }

    /// Returns the LSN of the record that holds the last durable COMMIT.
    #[must_use]
    pub fn head(&self) -> Lsn {
        self.list.lock().head.start
    }

    /// Returns whether all items are written to their home locations on disk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.lock().groups.is_empty()
    }

    /// Returns the number of items that are not yet written to their home locations on disk.
    pub(crate) fn count(&self) -> u64 {
        self.list.lock().present
    }

    /// Adds the intents that recovery has left open. All other items up to the head are already at
    /// their home locations on disk.
    pub(crate) fn adopt(&self, items: impl IntoIterator<Item = (Arc<dyn LogItem>, Lsn)>) {
        let mut list = self.list.lock();
        for (item, lsn) in items {
            assert!(
                (list.head.start..list.head.end).contains(&lsn),
                "an open item at {lsn} is outside the log"
            );
            list.place(item, lsn);
        }
        list.head.start = list.head.end;
        let used = self.move_tail(&list);
        self.space.set_used(used);
    }

    /// Records that the START of the checkpoint `sequence` is in the record at `start`. The tail
    /// waits at `start` until the checkpoint is complete (I4). The log writer calls this before any
    /// thread can close that record.
    pub(crate) fn begin(&self, sequence: u64, start: Lsn) {
        let mut list = self.list.lock();
        assert!(list.tail() <= start, "the tail {} is past START at {start} (I4)", list.tail());
        list.starts.insert(sequence, start);
    }

    /// Adds and removes the items of a durable checkpoint. An added item never moves back to an
    /// older LSN. The list is locked once for all items of `batch`, because the whole volume waits
    /// for this lock.
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
        // The log is shut down: these items will never be in place.
        batch.placed.drain(..).for_each(|(item, _)| item.abandon());
        batch.leaving.clear();
    }

    /// Completes a durable checkpoint, whose items have been inserted: moves the head and gives
    /// back the grant (I2, I3).
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

    /// Restarts a log after an unmount record, with every item at its home location on disk. `end`
    /// is the LSN just after the record. The tail moves there, as if the log had just been opened.
    ///
    /// # Panics
    ///
    /// Panics if the list is not empty, or a checkpoint is being written.
    pub(crate) fn restart(&self, end: Lsn) {
        let mut list = self.list.lock();
        assert!(list.groups.is_empty() && list.starts.is_empty(), "a log in use was restarted");
        list.head = CommitRecord { start: end, end };
        let used = self.move_tail(&list);
        self.space.set_used(used);
    }

    /// Moves the tail after items have left the list. `before` is the tail before they left.
    fn note_removals(&self, list: &AilList, before: Lsn) {
        if list.tail() != before {
            let used = self.move_tail(list);
            self.space.set_used(used);
        }
        if list.groups.is_empty() {
            self.removed.notify_all();
        }
    }

    /// Empties the list after a shutdown: no item is written to its home location on disk any more.
    pub(crate) fn abandon(&self) {
        let mut list = self.list.lock();
        list.closed = true;
        list.present = 0;
        let items = std::mem::take(&mut list.groups).into_values().flat_map(|group| group.items);
        let items: Vec<_> =
            items.flatten().map(|item| (item.state().leave().is_some(), item)).collect();
        drop(list);
        // Outside the lock: the last reference to an item may be dropped here.
        let waiting = items.into_iter().filter(|(is_waiting, _)| *is_waiting);
        waiting.for_each(|(_, item)| item.abandon());
    }

    /// Returns the LSN up to which items must be written to their home locations on disk, or `None`
    /// if enough of the log is free.
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

    /// Returns the LSN up to which items must be written in place so that the list has fewer items
    /// than the most, by a quarter. Returns `None` if the list has no more than the most.
    ///
    /// Log space does not ask for these writes. They bound the memory of the items: an item keeps
    /// its buffer, or the image of its inode, until it is in place.
    pub(crate) fn excess(&self) -> Option<Lsn> {
        if self.most_items == u64::MAX {
            return None;
        }
        let list = self.list.lock();
        let mut rest = list.present;
        if rest <= self.most_items {
            return None;
        }
        let kept = self.most_items - self.most_items / 4;
        let mut groups = list.groups.iter();
        let last = groups.find(|(_, group)| {
            rest -= group.present as u64;
            rest <= kept
        });
        last.map(|(lsn, _)| *lsn)
    }

    /// Requests that every item up to `target` be written to its home location on disk, oldest
    /// first.
    ///
    /// The push takes the items from the list in batches. Between two batches the push holds no
    /// reference into the list. It continues after the position of the last item of the batch, even
    /// if that item has left the list.
    pub fn push(&self, target: Lsn) -> PushReport {
        let report = self.walk(target);
        let PushReport { started, pinned, locked, underway, .. } = report;
        let met = [1, started, pinned, locked, underway];
        met.iter().enumerate().for_each(|(kind, count)| self.pushes.add(kind, *count as u64));
        report
    }

    /// Returns the counts of all pushes since the log was opened, as sums.
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

    /// Returns the next items of a walk, at most `BATCH_ITEMS`: those that follow the position
    /// `after`, up to the LSN `target`. With `None`, begins at the oldest item.
    fn batch(
        &self,
        after: Option<AilPosition>,
        target: Lsn,
    ) -> Vec<(AilPosition, Arc<dyn LogItem>)> {
        let list = self.list.lock();
        let from = after.map_or(Lsn(0), |position| position.lsn);
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        for (lsn, group) in list.groups.range(from..).take_while(|(lsn, _)| **lsn <= target) {
            let first = after.filter(|position| position.lsn == *lsn);
            let first = first.map_or(0, |position| position.number + 1);
            let rest = (first..).zip(group.items.iter().skip(first as usize));
            let there = rest.filter_map(|(number, item)| {
                let position = AilPosition { lsn: *lsn, number };
                item.as_ref().map(|item| (position, Arc::clone(item)))
            });
            batch.extend(there.take(BATCH_ITEMS - batch.len()));
            if batch.len() == BATCH_ITEMS {
                break;
            }
        }
        batch
    }

    /// Computes the tail from the list, and stores it. Returns the number of bytes between the tail
    /// and the head.
    fn move_tail(&self, list: &AilList) -> u64 {
        let tail = list.tail();
        // A tail moves back only if it has passed the START of a checkpoint that completes now.
        let before = self.tail();
        debug_assert!(before <= tail, "the tail {before} has passed START at {tail} (I1, I4)");
        self.tail.store(tail.0, Ordering::Release);
        self.distance_bytes(tail, list.head.end)
    }

    /// Returns the number of bytes of the log between one LSN and a later one.
    fn distance_bytes(&self, from: Lsn, to: Lsn) -> u64 {
        let blocks = if from.cycle() == to.cycle() {
            to.block() - from.block()
        } else {
            self.log_blocks - from.block() + to.block()
        };
        u64::from(blocks) * u64::from(BASIC_BLOCK_BYTES)
    }
}

/// The panic message for an item that the list does not hold at the position in its [`ItemState`].
/// The list would hold this item at another position for ever, and the tail of the log could not
/// move past it.
const HOLDS_ITEM: &str = "the AIL holds an item at its position";

/// The items at one LSN, in the order of their arrival.
#[derive(Default)]
struct ItemGroup {
    /// The items, in the order of arrival. An item that has left the list is `None`.
    items: Vec<Option<Arc<dyn LogItem>>>,
    /// Number of items that have not left the list. The list holds no group without items.
    present: usize,
}

impl AilList {
    fn tail(&self) -> Lsn {
        let oldest = self.groups.first_key_value().map(|(lsn, _)| *lsn);
        let started = self.starts.values().copied().min();
        started.into_iter().chain(oldest).min().unwrap_or(self.head.start).min(self.head.start)
    }

    /// Inserts an item at `lsn`, or moves it there from an older LSN. Does nothing if the item is
    /// already at `lsn` or later.
    fn place(&mut self, item: Arc<dyn LogItem>, lsn: Lsn) {
        match item.state().position() {
            Some(old) if old.lsn >= lsn => return,
            Some(old) => drop(self.remove(old)),
            None => {}
        }
        let group = self.groups.entry(lsn).or_default();
        let number = group.items.len() as u64;
        item.state().set_position(AilPosition { lsn, number });
        group.items.push(Some(item));
        group.present += 1;
        self.present += 1;
    }

    /// Removes an item from the list, at whatever position the item is, and returns it. Returns
    /// `None` if the item is not in the list.
    fn leave(&mut self, item: &ItemState) -> Option<Arc<dyn LogItem>> {
        Some(self.remove(item.leave()?))
    }

    /// Removes the item at a position. The list has an item there: the caller has found it there,
    /// or has read the position from the state of the item while the list was locked.
    fn remove(&mut self, position: AilPosition) -> Arc<dyn LogItem> {
        let group = self.groups.get_mut(&position.lsn).expect(HOLDS_ITEM);
        let place = group.items.get_mut(position.number as usize).expect(HOLDS_ITEM);
        let item = place.take().expect(HOLDS_ITEM);
        group.present -= 1;
        self.present -= 1;
        if group.present == 0 {
            self.groups.remove(&position.lsn);
        }
        item
    }
}

#[cfg(test)]
mod tests;
