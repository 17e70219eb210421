//! Blocks that two files claim.
//!
//! Owns: two bits for every block of the volume: claimed, and claimed twice. Files that share
//! blocks by design are not counted. The bits take 1/16384 of the volume with blocks of 4 KiB. A
//! volume whose bits would take more than 256 MiB is not examined.

use xfs_format::extent::Extent;
use xfs_format::{FsBlock, Geometry};

/// The most memory for the bits.
const MOST_BYTES: u64 = 256 << 20;

/// The claims of files on blocks.
pub(crate) struct Claims {
    /// The bits of the group, one after the other. Empty: the volume is too large.
    once: Vec<u64>,
    twice: Vec<u64>,
}

impl Claims {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let words = geometry.data_blocks.div_ceil(64);
        let words = if words * 16 <= MOST_BYTES { words } else { 0 };
        let words = usize::try_from(words).expect("at most 32 Mi words");
        Self { once: vec![0; words], twice: vec![0; words] }
    }

    /// Returns whether the volume is small enough for the bits.
    pub(crate) fn is_examined(&self) -> bool {
        !self.once.is_empty()
    }

    /// Counts the blocks of an extent, which the caller has verified.
    pub(crate) fn claim(&mut self, extent: &Extent, geometry: &Geometry) {
        let Some(first) = linear(extent.start, geometry) else { return };
        for block in first..first + u64::from(extent.length_blocks) {
            let word = usize::try_from(block / 64).unwrap_or(usize::MAX);
            let bit = 1 << (block % 64);
            let (Some(once), Some(twice)) = (self.once.get_mut(word), self.twice.get_mut(word))
            else {
                return;
            };
            *twice |= *once & bit;
            *once |= bit;
        }
    }

    /// Returns whether two files claim a block of the extent.
    pub(crate) fn is_doubled(&self, extent: &Extent, geometry: &Geometry) -> bool {
        self.any(&self.twice, extent, geometry)
    }

    /// Returns whether a file claims a block of the extent.
    pub(crate) fn is_claimed(&self, extent: &Extent, geometry: &Geometry) -> bool {
        self.any(&self.once, extent, geometry)
    }

    fn any(&self, bits: &[u64], extent: &Extent, geometry: &Geometry) -> bool {
        let Some(first) = linear(extent.start, geometry) else { return false };
        (first..first + u64::from(extent.length_blocks)).any(|block| {
            let word = bits.get(usize::try_from(block / 64).unwrap_or(usize::MAX));
            word.is_some_and(|word| word & (1 << (block % 64)) != 0)
        })
    }
}

/// Returns the number of a block counted from the start of the device.
fn linear(block: FsBlock, geometry: &Geometry) -> Option<u64> {
    let (group, block) = geometry.split_block(block)?;
    Some(u64::from(group.0) * u64::from(geometry.ag_blocks) + u64::from(block.0))
}
