//! The map from blocks of a fork to blocks of the volume.
//!
//! Owns: the extents of one fork in memory, lookup by file block, and replacing extents by other
//! extents. Does **not** own where the extents come from, their checks, or the meaning of a change
//! ([`edit`](crate::edit) plans it).
//!
//! The extents lie in chunks of bounded length, so that a change in a map of a million extents
//! moves only a few hundred of them.
//!
//! # Invariants
//!
//! - **I1** No chunk is empty, and none is longer than [`CHUNK_EXTENTS`].
//! - **I2** Extents are in file order over all chunks, and do not overlap.

use core::iter;

use xfs_format::FileBlock;
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};

/// Number of extents in a full chunk. A search in a chunk reads as many extents as the binary
/// logarithm of this number. A change moves half of this number on average.
const CHUNK_EXTENTS: usize = 256;
/// The largest number of extents that two adjacent chunks may have together to be joined into one.
const JOIN_EXTENTS: usize = CHUNK_EXTENTS / 2;

/// The panic message for a violated invariant: a change uses only positions inside the map.
const IN_MAP: &str = "a position lies in a chunk of the map";

/// The mapping of a block of a fork: an extent or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The extent that contains the block. The extent may start before the block that was looked
    /// up.
    Extent(Extent),
    /// A hole.
    Hole {
        /// The first block of the hole: the one after the preceding extent.
        start: FileBlock,
        /// The end of the hole: the first block of the following extent, or the limit of file
        /// blocks if no extent follows.
        end: FileBlock,
    },
}

impl Mapping {
    /// Returns the first file block after the mapping.
    #[must_use]
    pub const fn end(&self) -> FileBlock {
        match self {
            Self::Extent(extent) => extent.end(),
            Self::Hole { end, .. } => *end,
        }
    }

    /// Whether a read of the mapping returns bytes from the device, not zeros.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Extent(Extent { unwritten: false, .. }))
    }
}

/// The extents of a fork, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentMap {
    chunks: Vec<Vec<Extent>>,
    count: usize,
}

/// A position in the map: a chunk, and an index in the chunk. The position stands for the extent at
/// that index, or for the gap before that extent.
#[derive(Clone, Copy)]
struct MapPosition {
    chunk: usize,
    index: usize,
}

impl ExtentMap {
    /// The extent map of a fork without extents.
    pub(crate) const EMPTY: &'static Self = &Self { chunks: Vec::new(), count: 0 };

    /// Creates a map from extents that were verified to be in order and not to overlap.
    pub(crate) fn from_verified(extents: Vec<Extent>) -> Self {
        debug_assert!(
            extents.is_sorted_by(|left, right| left.end() <= right.file_block),
            "I2: extents are in order"
        );
        let count = extents.len();
        let chunks = match count {
            0 => Vec::new(),
            1..=CHUNK_EXTENTS => vec![extents],
            _ => extents.chunks(CHUNK_EXTENTS / 2).map(<[Extent]>::to_vec).collect(),
        };
        Self { chunks, count }
    }

    /// Creates a map from extents that were verified to be in order and not to overlap, as they
    /// come. A list of all extents would take their memory twice.
    ///
    /// # Errors
    ///
    /// The first error of `extents`.
    pub(crate) fn collect<E>(extents: impl Iterator<Item = Result<Extent, E>>) -> Result<Self, E> {
        let mut map = Self::default();
        for extent in extents {
            let extent = extent?;
            // Most maps are short, and have one chunk. In longer maps each chunk has room to grow.
            let most = if map.chunks.len() > 1 { CHUNK_EXTENTS / 2 } else { CHUNK_EXTENTS };
            match map.chunks.last_mut() {
                Some(chunk) if chunk.len() < most => chunk.push(extent),
                Some(_) => {
                    let mut chunk = Vec::with_capacity(CHUNK_EXTENTS / 2);
                    chunk.push(extent);
                    map.chunks.push(chunk);
                }
                None => map.chunks.push(vec![extent]),
            }
            map.count += 1;
        }
        Ok(map)
    }

