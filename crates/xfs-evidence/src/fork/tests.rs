//! Tests of filling a map from another source.

use super::{Extent, FileBlock, FileRange, ForkEvidence, FsBlock};

fn extent(file_block: u64, start: u64, length_blocks: u32) -> Extent {
    Extent {
        file_block: FileBlock(file_block),
        start: FsBlock(start),
        length_blocks,
        unwritten: false,
    }
}

fn range(start: u64, end: u64) -> FileRange {
    FileRange { start: FileBlock(start), end: FileBlock(end) }
}

#[test]
fn extents_from_another_source_fill_gaps_only() {
    let mut map = ForkEvidence {
        extents: vec![extent(0, 100, 4), extent(8, 200, 2)],
        missing: vec![range(4, 20)],
        ..ForkEvidence::default()
    };
    map.fill(&[extent(2, 502, 8), extent(12, 600, 3)]);
    let expected = [extent(0, 100, 4), extent(4, 504, 4), extent(8, 200, 2), extent(12, 600, 3)];
    assert_eq!(map.extents, expected);
    assert_eq!(map.missing, [range(8, 12), range(15, 20)]);
}

#[test]
fn extent_that_is_known_already_changes_nothing() {
    let mut map = ForkEvidence { extents: vec![extent(0, 100, 4)], ..ForkEvidence::default() };
    map.fill(&[extent(1, 900, 2), extent(0, 100, 4)]);
    assert_eq!(map.extents, [extent(0, 100, 4)]);
}
