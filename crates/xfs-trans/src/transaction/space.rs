//! The counters of the volume, as one transaction changes them.

use xfs_buffer::{Error, Result};

use super::Transaction;
use crate::block_reservation::BlockReservation;
use crate::counters::Counters;

/// The blocks and inodes that a transaction has taken, used and freed. The sums reach the counters
/// of the volume when the step is committed. Until then a free could still fail, so no other
/// operation may take the freed blocks.
#[derive(Debug)]
pub(super) struct CounterChanges {
    /// The number of blocks that are reserved and not used.
    left: u64,
    /// The part of `left` that returns to a block reservation if it is not used.
    returnable: u64,
    /// Whether the transaction used more blocks than it had reserved.
    overdrawn: bool,
    freed: u64,
    inodes: i64,
    free_inodes: i64,
}

impl CounterChanges {
    pub(super) const fn new(reserved: u64) -> Self {
        Self {
            left: reserved,
            returnable: 0,
            overdrawn: false,
            freed: 0,
            inodes: 0,
            free_inodes: 0,
        }
    }

    /// Refuses a step that has used more than it had reserved: the counters would be wrong.
    pub(super) const fn check(&self) -> Result<()> {
        if self.overdrawn { Err(Error::Shutdown) } else { Ok(()) }
    }

    /// Adds the sums of a committed step to the counters of the volume.
    pub(super) fn settle(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.freed));
        let (all, free) = (std::mem::take(&mut self.inodes), std::mem::take(&mut self.free_inodes));
        counters.count_inodes(all, free);
    }

    /// Takes the blocks that were reserved and not used, so that another chain can use them.
    pub(super) const fn take_reserved(&mut self) -> u64 {
        std::mem::replace(&mut self.left, 0)
    }

    /// Adds blocks that [`take_reserved`](Self::take_reserved) returned.
    pub(super) const fn add_reserved(&mut self, blocks: u64) {
        self.left += blocks;
    }

    /// Returns the unused blocks to the counters.
    pub(super) fn release(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.left));
    }
}

impl Transaction<'_> {
    /// Adds blocks of a block reservation to the transaction.
    pub(crate) const fn with_reserved(mut self, blocks: u64) -> Self {
        self.space.add_reserved(blocks);
        self.space.returnable = blocks;
        self
    }

    /// Returns the unused blocks that came from a block reservation to that reservation. The
    /// transaction must not allocate after that.
    pub fn return_to(&mut self, reservation: &mut BlockReservation) {
        let blocks = self.space.returnable.min(self.space.left);
        self.space.returnable = 0;
        self.space.left -= blocks;
        reservation.add(BlockReservation::of(blocks));
    }

    /// Counts free blocks that the allocator has taken into use. They come out of the blocks that
    /// the transaction has reserved.
    pub fn use_blocks(&mut self, blocks: u64) {
        match self.space.left.checked_sub(blocks) {
            Some(left) => self.space.left = left,
            None => {
                self.space.left = 0;
                self.space.overdrawn = true;
            }
        }
    }

    /// Counts blocks that became free. Other transactions can take them once this step is
    /// committed.
    pub fn free_blocks(&mut self, blocks: u64) {
        self.space.freed += blocks;
    }

    /// Counts inodes that were created or removed (`all`), and inodes that became free or stopped
    /// being free (`free`).
    pub fn count_inodes(&mut self, all: i64, free: i64) {
        self.space.inodes += all;
        self.space.free_inodes += free;
    }

    /// Returns the number of blocks that are reserved and not used.
    #[must_use]
    pub const fn blocks_left(&self) -> u64 {
        self.space.left
    }
}
