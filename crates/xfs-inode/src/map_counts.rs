//! What has been done to the maps of a volume's files, counted by slot.

use xfs_sync::SlotCounters;
use xfs_trans::Journal;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapUse {
    /// Somebody asked where contents are, to read them.
    #[doc(alias = "xs_blk_mapr")]
    Read,
    /// Blocks were asked for, for a range of a fork, or were converted.
    #[doc(alias = "xs_blk_mapw")]
    Write,
    /// A range of a fork was to be unmapped, a step of it.
    #[doc(alias = "xs_blk_unmap")]
    Unmap,
    /// An extent came into a map.
    #[doc(alias = "xs_add_exlist")]
    Insertion,
    /// An extent, or a part of one, went out of a map.
    #[doc(alias = "xs_del_exlist")]
    Deletion,
}

const KINDS: usize = MapUse::Deletion as usize + 1;

/// Counters of everything in [`MapUse`].
#[derive(Default)]
pub struct MapCounts(SlotCounters<KINDS>);

impl MapCounts {
    /// Those of a volume.
    #[must_use]
    pub fn of(journal: &Journal) -> &Self {
        journal.extension(Self::default)
    }

    /// Notes that it has been done.
    pub fn note(&self, what: MapUse) {
        self.0.add(what as usize, 1);
    }

    /// How often that has been done.
    #[must_use]
    pub fn sum(&self, what: MapUse) -> u64 {
        self.0.sum(what as usize)
    }
}
