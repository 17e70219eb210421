//! Events of the inode cache, counted by processor slot.

use xfs_sync::SlotCounters;

/// An event of the inode cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A lookup by number.
    Attempt,
    /// Of those: the inode was cached.
    Found,
    /// Of those: the inode was cached and unreferenced.
    Recycled,
    /// Of those: the inode was read.
    Missed,
    /// The inode was read while another thread inserted it.
    Duplicate,
    /// A new inode was inserted.
    Made,
    /// A reference was released.
    Released,
    /// An inode was evicted.
    Evicted,
    /// An inode left the cache because it was freed.
    Freed,
}

const KINDS: usize = Count::Freed as usize + 1;

/// Counters of all events in [`Count`].
pub struct InodeCounts(SlotCounters<KINDS>);

impl InodeCounts {
    pub(crate) fn new() -> Self {
        Self(SlotCounters::new())
    }

    /// Counts one event.
    pub(crate) fn note(&self, count: Count) {
        self.note_many(count, 1);
    }

    /// Counts several events.
    pub(crate) fn note_many(&self, count: Count, times: u64) {
        self.0.add(count as usize, times);
    }

    /// Returns the count of an event.
    pub fn sum(&self, count: Count) -> u64 {
        self.0.sum(count as usize)
    }
}
