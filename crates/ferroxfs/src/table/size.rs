//! How many inodes are in memory, and whether that is too many.
//!
//! Each slot counts what comes and goes in it, and adds that to the sum of the volume once it is a
//! batch. What comes and goes in one slot, as inodes that are looked at once do, is never added.

use xfs_sync::{AtomicBool, AtomicU64, Ordering, Slot, Slots, Volume};

/// The largest batch: one write that the volume shares, for so many.
const MOST_BATCH: u64 = 256;

#[derive(Default)]
struct Pending {
    /// What came less what went, modulo 2^64.
    change: AtomicU64<Slot>,
    /// Whether the volume held too many when this slot added its batch, and nobody has cared yet.
    too_many: AtomicBool<Slot>,
}

/// How many inodes are in memory.
pub(super) struct Size {
    most: u64,
    batch: u64,
    pending: Slots<Pending>,
    total: AtomicU64<Volume>,
}

impl Size {
    pub(super) fn new(most: u64) -> Self {
        let batch = (most / 64).clamp(1, MOST_BATCH);
        Self { most, batch, pending: Slots::new(Pending::default), total: AtomicU64::new(0) }
    }

    /// Notes an inode that came.
    pub(super) fn add(&self) {
        self.change(1);
    }

    /// Notes one that went.
    pub(super) fn subtract(&self) {
        self.change(u64::MAX);
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
            mine.too_many.store(true, Ordering::Relaxed);
        }
    }

    /// Inodes that have to go now: asked of each batch once, by the thread that added it.
    pub(super) fn due(&self) -> u64 {
        let mine = self.pending.mine();
        if !mine.too_many.load(Ordering::Relaxed) {
            return 0;
        }
        mine.too_many.store(false, Ordering::Relaxed);
        self.excess().min(2 * self.batch)
    }

    /// Inodes beyond what may stay.
    pub(super) fn excess(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed).cast_signed();
        (total - self.most.cast_signed()).max(0).cast_unsigned()
    }
}
