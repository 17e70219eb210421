//! A budget of useless reads of fork blocks, so that a damaged volume is read in bounded time.
//!
//! Owns: the number of such reads that a run (the life of one `Evidence`) may still do, and the
//! blocks that one fork has read. Does **not** own: the bounds of one btree or one list.
//!
//! A sound block of a directory or attribute fork names one owner, so the blocks of a volume bound
//! the useful reads of all forks. Damaged forks can map the same blocks many times: one million
//! directories the same thousand blocks, or one directory one block a million times. A read is
//! wasted if it finds no sound block of the fork's owner, or a block that was read for this fork
//! before. The run has a budget for wasted reads. Once the budget is spent, reading a fork stops
//! after [`FREE_WASTE`] wasted reads, so a sound fork is still read completely.

use std::cell::Cell;
use std::collections::HashSet;

use xfs_format::{FsBlock, Geometry};

/// The number of times that a run may read each block of the volume for nothing, on average. It is
/// more than 1, because a program reads a damaged directory several times.
const FACTOR: u64 = 16;
/// The limit on the wasted reads of a run, however large the volume is: a sparse image can have any
/// number of blocks.
const MOST_WASTED: u64 = 1 << 26;
/// The number of wasted reads that are allowed for each fork after the budget of the run is spent.
const FREE_WASTE: u64 = 64;

/// The number of wasted reads that a run may still make, over all forks.
pub(crate) struct WasteBudget {
    left: Cell<u64>,
}

impl WasteBudget {
    /// Creates the budget of wasted reads for one run on a volume with this geometry.
    pub(crate) const fn of(geometry: &Geometry) -> Self {
        let blocks = geometry.data_blocks.saturating_mul(FACTOR);
        Self { left: Cell::new(if blocks < MOST_WASTED { blocks } else { MOST_WASTED }) }
    }

    /// Starts to count the wasted reads of one fork.
    pub(crate) fn fork(&self) -> ForkReads<'_> {
        ForkReads { budget: self, wasted: 0, seen: HashSet::new() }
    }
}

/// The reads of one fork: the blocks that were read, and the number of wasted reads.
pub(crate) struct ForkReads<'a> {
    budget: &'a WasteBudget,
    wasted: u64,
    seen: HashSet<FsBlock>,
}

impl ForkReads<'_> {
    /// Returns whether no further blocks of the fork may be read.
    pub(crate) const fn is_over(&self) -> bool {
        self.wasted >= FREE_WASTE && self.budget.left.get() == 0
    }

    /// Returns the number of wasted reads of this fork.
    pub(crate) const fn wasted(&self) -> u64 {
        self.wasted
    }

    /// Returns whether a block of the fork is read for the first time. A second read of the block
    /// is wasted.
    pub(crate) fn is_first(&mut self, block: FsBlock) -> bool {
        let is_first = self.seen.insert(block);
        if !is_first {
            self.waste();
        }
        is_first
    }

    /// Counts a wasted read.
    pub(crate) fn waste(&mut self) {
        self.wasted += 1;
        self.budget.left.set(self.budget.left.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE_WASTE, WasteBudget};
    use std::cell::Cell;
    use xfs_format::FsBlock;

    /// Checks E3 of the crate: once the budget is spent, reading a fork ends after its free wasted
    /// reads.
    #[test]
    fn fork_ends_after_its_free_reads_when_the_budget_is_spent() {
        let budget = WasteBudget { left: Cell::new(3) };
        let mut first = budget.fork();
        (0..FREE_WASTE - 1).for_each(|_| first.waste());
        assert!(budget.left.get() == 0 && !first.is_over());
        assert!(first.is_first(FsBlock(7)) && !first.is_over());
        assert!(!first.is_first(FsBlock(7)) && first.is_over());
        assert!(!budget.fork().is_over());
    }
}
