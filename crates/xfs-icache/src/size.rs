//! How many inodes are in memory, and whether that is too many.
//!
//! Each slot counts what comes and goes in it, and adds that to the sum of the volume once it is a
//! batch. What comes and goes in one slot, as inodes that are looked at once do, is never added.

use xfs_sync::{AtomicU64, Ordering, Slot, Slots, Volume};

/// The largest batch: one write that the volume shares, for so many. Inodes that are made while others
/// have to go are added twice, as they come and as they go.
const MOST_BATCH: u64 = 1024;

/// The largest batch where many slots have one: together they make the sum wrong by so much.
const MOST_BATCH_OF_MANY: u64 = 256;

/// How many inodes one call lets go.
const MOST_AT_ONCE: u64 = 512;

#[derive(Default)]
struct Pending {
    /// What came less what went, modulo 2^64.
    change: AtomicU64<Slot>,
    /// How many may have to go, of those that the volume held too many when this slot added its batch.
    owed: AtomicU64<Slot>,
}

/// How many inodes are in memory.
pub(crate) struct Size {
    most: u64,
    batch: u64,
    pending: Slots<Pending>,
    total: AtomicU64<Volume>,
}

impl Size {
    pub(crate) fn new(most: u64) -> Self {
        let pending = Slots::new(Pending::default);
        // An eighth of all is not added at most, but where that makes small batches.
        let share = most / (8 * pending.iter().len() as u64);
        let batch = share.clamp((most / 64).clamp(1, MOST_BATCH_OF_MANY), MOST_BATCH);
        Self { most, batch, pending, total: AtomicU64::new(0) }
    }

    /// Notes an inode that came.
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    /// Notes one that went.
    pub(crate) fn subtract(&self) {
        self.subtract_many(1);
    }

    /// Notes so many that came.
    pub(crate) fn add_many(&self, count: u64) {
        self.change(count);
    }

    /// Notes so many that went.
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

    /// Inodes that have to go now: asked for each batch by the thread that added it, a part at a time.
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

    /// Inodes beyond what may stay.
    pub(crate) fn excess(&self) -> u64 {
        let total = self.total.load(Ordering::Relaxed).cast_signed();
        (total - self.most.cast_signed()).max(0).cast_unsigned()
    }
}
