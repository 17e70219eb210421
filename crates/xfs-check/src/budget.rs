//! The bound on the time of a check: how many blocks of forks are read.
//!
//! Owns: the number of blocks that may still be read, for all threads, and the finding that none
//! are left. Does **not** own: the bounds of one btree or one list.
//!
//! Each block of a sound volume belongs to one fork at most, apart from shared contents of files,
//! which are not read. So a run reads no more blocks of directories, attributes, links and extent
//! btrees than the volume has. Damaged forks can map the same blocks many times: a million
//! directories may all map the same thousand blocks. Past [`FACTOR`] times the blocks of the
//! volume, nothing more is read (C5 of the crate).

use xfs_format::Geometry;
use xfs_sync::{AtomicBool, AtomicU64, Ordering, Volume as VolumeScope};

use crate::code::Code;
use crate::finding::{Finding, Place};

/// The limit on reads of blocks of forks: this number, times the number of blocks of the volume.
const FACTOR: u64 = 2;

/// The budget of reads: how many more blocks of forks the check may read.
pub(crate) struct ReadBudget {
    whole: u64,
    taken: AtomicU64<VolumeScope>,
    is_reported: AtomicBool<VolumeScope>,
}

impl ReadBudget {
    /// Creates the budget of a volume.
    pub(crate) fn of(geometry: &Geometry) -> Self {
        Self::with_blocks(geometry.data_blocks.saturating_mul(FACTOR))
    }

    fn with_blocks(whole: u64) -> Self {
        Self { whole, taken: AtomicU64::new(0), is_reported: AtomicBool::new(false) }
    }

    /// Restores the whole budget, for another pass over the volume.
    pub(crate) fn refill(&self) {
        self.taken.store(0, Ordering::Relaxed);
        self.is_reported.store(false, Ordering::Relaxed);
    }

    /// Takes blocks from the budget. Returns `false`, and takes nothing, if the budget is used up.
    pub(crate) fn take(&self, blocks: u64) -> bool {
        let has_some = !self.is_spent();
        if has_some {
            self.taken.fetch_add(blocks, Ordering::Relaxed);
        }
        has_some
    }

    /// Returns whether the budget is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.whole
    }

    /// Returns the finding that the budget is used up. Only the first call returns it.
    pub(crate) fn finding(&self) -> Option<Finding> {
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return None;
        }
        let found = format!("forks map more than {} blocks", self.whole);
        let finding = Finding::new(Code::DirAliased, Place::default(), found);
        let expected = format!("at most the {} blocks of the volume", self.whole / FACTOR);
        Some(finding.expected(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::ReadBudget;

    /// Checks C5 of the crate (every loop over pointers has a budget): no block can be taken from a
    /// used-up budget, and the finding about it is made once.
    #[test]
    fn budget_ends_with_its_last_block_is_reported_once_and_can_be_refilled() {
        let budget = ReadBudget::with_blocks(5);
        assert!(budget.take(3) && budget.take(3));
        assert!(budget.is_spent() && !budget.take(1));
        assert!(budget.finding().is_some() && budget.finding().is_none());
        budget.refill();
        assert!(budget.take(0) && !budget.is_spent());
    }
}
