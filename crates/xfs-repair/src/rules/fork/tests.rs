//! Tests of the choice between the sound leaves of a fork's btree and the reverse map.

use xfs_evidence::{FileRange, ForkEvidence};
use xfs_format::extent::Extent;
use xfs_format::{FileBlock, FsBlock};

use super::{filled, in_order};

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

/// Fills the ranges `missing` of a fork, whose other extents are `sound`, from the reverse map
/// `map`. Checks that the fork then has the extents `expected`.
fn check_filled(sound: &[Extent], missing: &[FileRange], map: &[Extent], expected: &[Extent]) {
    let fork = ForkEvidence {
        extents: sound.to_vec(),
        missing: missing.to_vec(),
        ..ForkEvidence::default()
    };
    assert_eq!(filled(&fork, map, true), expected);
}

#[test]
fn missing_range_is_filled_from_the_reverse_map_and_joined() {
    let map = [extent(0, 100, 30)];
    check_filled(&[extent(0, 100, 10)], &[range(10, 30)], &map, &[extent(0, 100, 30)]);
}

#[test]
fn sound_extent_is_kept_where_the_reverse_map_differs() {
    let map = [extent(0, 500, 30)];
    let expected = [extent(0, 100, 10), extent(10, 510, 20)];
    check_filled(&[extent(0, 100, 10)], &[range(5, 30)], &map, &expected);
}

#[test]
fn range_without_damage_takes_nothing_from_the_reverse_map() {
    let map = [extent(0, 100, 10), extent(50, 900, 10)];
    check_filled(&[extent(0, 100, 10)], &[], &map, &[extent(0, 100, 10)]);
}

#[test]
fn unwritten_extent_of_a_directory_becomes_a_written_one() {
    let unwritten = Extent { unwritten: true, ..extent(0, 100, 4) };
    let fork = ForkEvidence { missing: vec![range(0, 10)], ..ForkEvidence::default() };
    assert_eq!(filled(&fork, &[unwritten], false), [extent(0, 100, 4)]);
}

#[test]
fn overlapping_extents_keep_the_first_one() {
    let ordered = in_order(vec![extent(4, 300, 8), extent(0, 100, 6)]);
    assert_eq!(ordered, [extent(0, 100, 6), extent(6, 302, 6)]);
}
