//! The number of cached inodes, and how many of them are too many.
//!
//! Each processor slot counts insertions and removals. Once the difference reaches a limit, the
//! batch, the slot adds it to the sum of the volume. If one slot inserts inodes and soon removes
//! them, such as inodes that are read only once, these changes never reach the sum.

use xfs_sync::{AtomicU64, Ordering, Slot, Slots, Volume};

/// The largest batch, in inodes. A processor slot counts insertions and removals by itself, and
/// adds the difference to the shared sum only when it reaches a batch. In a full cache, a slot
/// fills one batch with insertions and the next one with evictions.
const MOST_BATCH: u64 = 1024;

/// The largest batch (see `MOST_BATCH`) on a machine with many processor slots. The shared sum of
/// inodes can be wrong by one batch for each slot.
const MOST_BATCH_OF_MANY: u64 = 256;

/// The most inodes that one call of reclaim evicts.
const MOST_AT_ONCE: u64 = 512;

#[derive(Default)]
struct Pending {
    /// The number of insertions minus the number of removals that the slot has not added to the sum
    /// of the volume yet, modulo 2^64.
    change: AtomicU64<Slot>,
    /// Number of inodes that the processor slot still has to evict. The field is set when the slot
    /// adds a batch to the sum of the volume and the sum is then above the limit.
    owed: AtomicU64<Slot>,
}

/// The number of cached inodes, counted by processor slot, and the limit of that number.
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

    /// Counts the insertion of one inode.
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    /// Counts the removal of one inode.
    pub(crate) fn subtract(&self) {
        self.subtract_many(1);
    }

    /// Counts the insertions of `count` inodes.
    pub(crate) fn add_many(&self, count: u64) {
        self.change(count);
    }

    /// Counts the removals of `count` inodes.
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

    /// Returns how many inodes the calling thread must evict now. The number is a part of the
    /// inodes that the thread's processor slot still has to evict.
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

    /// Returns the difference between the number of cached inodes, summed over the volume, and the
    /// limit. Returns 0 if the number is not above the limit.
    pub(crate) fn excess(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed).cast_signed();
        (total - self.most.cast_signed()).max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests;
