//! Counters of operations on the extent maps of a volume's files. Each per-CPU slot has its own
//! counters.

use xfs_sync::SlotCounters;
use xfs_trans::Journal;

/// A kind of operation that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapUse {
    /// A lookup of the mapping of file data, for a read.
    #[doc(alias = "xs_blk_mapr")]
    Read,
    /// An allocation of blocks for a range of a fork, or a conversion between written and
    /// unwritten.
    #[doc(alias = "xs_blk_mapw")]
    Write,
    /// One transaction step that unmaps blocks of a fork.
    #[doc(alias = "xs_blk_unmap")]
    Unmap,
    /// An extent was added to a map.
    #[doc(alias = "xs_add_exlist")]
    Insertion,
    /// An extent, or a part of one, was removed from a map.
    #[doc(alias = "xs_del_exlist")]
    Deletion,
}

const KINDS: usize = MapUse::Deletion as usize + 1;

/// For each kind in [`MapUse`], the number of operations.
#[derive(Default)]
pub struct MapCounts(SlotCounters<KINDS>);

impl MapCounts {
    /// Returns the counters of the volume to which `journal` belongs.
    #[must_use]
    pub fn of(journal: &Journal) -> &Self {
        journal.extension(Self::default)
    }

    /// Counts one operation of the kind `what`, in the counters of the calling thread's per-CPU
    /// slot.
    pub fn note(&self, what: MapUse) {
        self.0.add(what as usize, 1);
    }

    /// Returns the number of operations of the kind `what`, summed over all per-CPU slots.
    #[must_use]
    pub fn sum(&self, what: MapUse) -> u64 {
        self.0.sum(what as usize)
    }
}
