//! Lookups of blocks inside, before, between and after extents.

use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};
use xfs_format::{FileBlock, FsBlock};

use super::{CHUNK_EXTENTS, ExtentMap, Mapping};

const LIMIT: FileBlock = FileBlock(FILE_BLOCK_LIMIT);

fn extent(file_block: u64, start: u64, length_blocks: u32) -> Extent {
    Extent {
        file_block: FileBlock(file_block),
        start: FsBlock(start),
        length_blocks,
        unwritten: false,
    }
}

fn hole(start: u64, end: FileBlock) -> Mapping {
    Mapping::Hole { start: FileBlock(start), end }
}

#[test]
fn find_returns_the_extent_or_the_hole() {
    let (first, second) = (extent(2, 100, 3), extent(5, 200, 1));
    let last = extent(10, 300, 2);
    let map = ExtentMap::from_verified(vec![first, second, last]);
    let check = |block, expected| assert_eq!(map.find(FileBlock(block)), expected, "{block}");
    check(0, hole(0, FileBlock(2)));
    check(1, hole(0, FileBlock(2)));
    check(2, Mapping::Extent(first));
    check(4, Mapping::Extent(first));
    check(5, Mapping::Extent(second));
    check(6, hole(6, FileBlock(10)));
    check(11, Mapping::Extent(last));
    check(12, hole(12, LIMIT));
    check(u64::MAX, hole(12, LIMIT));
    assert_eq!((map.end(), ExtentMap::EMPTY.end()), (FileBlock(12), FileBlock(0)));
}

/// Checks maps of one chunk, of two chunks, and of more, that are collected extent by extent.
#[test]
fn collected_map_has_the_extents_in_chunks_that_can_grow() {
    for count in [0, 1, CHUNK_EXTENTS, CHUNK_EXTENTS + 1, 10 * CHUNK_EXTENTS + 7] {
        let extents: Vec<_> = (0..count as u64).map(|at| extent(2 * at, 2 * at, 1)).collect();
        let found = extents.iter().copied().map(Ok::<_, ()>);
        let mut map = ExtentMap::collect(found).unwrap();
        map.check();
        assert!(map.iter().eq(&extents), "{count}");
        map.replace(&[], &[extent(2 * count as u64, 2 * count as u64, 1)]);
        map.check();
    }
    let failed = ExtentMap::collect([Ok(extent(0, 0, 1)), Err("unreadable")].into_iter());
    assert_eq!(failed, Err("unreadable"));
}

#[test]
fn empty_map_is_one_hole() {
    assert_eq!(ExtentMap::EMPTY.find(FileBlock(7)), hole(0, LIMIT));
    let all: Vec<_> = ExtentMap::EMPTY.mappings_from(FileBlock(7)).collect();
    assert_eq!(all, [hole(0, LIMIT)]);
}

/// Checks `iter_from` at all blocks of a map of two chunks, also after the last extent.
#[test]
fn iteration_begins_with_the_extent_that_ends_after_the_block() {
    let count = CHUNK_EXTENTS as u64 + 1;
    let extents: Vec<_> = (0..count).map(|index| extent(2 * index, 2 * index, 1)).collect();
    let map = ExtentMap::from_verified(extents.clone());
    for block in (0..=2 * count).map(FileBlock).chain([LIMIT, FileBlock(u64::MAX)]) {
        let expected = extents.iter().filter(|extent| extent.end() > block);
        assert!(map.iter_from(block).eq(expected), "{block}");
    }
    assert_eq!(ExtentMap::EMPTY.iter_from(FileBlock(0)).count(), 0);
}

#[test]
fn mappings_end_at_the_largest_file_block() {
    let last = extent(FILE_BLOCK_LIMIT - 1, 9, 1);
    let map = ExtentMap::from_verified(vec![extent(0, 5, 1), last]);
    let all: Vec<_> = map.mappings_from(FileBlock(0)).collect();
    let between = hole(1, FileBlock(FILE_BLOCK_LIMIT - 1));
    assert_eq!(all, [Mapping::Extent(extent(0, 5, 1)), between, Mapping::Extent(last)]);
    assert_eq!(map.mappings_from(LIMIT).count(), 0);
}
