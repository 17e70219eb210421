//! Plans of changes to an extent map: the extents to remove, and the extents that replace them.
//!
//! Owns: splitting, merging and replacing extents as a pure function of the map, and the edits of a
//! btree's records that follow. Does **not** own the map itself or the blocks, and writes nothing.
//!
//! All changes use one function: [`plan`] computes the change that gives a range of the fork a new
//! mapping, whatever the range was mapped to before. Allocation into a hole, conversion of
//! unwritten extents, remapping and unmapping are the same change with different new mappings.
//!
//! # Invariants
//!
//! - **I1** The old extents of a plan are adjacent in the map. The new extents cover no block
//!   outside the old extents and the planned range.
//! - **I2** Applied in order, the record edits never make two records overlap, so the btree can
//!   compare the neighbours of a record at each edit.

use xfs_format::FileBlock;
use xfs_format::FsBlock;
use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::geometry::RealtimeGeometry;

use crate::extent_map::ExtentMap;

/// A range of blocks of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The first block.
    pub start: FileBlock,
    /// Number of blocks.
    pub length_blocks: u64,
}

impl BlockRange {
    /// Creates the range from `start` up to `end`, exclusive; empty if `end` is not after `start`.
    #[must_use]
    pub const fn between(start: FileBlock, end: FileBlock) -> Self {
        Self { start, length_blocks: end.0.saturating_sub(start.0) }
    }

    /// Creates the range that an extent covers.
    #[must_use]
    pub const fn of(extent: &Extent) -> Self {
        Self { start: extent.file_block, length_blocks: extent.length_blocks as u64 }
    }

    /// Returns the first block after the range.
    #[must_use]
    pub const fn end(&self) -> FileBlock {
        FileBlock(self.start.0.saturating_add(self.length_blocks))
    }

    /// Whether the range holds no block.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length_blocks == 0
    }

    /// Returns the smallest range that contains this range and starts and ends at multiples of
    /// `unit_blocks`. Returns this range itself if `unit_blocks` is 0.
    #[must_use]
    pub fn aligned(&self, unit_blocks: u64) -> Self {
        if unit_blocks <= 1 {
            return *self;
        }
        let start = self.start.0 - self.start.0 % unit_blocks;
        let end = self.end().0.checked_next_multiple_of(unit_blocks).unwrap_or(self.end().0);
        Self { start: FileBlock(start), length_blocks: end - start }
    }

    /// Returns the part of an extent that lies in the range; `None` if there is no such part.
    #[must_use]
    pub fn cut(&self, extent: &Extent) -> Option<Extent> {
        let start = extent.file_block.max(self.start);
        let end = extent.end().min(self.end());
        part_of(extent, start, end)
    }
}

/// Returns the part of `extent` from block `start` up to block `end`, exclusive; `None` if it has
/// no block.
///
/// # Panics
///
/// Panics if the part has a block that is not in the extent.
fn part_of(extent: &Extent, start: FileBlock, end: FileBlock) -> Option<Extent> {
    let length_blocks = end.0.checked_sub(start.0).filter(|length| *length != 0)?;
    assert!(extent.file_block <= start, "a part of an extent starts in it");
    assert!(end <= extent.end(), "a part of an extent ends in it");
    let first = extent.start.checked_add(start.0 - extent.file_block.0);
    let length_blocks = u32::try_from(length_blocks);
    Some(Extent {
        file_block: start,
        start: first.expect("the blocks of an extent lie in the volume"),
        length_blocks: length_blocks.expect("a part is no longer than its extent"),
        unwritten: extent.unwritten,
    })
}

/// The new mapping of a range of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewMapping {
    /// The range becomes a hole.
    Hole,
    /// The range is mapped to these blocks of the volume.
    Blocks {
        /// The block of the volume to which the first block of the range is mapped.
        start: FsBlock,
        /// Whether the blocks are unwritten, so that the range reads as zeros.
        unwritten: bool,
    },
    /// The blocks stay, but become written or unwritten. Holes stay holes.
    Converted {
        /// Whether the blocks become unwritten, so that the range reads as zeros.
        unwritten: bool,
    },
}

/// A change of an extent map: extents to remove, and the extents that replace them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapChange {
    /// The extents to remove. They are adjacent in the map.
    pub(crate) old: Vec<Extent>,
    /// The extents that replace those of `old`.
    pub(crate) new: Vec<Extent>,
}

/// One edit of a btree's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordEdit {
    Remove(Extent),
    Update { old: Extent, new: Extent },
    Insert(Extent),
}

/// The numbers of the blocks at which realtime groups start. An extent does not cross such a block,
/// although the numbers of the blocks on both sides may be adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupStarts {
    /// Mask of the bits of a block number that count blocks within a group. `None` if extents may
    /// cross any block.
    block_mask: Option<u64>,
}

impl GroupStarts {
    /// No starts, for the data device. There each group starts with headers, which belong to no
    /// file, so no extent can reach a group start.
    pub(crate) const NONE: Self = Self { block_mask: None };

    /// Returns the starts of the groups of the realtime section.
    pub(crate) const fn of_realtime(geometry: &RealtimeGeometry) -> Self {
        match geometry.group_count {
            0 => Self::NONE,
            _ => Self { block_mask: Some((1 << geometry.group_blocks_log) - 1) },
        }
    }

    const fn has(self, block: FsBlock) -> bool {
        match self.block_mask {
            Some(mask) => block.0 & mask == 0,
            None => false,
        }
    }
}