    /// Returns the number of extents.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Whether the map has no extents.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the extents, in file order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Extent> + '_ {
        self.chunks.iter().flatten()
    }

    /// Returns the extents that end after `block`, in file order.
    pub fn iter_from(&self, block: FileBlock) -> impl Iterator<Item = &Extent> + '_ {
        let MapPosition { chunk, index } = self.position(block);
        let from = self.chunks.get(chunk..).expect(IN_MAP);
        // The position after all extents lies in no chunk.
        let (first, rest): (&[Extent], _) = match from.split_first() {
            Some((first, rest)) => (first.get(index..).expect(IN_MAP), rest),
            None => (&[], from),
        };
        first.iter().chain(rest.iter().flatten())
    }

    /// Returns the number of blocks that the map's extents cover.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.iter().map(|extent| u64::from(extent.length_blocks)).sum()
    }

    /// Returns the first file block after the last extent; 0 if the map has no extents.
    #[must_use]
    pub fn end(&self) -> FileBlock {
        let last = self.chunks.last().and_then(|chunk| chunk.last());
        last.map_or(FileBlock(0), Extent::end)
    }

    /// Returns the last extent that starts before `limit`; `None` if there is no such extent.
    #[must_use]
    pub fn last_before(&self, limit: FileBlock) -> Option<Extent> {
        let starts_before = |extent: &Extent| extent.file_block < limit;
        let chunk = self.chunks.partition_point(|chunk| chunk.first().is_some_and(starts_before));
        let chunk = self.chunks.get(chunk.checked_sub(1)?)?;
        chunk.get(chunk.partition_point(starts_before).checked_sub(1)?).copied()
    }

    /// Returns the extent that contains `block`; `None` if the block is in a hole.
    #[inline]
    #[must_use]
    pub fn extent_over(&self, block: FileBlock) -> Option<&Extent> {
        // It is the last extent that does not start after the block (I2).
        let is_started = |extent: &Extent| extent.file_block <= block;
        let chunk = match &*self.chunks {
            // Most maps are short.
            [only] => only,
            all => {
                let after = all.partition_point(|chunk| chunk.first().is_some_and(is_started));
                all.get(after.checked_sub(1)?)?
            }
        };
        let extent = chunk.get(chunk.partition_point(is_started).checked_sub(1)?)?;
        (block < extent.end()).then_some(extent)
    }

    /// Returns the mapping of file block `block`.
    #[must_use]
    pub fn find(&self, block: FileBlock) -> Mapping {
        let next = self.extent_at(self.position(block));
        if let Some(extent) = next.filter(|extent| extent.file_block <= block) {
            return Mapping::Extent(*extent);
        }
        Mapping::Hole {
            start: self.last_before(block).map_or(FileBlock(0), |extent| extent.end()),
            end: next.map_or(FileBlock(FILE_BLOCK_LIMIT), |extent| extent.file_block),
        }
    }

    /// Returns the mappings from file block `block` on, extents and holes, up to the limit of file
    /// blocks.
    pub fn mappings_from(&self, block: FileBlock) -> impl Iterator<Item = Mapping> + '_ {
        let mut next = block;
        iter::from_fn(move || {
            (next.0 < FILE_BLOCK_LIMIT).then(|| {
                let mapping = self.find(next);
                next = mapping.end();
                mapping
            })
        })
    }

    /// Replaces the adjacent extents `old` of this map with the extents `new`. If `old` is empty,
    /// `new` is inserted into a hole.
    ///
    /// # Panics
    ///
    /// Panics if `old` is not in the map, or `new` overlaps the remaining extents: the plan was
    /// made for another map.
    pub(crate) fn replace(&mut self, old: &[Extent], new: &[Extent]) {
        let Some(first) = old.first().or(new.first()) else { return };
        let at = self.position(first.file_block);
        let mut left = old;
        while let Some(extent) = left.first() {
            assert!(self.extent_at(at) == Some(extent), "I2: the plan names what the map holds");
            let chunk = self.chunks.get_mut(at.chunk).expect(IN_MAP);
            let end = (at.index + left.len()).min(chunk.len());
            let removed = chunk.drain(at.index..end).count();
            left = left.split_at(removed).1;
            self.join(at);
        }
        self.insert(at, new);
        self.count = self.count + new.len() - old.len();
    }

    fn extent_at(&self, at: MapPosition) -> Option<&Extent> {
        self.chunks.get(at.chunk).and_then(|chunk| chunk.get(at.index))
    }

    /// Returns the map position of the first extent that ends after `block`, or the position after
    /// all extents.
    fn position(&self, block: FileBlock) -> MapPosition {
        let ends_before = |extent: &Extent| extent.end() <= block;
        let chunk = match &*self.chunks {
            // Most maps are short.
            [only] => usize::from(only.last().is_some_and(ends_before)),
            all => all.partition_point(|chunk| chunk.last().is_some_and(ends_before)),
        };
        let index = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(ends_before));
        MapPosition { chunk, index }
    }

    /// Restores I1 (no chunk is empty) after extents were removed at `at`. If no extent follows
    /// `at` in its chunk, moves extents of the next chunk to the end of this chunk. The extents
    /// that are still to be removed are then found at `at`.
    fn join(&mut self, at: MapPosition) {
        let chunk = self.chunks.get(at.chunk).expect(IN_MAP);
        if chunk.len() > at.index {
            return;
        }
        let length = chunk.len();
        let next = self.chunks.get(at.chunk + 1).map(Vec::len);
        match next {
            Some(next) if length == 0 || length + next <= JOIN_EXTENTS => {
                let next = self.chunks.remove(at.chunk + 1);
                self.chunks.get_mut(at.chunk).expect(IN_MAP).extend(next);
            }
            None if length == 0 => drop(self.chunks.remove(at.chunk)),
            // The next chunk starts with the rest of the old extents.
            Some(_) => self.rotate(at),
            None => {}
        }
    }

    /// Moves extents from the start of the next chunk to the end of the chunk of `at`. `at` must be
    /// the position after the last extent of its chunk.
    fn rotate(&mut self, at: MapPosition) {
        let Some((chunk, [next, ..])) =
            self.chunks.get_mut(at.chunk..).and_then(<[_]>::split_first_mut)
        else {
            unreachable!("{IN_MAP}, and another chunk follows")
        };
        let room = CHUNK_EXTENTS.checked_sub(chunk.len()).expect("I1: a chunk has its limit");
        let half = next.len().div_ceil(2).min(room);
        chunk.extend(next.drain(..half));
        if next.is_empty() {
            self.chunks.remove(at.chunk + 1);
        }
    }

    fn insert(&mut self, at: MapPosition, new: &[Extent]) {
        if new.is_empty() {
            return;
        }
        // The position after all extents becomes the end of the last chunk.
        let at = match at.chunk == self.chunks.len() {
            true => match self.chunks.last() {
                Some(last) => MapPosition { chunk: self.chunks.len() - 1, index: last.len() },
                None => {
                    self.chunks.push(Vec::new());
                    MapPosition { chunk: 0, index: 0 }
                }
            },
            false => at,
        };
        let next = self.extent_at(at).or_else(|| self.chunks.get(at.chunk + 1)?.first());
        let last = new.last().expect("not empty, as checked above");
        assert!(
            next.is_none_or(|next| last.end() <= next.file_block),
            "I2: new extents end before the next one"
        );
        let chunk = self.chunks.get_mut(at.chunk).expect(IN_MAP);
        chunk.splice(at.index..at.index, new.iter().copied());
        if chunk.len() > CHUNK_EXTENTS {
            let whole = core::mem::take(chunk);
            let halves = whole.chunks(CHUNK_EXTENTS / 2).map(<[Extent]>::to_vec);
            self.chunks.splice(at.chunk..=at.chunk, halves);
        }
    }

    /// Checks I1 (chunk lengths) and I2 (order of extents).
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(self.chunks.iter().all(|chunk| (1..=CHUNK_EXTENTS).contains(&chunk.len())), "I1");
        assert!(self.iter().is_sorted_by(|left, right| left.end() <= right.file_block), "I2");
        assert_eq!(self.iter().count(), self.count);
    }
}

#[cfg(test)]
mod tests;
