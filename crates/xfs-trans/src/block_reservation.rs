//! Blocks taken now for work that is done later.
//!
//! Owns: how many of them are left. Does **not** own the counters they are taken from, nor giving them
//! back: an earmark that is dropped has lost its blocks until the volume is opened again, so it goes
//! to [`Journal::give_up`](crate::Journal::give_up).

/// Blocks that were taken from the volume's counters for later.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "blocks that are reserved and not released are lost"]
pub struct BlockReservation {
    blocks: u64,
}

/// Where a transaction finds what its earmark is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPool {
    /// Among the free blocks; it is refused if there are none.
    Free,
    /// Also in the pool that is kept for what may not fail.
    Reserved,
}

impl BlockReservation {
    pub(crate) const fn of(blocks: u64) -> Self {
        Self { blocks }
    }

    /// How many blocks are left.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds what another one has.
    pub const fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
    }

    /// Takes up to so many out of it.
    pub(crate) fn draw(&mut self, most: u64) -> u64 {
        let drawn = self.blocks.min(most);
        self.blocks -= drawn;
        drawn
    }
}
