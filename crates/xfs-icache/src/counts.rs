//! What happened to the inodes in memory, counted by slot.

use xfs_sync::SlotCounters;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
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
pub struct InodeCounts(SlotCounters<KINDS>);

impl InodeCounts {
    pub(crate) fn new() -> Self {
        Self(SlotCounters::new())
    }

    /// Notes that it has happened.
    pub(crate) fn note(&self, count: Count) {
        self.note_many(count, 1);
    }

    /// Notes that it has happened so often.
    pub(crate) fn note_many(&self, count: Count, times: u64) {
        self.0.add(count as usize, times);
    }

    /// How often that has happened.
    pub fn sum(&self, count: Count) -> u64 {
        self.0.sum(count as usize)
    }
}
