//! The map from blocks of a fork to blocks of the volume.
//!
//! Owns: the extents of one fork in memory, and lookup by file block. Does **not** own: where they
//! come from, or their checks.

use xfs_format::FileBlock;
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};

/// What is at a block of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Blocks of the volume. The whole extent: it may start before the block that was asked for.
    Extent(Extent),
    /// Nothing.
    Hole {
        /// The first block after the extent before.
        start: FileBlock,
        /// The first block of the extent after, or the end of what a file can have.
        end: FileBlock,
    },
}

impl Mapping {
    /// The first block after it.
    #[must_use]
    pub const fn end(&self) -> FileBlock {
        match self {
            Self::Extent(extent) => extent.end(),
            Self::Hole { end, .. } => *end,
        }
    }

    /// Whether reading it gives bytes of the volume, not zeros.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Extent(Extent { unwritten: false, .. }))
    }
}

/// The extents of a fork, in file order.
#[derive(Debug, Default)]
pub struct ExtentMap {
    extents: Vec<Extent>,
}

impl ExtentMap {
    /// Of a fork without extents.
    pub(crate) const EMPTY: &'static Self = &Self { extents: Vec::new() };

    /// Takes extents that were checked: in order, and not overlapping.
    pub(crate) fn from_verified(extents: Vec<Extent>) -> Self {
        debug_assert!(extents.is_sorted_by(|left, right| left.end() <= right.file_block), "I2");
        Self { extents }
    }

    /// The extents, in file order.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// What is at `block`.
    #[must_use]
    pub fn find(&self, block: FileBlock) -> Mapping {
        let after = self.extents.partition_point(|extent| extent.end() <= block);
        let next = self.extents.get(after);
        if let Some(extent) = next.filter(|extent| extent.file_block <= block) {
            return Mapping::Extent(*extent);
        }
        let before = after.checked_sub(1).and_then(|index| self.extents.get(index));
        Mapping::Hole {
            start: before.map_or(FileBlock(0), Extent::end),
            end: next.map_or(FileBlock(FILE_BLOCK_LIMIT), |extent| extent.file_block),
        }
    }

    /// What is at `block` and behind it, piece by piece to the end of what a file can have.
    pub fn mappings_from(&self, block: FileBlock) -> impl Iterator<Item = Mapping> + '_ {
        let mut next = block;
        core::iter::from_fn(move || {
            (next.0 < FILE_BLOCK_LIMIT).then(|| {
                let mapping = self.find(next);
                next = mapping.end();
                mapping
            })
        })
    }
}

#[cfg(test)]
mod tests;
