//! What happened to the inodes in memory, and what was done by way of them, counted by slot.

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
    /// A directory was searched for a name.
    NameLookup,
    /// A name was added to a directory.
    NameAdded,
    /// A name was removed from one.
    NameRemoved,
    /// A piece of a directory was listed.
    Listing,
    /// An attribute was asked for.
    AttributeRead,
    /// An attribute was set.
    AttributeSet,
    /// An attribute was removed.
    AttributeRemoved,
    /// Attributes were listed.
    AttributeListing,
}

const KINDS: usize = Count::AttributeListing as usize + 1;

/// Counters of everything in [`Count`].
pub(crate) struct InodeCounts(Slots<[AtomicU64<Slot>; KINDS]>);

impl InodeCounts {
    pub(super) fn new() -> Self {
        Self(Slots::new(Default::default))
    }

    /// Notes that it has happened.
    pub(crate) fn note(&self, count: Count) {
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
