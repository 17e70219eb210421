//! Block reservations: blocks reserved now for work that is done later.
//!
//! Owns: the number of blocks left in a reservation. Does **not** own the counters from which the
//! blocks come, or returning unused blocks to these counters. If a reservation is dropped, its
//! blocks are lost until the volume is opened again, so callers pass it to
//! [`Journal::release_blocks`](crate::Journal::release_blocks).

/// A number of blocks that was taken from the volume's counters for later work.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "blocks that are reserved and not released are lost"]
pub struct BlockReservation {
    blocks: u64,
}

/// The source of the blocks that a transaction takes if its block reservation has too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPool {
    /// Missing blocks are taken from the free blocks of the volume. If too few are free, the
    /// transaction fails.
    Free,
    /// Missing blocks are taken from the free blocks of the volume. If too few are free, they come
    /// from the pool for operations that must not fail.
    Reserved,
}

impl BlockReservation {
    pub(crate) const fn of(blocks: u64) -> Self {
        Self { blocks }
    }

    /// Returns the number of blocks left in the reservation.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the blocks of another reservation to this one.
    pub const fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
    }

    /// Takes at most `most` blocks from the reservation. Returns the number of blocks taken.
    pub(crate) fn draw(&mut self, most: u64) -> u64 {
        let drawn = self.blocks.min(most);
        self.blocks -= drawn;
        drawn
    }
}
