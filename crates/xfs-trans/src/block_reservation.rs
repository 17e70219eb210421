//! Blocks reserved now for work that is done later.
//!
//! Owns: the number of blocks left. Does **not** own the counters that the blocks come from, or
//! returning the blocks. A reservation that is dropped loses its blocks until the volume is opened
//! again, so callers pass it to [`Journal::release_blocks`](crate::Journal::release_blocks).

/// Blocks taken from the counters of the volume for later work.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "blocks that are reserved and not released are lost"]
pub struct BlockReservation {
    blocks: u64,
}

/// The pool from which a transaction takes the blocks that its reservation lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPool {
    /// The free blocks. The transaction is refused if there are too few.
    Free,
    /// The free blocks, then the pool reserved for operations that must not fail.
    Reserved,
}

impl BlockReservation {
    pub(crate) const fn of(blocks: u64) -> Self {
        Self { blocks }
    }

    /// Returns the number of blocks left.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the blocks of another reservation.
    pub const fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
    }

    /// Takes at most `most` blocks, and returns the number of blocks taken.
    pub(crate) fn draw(&mut self, most: u64) -> u64 {
        let drawn = self.blocks.min(most);
        self.blocks -= drawn;
        drawn
    }
}
