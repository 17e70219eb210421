use xfs_format::extent::Extent;
use xfs_format::{FileBlock, FsBlock};

use super::freed;

fn extents(ranges: &[(u64, u32)]) -> Vec<Extent> {
    let extent = |(start, length_blocks): &(u64, u32)| Extent {
        file_block: FileBlock(*start),
        start: FsBlock(*start),
        length_blocks: *length_blocks,
        unwritten: false,
    };
    ranges.iter().map(extent).collect()
}

fn check(before: &[(u64, u32)], after: &[(u64, u32)], expected: &[(u64, u32)]) {
    let found = freed(&extents(before), &extents(after));
    assert_eq!(found, extents(expected), "{before:?} {after:?}");
}

#[test]
fn blocks_in_no_new_extent_are_freed() {
    check(&[(10, 5)], &[], &[(10, 5)]);
    check(&[(10, 5)], &[(10, 5)], &[]);
    check(&[(10, 5)], &[(5, 20)], &[]);
    check(&[(10, 5)], &[(12, 1)], &[(10, 2), (13, 2)]);
    check(&[(10, 5), (30, 2)], &[(14, 17)], &[(10, 4), (31, 1)]);
    check(&[(10, 5)], &[(20, 1), (8, 3)], &[(11, 4)]);
    check(&[(10, 5)], &[(15, 5), (5, 5)], &[(10, 5)]);
}
