//! Finds the blocks that two files claim.
//!
//! Owns: two bits for every block of the volume: claimed, and claimed twice. Files that share
//! blocks by design are not counted. The bits take 1/16384 of the volume with blocks of 4 KiB. A
//! volume whose bits would take more than 256 MiB is not examined.
//!
//! Sound files claim each block once. Damaged ones can claim the same extent a million times, so
//! the work is bounded: after [`FACTOR`] units of work for each block of the volume, nothing more
//! is examined.

use xfs_format::extent::Extent;
use xfs_format::{FsBlock, Geometry};

/// The most bytes of memory for the two bitmaps, which have one bit for each block of the volume.
const MOST_BYTES: u64 = 256 << 20;
/// The limit of the work, as a multiple of the number of blocks of the volume. Counting stops
/// there. A claim of an extent costs one unit of work for each 64-bit word of the bitmap that it
/// touches, not one for each block.
const FACTOR: u64 = 4;

/// The blocks of the volume that files claim, and among them those that two files claim.
pub(crate) struct Claims {
    /// A bitmap of the blocks that at least one file claims. It is empty if the volume is too large
    /// to be examined.
    once: Vec<u64>,
    twice: Vec<u64>,
    /// The number of words of the bitmap that may still be changed before counting stops.
    left: u64,
}

/// The part of an extent that one 64-bit word of the bitmaps covers: the index of the word, and the
/// bits that stand for the extent's blocks.
struct Part {
    word: usize,
    bits: u64,
}

impl Claims {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let words = geometry.data_blocks.div_ceil(64);
        let words = if words * 16 <= MOST_BYTES { words } else { 0 };
        let words = usize::try_from(words).expect("at most 32 Mi words");
        let left = geometry.data_blocks.saturating_mul(FACTOR);
        Self { once: vec![0; words], twice: vec![0; words], left }
    }

    /// Returns whether the claims are known: the volume is small enough for the bitmaps, and its
    /// files do not claim far more blocks than it has.
    pub(crate) const fn is_examined(&self) -> bool {
        !self.once.is_empty() && self.left > 0
    }

    /// Records that a file claims the blocks of an extent, which the caller has verified.
    pub(crate) fn claim(&mut self, extent: &Extent, geometry: &Geometry) {
        for part in parts(extent, geometry) {
            let (Some(once), Some(twice)) =
                (self.once.get_mut(part.word), self.twice.get_mut(part.word))
            else {
                return;
            };
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            *twice |= *once & part.bits;
            *once |= part.bits;
        }
    }

    /// Returns whether some block of the extent is claimed by two files.
    pub(crate) fn is_doubled(&self, extent: &Extent, geometry: &Geometry) -> bool {
        self.any(&self.twice, extent, geometry)
    }

    /// Returns whether at least one block of the extent is claimed by a file.
    pub(crate) fn is_claimed(&self, extent: &Extent, geometry: &Geometry) -> bool {
        self.any(&self.once, extent, geometry)
    }

    fn any(&self, bits: &[u64], extent: &Extent, geometry: &Geometry) -> bool {
        self.is_examined()
            && parts(extent, geometry)
                .any(|part| bits.get(part.word).is_some_and(|word| word & part.bits != 0))
    }
}

/// Returns the words of the bitmaps that have bits for the blocks of an extent, each with these
/// bits.
fn parts(extent: &Extent, geometry: &Geometry) -> impl Iterator<Item = Part> + use<> {
    let first = linear(extent.start, geometry).unwrap_or(u64::MAX);
    let end = first.saturating_add(extent.length_blocks.into());
    // An extent outside of the volume has no words.
    let words = if first < end { first / 64..end.div_ceil(64) } else { 0..0 };
    words.map(move |word| {
        let (start, stop) = (word * 64, word * 64 + 64);
        let skipped = first.saturating_sub(start);
        let cut = stop.saturating_sub(end);
        Part {
            word: usize::try_from(word).unwrap_or(usize::MAX),
            bits: (u64::MAX << skipped) & (u64::MAX >> cut),
        }
    })
}

/// Returns the number of a block, counted from the start of the device. `None` if there is no such
/// block.
fn linear(block: FsBlock, geometry: &Geometry) -> Option<u64> {
    let (group, block) = geometry.split_block(block)?;
    Some(u64::from(group.0) * u64::from(geometry.ag_blocks) + u64::from(block.0))
}

#[cfg(test)]
mod tests {
    use xfs_format::extent::Extent;
    use xfs_format::{FileBlock, FsBlock};
    use xfs_testkit::golden;

    use super::Claims;

    fn extent(start: u64, length_blocks: u32) -> Extent {
        Extent { file_block: FileBlock(0), start: FsBlock(start), length_blocks, unwritten: false }
    }

    #[test]
    fn blocks_of_two_extents_are_doubled_at_each_offset_in_a_word() {
        let geometry = golden().geometry();
        for (start, length) in [(100, 1), (127, 2), (128, 64), (130, 300), (63, 65)] {
            let mut claims = Claims::new(&geometry);
            claims.claim(&extent(start, length), &geometry);
            assert!(!claims.is_doubled(&extent(0, 1000), &geometry));
            assert!(!claims.is_claimed(&extent(0, start as u32), &geometry));
            assert!(!claims.is_claimed(&extent(start + u64::from(length), 500), &geometry));
            let last = extent(start + u64::from(length) - 1, 1);
            assert!(claims.is_claimed(&last, &geometry));
            claims.claim(&last, &geometry);
            assert!(claims.is_doubled(&last, &geometry));
            assert_eq!(claims.is_doubled(&extent(start, 1), &geometry), length == 1);
        }
    }

    /// Checks S4 of the crate: claims past the budget are not examined.
    #[test]
    fn claims_past_the_budget_are_not_examined() {
        let geometry = golden().geometry();
        let mut claims = Claims::new(&geometry);
        let whole = extent(0, geometry.ag_blocks);
        let mut count = 0;
        while claims.is_examined() {
            claims.claim(&whole, &geometry);
            count += 1;
        }
        assert_eq!(count, 512);
        claims.claim(&whole, &geometry);
        assert!(!claims.is_doubled(&whole, &geometry) && !claims.is_claimed(&whole, &geometry));
    }
}
