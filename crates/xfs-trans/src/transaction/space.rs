//! The counters of the volume, as one transaction changes them.

use xfs_buffer::{Error, Result};

use super::Transaction;
use crate::block_reservation::BlockReservation;
use crate::counters::Counters;

/// What a transaction has taken, used and freed. It reaches the volume's counters when the step is
/// committed, so that nobody takes what may yet not be freed.
#[derive(Debug)]
pub(super) struct SpaceUse {
    /// Reserved and not used.
    left: u64,
    /// How much of that goes back to an earmark, if it is left in the end.
    returnable: u64,
    /// More was used than reserved.
    overdrawn: bool,
    freed: u64,
    inodes: i64,
    free_inodes: i64,
}

impl SpaceUse {
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

    /// Refuses a step that has used what it had not reserved: the counters would be wrong.
    pub(super) const fn check(&self) -> Result<()> {
        if self.overdrawn { Err(Error::Shutdown) } else { Ok(()) }
    }

    /// The step is committed.
    pub(super) fn settle(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.freed));
        let (all, free) = (std::mem::take(&mut self.inodes), std::mem::take(&mut self.free_inodes));
        counters.count_inodes(all, free);
    }

    /// What was reserved and not used goes to another chain.
    pub(super) const fn take_reserved(&mut self) -> u64 {
        std::mem::replace(&mut self.left, 0)
    }

    /// See [`take_reserved`](Self::take_reserved).
    pub(super) const fn add_reserved(&mut self, blocks: u64) {
        self.left += blocks;
    }

    /// Gives back what was not used.
    pub(super) fn release(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.left));
    }
}

impl Transaction<'_> {
    /// The same transaction, with blocks out of an earmark.
    pub(crate) const fn with_reserved(mut self, blocks: u64) -> Self {
        self.space.add_reserved(blocks);
        self.space.returnable = blocks;
        self
    }

    /// Puts back into the earmark what the transaction was begun with out of it and does not need: it
    /// allocates nothing more.
    pub fn return_to(&mut self, reservation: &mut BlockReservation) {
        let blocks = self.space.returnable.min(self.space.left);
        self.space.returnable = 0;
        self.space.left -= blocks;
        reservation.add(BlockReservation::of(blocks));
    }

    /// Free blocks were taken into use. The allocator says so, out of what the transaction has
    /// reserved.
    pub fn use_blocks(&mut self, blocks: u64) {
        match self.space.left.checked_sub(blocks) {
            Some(left) => self.space.left = left,
            None => {
                self.space.left = 0;
                self.space.overdrawn = true;
            }
        }
    }

    /// Blocks became free. They can be promised to others once this step is committed.
    pub fn free_blocks(&mut self, blocks: u64) {
        self.space.freed += blocks;
    }

    /// Inodes were made or removed (`all`), or taken into use or freed (`free`).
    pub fn count_inodes(&mut self, all: i64, free: i64) {
        self.space.inodes += all;
        self.space.free_inodes += free;
    }

    /// Blocks that were reserved and are not used.
    #[must_use]
    pub const fn blocks_left(&self) -> u64 {
        self.space.left
    }
}
