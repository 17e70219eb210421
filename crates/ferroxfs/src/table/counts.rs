//! What happened to the inodes in memory, counted by slot.

use xfs_sync::{AtomicU64, Ordering, Slot, Slots};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// An inode was asked for by its number.
    Attempt,
    /// It was in memory.
    Found,
    /// It was in memory, and had no user.
    Recycled,
    /// It was read.
    Missed,
    /// It was read, and somebody else had brought it in meanwhile.
    Duplicate,
    /// One came in that was just made.
    Made,
    /// A use was given up.
    Released,
    /// One left memory.
    Evicted,
    /// One left memory because it was freed.
    Freed,
}

const KINDS: usize = Count::Freed as usize + 1;

/// Counters of everything in [`Count`].
pub(crate) struct InodeCounts(Slots<[AtomicU64<Slot>; KINDS]>);

impl InodeCounts {
    pub(super) fn new() -> Self {
        Self(Slots::new(Default::default))
    }

    pub(super) fn note(&self, count: Count) {
        if let Some(counter) = self.0.mine().get(count as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often that has happened.
    pub(crate) fn sum(&self, count: Count) -> u64 {
        let of = |slot: &[AtomicU64<Slot>; KINDS]| {
            slot.get(count as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
        };
        self.0.iter().map(of).sum()
    }
}