/// Plans the change that gives `range` the mapping `target`. An extent before or after the range
/// that is then contiguous with it becomes one extent with it, unless the joined extent would cross
/// one of `starts`.
pub(crate) fn plan(
    map: &ExtentMap,
    range: BlockRange,
    target: NewMapping,
    starts: GroupStarts,
) -> MapChange {
    let push = |extents: &mut Vec<Extent>, extent| push(extents, extent, starts);
    let (start, end) = (range.start, range.end());
    // One more block on each side, for the neighbours.
    let from = FileBlock(start.0.saturating_sub(1));
    let touches = |extent: &&Extent| extent.file_block <= end;
    let old: Vec<_> = map.iter_from(from).take_while(touches).copied().collect();
    let mut new = Vec::with_capacity(old.len() + 2);
    let heads =
        old.iter().filter_map(|extent| part_of(extent, extent.file_block, extent.end().min(start)));
    heads.for_each(|head| push(&mut new, head));
    match target {
        NewMapping::Hole => {}
        NewMapping::Blocks { start: blocks, unwritten } => {
            runs(range, blocks, unwritten).for_each(|run| push(&mut new, run));
        }
        NewMapping::Converted { unwritten } => {
            let inside = old.iter().filter_map(|extent| range.cut(extent));
            inside.for_each(|inside| push(&mut new, Extent { unwritten, ..inside }));
        }
    }
    let tails =
        old.iter().filter_map(|extent| part_of(extent, extent.file_block.max(end), extent.end()));
    tails.for_each(|tail| push(&mut new, tail));
    MapChange { old, new }.trimmed()
}

/// Returns the extents of a run of contiguous blocks, split if it is longer than the longest
/// extent.
fn runs(range: BlockRange, start: FsBlock, unwritten: bool) -> impl Iterator<Item = Extent> {
    let most = u64::from(MAX_EXTENT_BLOCKS);
    (0..range.length_blocks).step_by(MAX_EXTENT_BLOCKS as usize).map(move |done| Extent {
        file_block: FileBlock(range.start.0 + done),
        start: FsBlock(start.0 + done),
        length_blocks: (range.length_blocks - done).min(most) as u32,
        unwritten,
    })
}

/// Appends an extent, or extends the last one if the two are contiguous.
fn push(extents: &mut Vec<Extent>, extent: Extent, starts: GroupStarts) {
    if let Some(last) = extents.last_mut() {
        let length_blocks = u64::from(last.length_blocks) + u64::from(extent.length_blocks);
        let continues = last.end() == extent.file_block
            && last.start.0 + u64::from(last.length_blocks) == extent.start.0
            && last.unwritten == extent.unwritten
            && !starts.has(extent.start)
            && length_blocks <= MAX_EXTENT_BLOCKS.into();
        if continues {
            last.length_blocks = length_blocks as u32;
            return;
        }
    }
    extents.push(extent);
}

impl MapChange {
    /// Removes from `old` and `new` the extents at their starts and at their ends that are the same
    /// in both.
    fn trimmed(mut self) -> Self {
        let same = self.old.iter().zip(&self.new).take_while(|(old, new)| old == new).count();
        self.old.drain(..same);
        self.new.drain(..same);
        while self.old.last().is_some_and(|last| self.new.last() == Some(last)) {
            self.old.pop();
            self.new.pop();
        }
        self
    }

    /// Whether the change leaves the extent map as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.old.is_empty() && self.new.is_empty()
    }

    /// Returns the number of extents that the change adds to the map; negative if it removes more
    /// extents than it adds.
    pub(crate) fn growth(&self) -> i64 {
        self.new.len() as i64 - self.old.len() as i64
    }

    /// Returns the edits of a btree that make this change. Their order keeps records from
    /// overlapping (I2): removals, shortened records, extended records, insertions.
    pub(crate) fn record_edits(&self) -> Vec<RecordEdit> {
        let pairs = self.pairs();
        let mut steps = Vec::with_capacity(self.old.len() + self.new.len());
        let gone = self.old.iter().filter(|old| !pairs.iter().any(|(paired, _)| paired == *old));
        steps.extend(gone.map(|old| RecordEdit::Remove(*old)));
        let shrinks = |(old, new): &&(Extent, Extent)| contains(old, new);
        let changed = pairs.iter().filter(|(old, new)| old != new);
        let (shrunk, grown): (Vec<_>, Vec<_>) = changed.partition(shrinks);
        let updates = shrunk.into_iter().chain(grown);
        steps.extend(updates.map(|&(old, new)| RecordEdit::Update { old, new }));
        let come = self.new.iter().filter(|new| !pairs.iter().any(|(_, paired)| paired == *new));
        steps.extend(come.map(|new| RecordEdit::Insert(*new)));
        steps
    }

    /// Pairs each old extent whose btree record is changed in place with the new extent that the
    /// record then holds. If there are as many old as new extents and each only gets shorter or
    /// longer, they are paired in order. Otherwise only extents that start at the same file block
    /// are paired.
    fn pairs(&self) -> Vec<(Extent, Extent)> {
        let in_order = self.old.iter().copied().zip(self.new.iter().copied());
        let fits = |(old, new): (Extent, Extent)| contains(&old, &new) || contains(&new, &old);
        if self.old.len() == self.new.len() && in_order.clone().all(fits) {
            return in_order.collect();
        }
        let same_key = |old: &Extent| {
            let new = self.new.iter().find(|new| new.file_block == old.file_block)?;
            Some((*old, *new))
        };
        self.old.iter().filter_map(same_key).collect()
    }
}

/// Whether extent `outer` covers every file block that extent `inner` covers.
fn contains(outer: &Extent, inner: &Extent) -> bool {
    inner.file_block >= outer.file_block && inner.end() <= outer.end()
}

#[cfg(test)]
mod tests;
