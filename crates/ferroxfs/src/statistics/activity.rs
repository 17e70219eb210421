//! What was done to names and attributes, counted by slot where the operation that did it ends.

use xfs_sync::SlotCounters;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
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

const KINDS: usize = Activity::AttributeListing as usize + 1;

/// Counters of everything in [`Activity`].
#[derive(Default)]
pub(crate) struct ActivityCounts(SlotCounters<KINDS>);

impl ActivityCounts {
    /// Notes that it has been done.
    pub(crate) fn note(&self, activity: Activity) {
        self.0.add(activity as usize, 1);
    }

    /// How often that has been done.
    pub(super) fn sum(&self, activity: Activity) -> u64 {
        self.0.sum(activity as usize)
    }
}
