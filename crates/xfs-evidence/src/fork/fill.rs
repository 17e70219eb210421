//! Filling the gaps of a map with extents from another source.
//!
//! Owns: the parts of extents that fall into gaps, and the ranges that stay missing. Does **not**
//! own: the source of the extents.
//!
//! If the extent btree of a sparse file is lost, the reverse map can have millions of extents of
//! the file. So the time for n extents grows with n log n, not with the square of n.

use std::collections::BTreeMap;

use xfs_format::extent::Extent;
use xfs_format::{FileBlock, FsBlock};

use super::{FileRange, ForkEvidence};

impl ForkEvidence {
    /// Adds extents from another source, such as the reverse map, for the file blocks that have no
    /// extent so far. These file blocks are then no longer missing. If two new extents overlap, the
    /// first one is used for the common blocks.
    pub fn fill(&mut self, more: &[Extent]) {
        let extents = std::mem::take(&mut self.extents).into_iter();
        let mut map: BTreeMap<FileBlock, Extent> =
            extents.map(|extent| (extent.file_block, extent)).collect();
        let mut added = Vec::new();
        for extent in more {
            for part in uncovered(&map, extent) {
                added.push(FileRange { start: part.file_block, end: part.end() });
                map.insert(part.file_block, part);
            }
        }
        self.extents = map.into_values().collect();
        added.sort_unstable();
        let missing = std::mem::take(&mut self.missing);
        self.missing = missing.into_iter().flat_map(|range| without(range, &added)).collect();
    }
}

/// Returns the parts of an extent that no extent of the map covers.
fn uncovered(map: &BTreeMap<FileBlock, Extent>, extent: &Extent) -> Vec<Extent> {
    let (start, limit) = (extent.file_block, extent.end());
    let before = map.range(..start).next_back().map(|(_, other)| other.end());
    let mut next = before.map_or(start, |end| end.max(start));
    let mut parts = Vec::new();
    let inside = map.range(start..limit).map(|(key, other)| (*key, other.end()));
    for (stop, end) in inside.chain([(limit, limit)]) {
        if stop > next {
            let skipped = next.0 - start.0;
            parts.push(Extent {
                file_block: next,
                start: FsBlock(extent.start.0 + skipped),
                length_blocks: u32::try_from(stop.0 - next.0)
                    .expect("a part is no longer than the extent"),
                unwritten: extent.unwritten,
            });
        }
        next = next.max(end);
    }
    parts
}

/// Returns the parts of `range` that lie in none of `others`, which must be in order and not
/// overlap.
fn without(range: FileRange, others: &[FileRange]) -> Vec<FileRange> {
    let first = others.partition_point(|other| other.end <= range.start);
    let others = others.iter().skip(first).take_while(|other| other.start < range.end);
    let mut next = range.start;
    let mut parts = Vec::new();
    let end = FileRange { start: range.end, end: range.end };
    for other in others.chain([&end]) {
        if other.start > next {
            parts.push(FileRange { start: next, end: other.start });
        }
        next = next.max(other.end);
    }
    parts
}
