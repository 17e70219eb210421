//! How many inodes are cached, and whether that is too many.
//!
//! Each slot counts insertions and removals, and adds the difference to the sum of the volume once
//! it is a batch. Inodes that come and go in one slot, as those that are looked at once do, never
//! reach the sum.

use xfs_sync::{AtomicU64, Ordering, Slot, Slots, Volume};

/// The largest batch: one write to shared state for that many inodes. Inodes that are made while
/// others must go count twice, as they come and as they go.
const MOST_BATCH: u64 = 1024;

/// The largest batch where many slots have one. Together the batches are the error of the sum.
const MOST_BATCH_OF_MANY: u64 = 256;

/// How many inodes one call evicts.
const MOST_AT_ONCE: u64 = 512;

#[derive(Default)]
struct Pending {
    /// Insertions less removals, modulo 2^64.
    change: AtomicU64<Slot>,
    /// The slot's share of the excess, found when it last added a batch.
    owed: AtomicU64<Slot>,
}

/// The number of cached inodes.
pub(crate) struct Size {
    most: u64,
    batch: u64,
    pending: Slots<Pending>,
    total: AtomicU64<Volume>,
}

impl Size {
    pub(crate) fn new(most: u64) -> Self {
        let pending = Slots::new(Pending::default);
        // At most an eighth of all is missing from the sum, unless that makes small batches.
        let share = most / (8 * pending.iter().len() as u64);
        let batch = share.clamp((most / 64).clamp(1, MOST_BATCH_OF_MANY), MOST_BATCH);
        Self { most, batch, pending, total: AtomicU64::new(0) }
    }

    /// Counts an insertion.
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    /// Counts a removal.
    pub(crate) fn subtract(&self) {
        self.subtract_many(1);
    }

    /// Counts insertions.
    pub(crate) fn add_many(&self, count: u64) {
        self.change(count);
    }

    /// Counts removals.
    pub(crate) fn subtract_many(&self, count: u64) {
        self.change(count.wrapping_neg());
    }

    fn change(&self, delta: u64) {
        let mine = self.pending.mine();
        let now = mine.change.fetch_add(delta, Ordering::Relaxed).wrapping_add(delta);
        if now.cast_signed().unsigned_abs() < self.batch {
            return;
        }
        let change = mine.change.swap(0, Ordering::Relaxed);
        let total = self.total.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        if total.cast_signed() > self.most.cast_signed() {
            mine.owed.store(2 * self.batch, Ordering::Relaxed);
        }
    }

    /// Returns how many inodes to evict now. The thread that added a batch calls it, and evicts a
    /// part at a time.
    pub(crate) fn due(&self) -> u64 {
        let mine = self.pending.mine();
        let owed = mine.owed.load(Ordering::Relaxed);
        if owed == 0 {
            return 0;
        }
        let due = self.excess().min(owed).min(MOST_AT_ONCE);
        mine.owed.store(if due == 0 { 0 } else { owed - due }, Ordering::Relaxed);
        due
    }

    /// Returns the inodes beyond the limit.
    pub(crate) fn excess(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed).cast_signed();
        (total - self.most.cast_signed()).max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests;
