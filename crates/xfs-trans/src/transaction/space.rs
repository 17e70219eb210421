//! The changes that one transaction makes to the counters of the volume.

use xfs_buffer::{Error, Result};

use super::Transaction;
use crate::block_reservation::BlockReservation;
use crate::counters::Counters;

/// The numbers of blocks and inodes that a transaction has reserved, used and freed. They are added
/// to the counters of the volume when the transaction is committed. Before the commit, the freeing
/// of a block can still fail, so no other operation may take the block.
#[derive(Debug)]
pub(super) struct CounterChanges {
    /// Number of blocks that are reserved but not used yet.
    left: u64,
    /// The number of blocks in `left` that return to a block reservation if they are not used.
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

    /// Returns an error if the transaction has used more blocks than it had reserved. Its commit
    /// would make the counters of the volume wrong.
    pub(super) const fn check(&self) -> Result<()> {
        if self.overdrawn { Err(Error::Shutdown) } else { Ok(()) }
    }

    /// Adds the changes of a committed transaction of the chain to the counters of the volume, and
    /// sets the changes to zero.
    pub(super) fn settle(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.freed));
        let (all, free) = (std::mem::take(&mut self.inodes), std::mem::take(&mut self.free_inodes));
        counters.count_inodes(all, free);
    }

    /// Removes the blocks that were reserved but not used, for use by another chain. Returns their
    /// number.
    pub(super) const fn take_reserved(&mut self) -> u64 {
        std::mem::replace(&mut self.left, 0)
    }

    /// Adds `blocks` blocks to the reserved blocks. The caller has taken these blocks out of
    /// another chain with [`take_reserved`](Self::take_reserved), or out of a block reservation.
    pub(super) const fn add_reserved(&mut self, blocks: u64) {
        self.left += blocks;
    }

    /// Gives the unused blocks back to the counters of the volume.
    pub(super) fn release(&mut self, counters: &Counters) {
        counters.give(std::mem::take(&mut self.left));
    }
}

impl Transaction<'_> {
    /// Adds blocks that come from a block reservation to the transaction.
    pub(crate) const fn with_reserved(mut self, blocks: u64) -> Self {
        self.space.add_reserved(blocks);
        self.space.returnable = blocks;
        self
    }

    /// Gives the unused blocks that came from a block reservation back to that reservation. The
    /// transaction must not allocate blocks after that.
    pub fn return_to(&mut self, reservation: &mut BlockReservation) {
        let blocks = self.space.returnable.min(self.space.left);
        self.space.returnable = 0;
        self.space.left -= blocks;
        reservation.add(BlockReservation::of(blocks));
    }

    /// Adds `blocks` blocks to those that the transaction has reserved. The caller has taken them
    /// from blocks that the volume keeps back, such as those for a group's btrees.
    pub const fn add_reserve(&mut self, blocks: u64) {
        self.space.add_reserved(blocks);
    }

    /// Counts blocks that the allocator has taken into use. The counted blocks are taken from those
    /// that the transaction has reserved.
    pub fn use_blocks(&mut self, blocks: u64) {
        match self.space.left.checked_sub(blocks) {
            Some(left) => self.space.left = left,
            None => {
                self.space.left = 0;
                self.space.overdrawn = true;
            }
        }
    }

    /// Counts blocks that became free. Other chains can take them once the current transaction of
    /// this chain is committed.
    pub fn free_blocks(&mut self, blocks: u64) {
        self.space.freed += blocks;
    }

    /// Adds `all` to the number of inodes, and `free` to the number of free inodes. Either may be
    /// negative.
    pub fn count_inodes(&mut self, all: i64, free: i64) {
        self.space.inodes += all;
        self.space.free_inodes += free;
    }

    /// Returns the number of blocks that are reserved but not used yet.
    #[must_use]
    pub const fn blocks_left(&self) -> u64 {
        self.space.left
    }
}
