//! Tests that fill the gaps in the map of a fork with extents from another source.

use std::time::{Duration, Instant};

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

#[test]
fn first_of_two_new_extents_that_overlap_wins() {
    let mut map = ForkEvidence { missing: vec![range(0, 30)], ..ForkEvidence::default() };
    map.fill(&[extent(10, 500, 4), extent(8, 700, 12)]);
    let expected = [extent(8, 700, 2), extent(10, 500, 4), extent(14, 706, 6)];
    assert_eq!(map.extents, expected);
    assert_eq!(map.missing, [range(0, 8), range(20, 30)]);
}

/// Checks that the time to fill a map does not grow with the square of the number of extents. The
/// file has 500,000 extents, each followed by a hole; in quadratic time, the test would take hours.
#[test]
fn lost_btree_of_a_sparse_file_is_filled_in_seconds() {
    let count = 500_000;
    let more: Vec<_> = (0..count).rev().map(|at| extent(2 * at, 5 * at, 1)).collect();
    let mut map = ForkEvidence { missing: vec![range(0, 2 * count)], ..ForkEvidence::default() };
    let start = Instant::now();
    map.fill(&more);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!((map.extents.len(), map.missing.len()), (500_000, 500_000));
    assert_eq!(map.missing.first(), Some(&range(1, 2)));
}
