//! Counters of operations on names and attributes. Each thread counts in the slot of its processor,
//! so that threads do not write the same memory.

use xfs_sync::SlotCounters;

/// A kind of operation that is counted. Each operation is counted when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A directory was searched for a name.
    NameLookup,
    /// A name was added to a directory.
    NameAdded,
    /// A name was removed from a directory.
    NameRemoved,
    /// A part of a directory was listed.
    Listing,
    /// An attribute was read.
    AttributeRead,
    /// An attribute was set.
    AttributeSet,
    /// An attribute was removed.
    AttributeRemoved,
    /// Attributes were listed.
    AttributeListing,
}

const KINDS: usize = Activity::AttributeListing as usize + 1;

/// Counters of operations on names and attributes, one for each kind.
#[derive(Default)]
pub struct ActivityCounts(SlotCounters<KINDS>);

impl ActivityCounts {
    /// Counts one operation of the kind `activity`.
    pub(crate) fn note(&self, activity: Activity) {
        self.0.add(activity as usize, 1);
    }

    /// Returns how often operations of the kind `activity` were counted, summed over all threads.
    pub fn sum(&self, activity: Activity) -> u64 {
        self.0.sum(activity as usize)
    }
}
