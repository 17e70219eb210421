//! Counters of events of the inode cache, one set for each processor slot.

use xfs_sync::SlotCounters;

/// An event of the inode cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A lookup by inode number.
    Attempt,
    /// A lookup whose inode was cached.
    Found,
    /// A lookup whose inode was cached and had no reference.
    Recycled,
    /// A lookup that read the inode, because it was not cached.
    Missed,
    /// A lookup that read the inode and then found that another thread had inserted it meanwhile.
    Duplicate,
    /// A new inode was made and inserted.
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

    /// Counts `times` events.
    pub(crate) fn note_many(&self, count: Count, times: u64) {
        self.0.add(count as usize, times);
    }

    /// Returns the count of one event, summed over all processor slots.
    pub fn sum(&self, count: Count) -> u64 {
        self.0.sum(count as usize)
    }
}
