//! Tests of the layout of allocation groups of new volumes. They compare block numbers of free
//! extents, free lists and owned extents.

use xfs_format::free_space::FreeSpace;
use xfs_format::rmap::RmapOwner;
use xfs_format::{AgBlock, AgNumber};

use crate::plan::tests::plan;

const GIB: u64 = 1 << 30;

fn free(start: u32, count: u32) -> FreeSpace {
    FreeSpace { start: AgBlock(start), count }
}

#[test]
fn ordinary_group_has_headers_roots_and_a_free_list() {
    let plan = plan(2 * GIB, "").unwrap();
    let group = plan.group(AgNumber(1)).unwrap();
    assert_eq!(group.free, [free(13, 131_059)]);
    assert_eq!(group.free_list, (7..13).map(AgBlock).collect::<Vec<_>>());
    let owners: Vec<_> = group.owned.iter().map(|owned| (owned.start.0, owned.count)).collect();
    assert_eq!(owners, [(0, 1), (1, 2), (3, 2), (5, 1), (6, 1), (7, 6)]);
}

#[test]
fn first_group_has_the_inodes_and_the_middle_group_the_log() {
    let plan = plan(2 * GIB, "").unwrap();
    let first = plan.group(AgNumber(0)).unwrap();
    assert_eq!(first.inodes, Some(AgBlock(16)));
    assert_eq!(first.free, [free(13, 3), free(24, 131_048)]);
    let middle = plan.group(AgNumber(2)).unwrap();
    assert_eq!(middle.free, [free(16397, 114_675)]);
    assert_eq!(middle.free_list.first(), Some(&AgBlock(16391)));
    assert!(plan.group(AgNumber(4)).is_none());
}

#[test]
fn gap_before_an_aligned_log_feeds_the_free_list() {
    let plan = plan(GIB, "-l su=64k").unwrap();
    let group = plan.group(AgNumber(2)).unwrap();
    // Blocks 7 to 15 are before the log. Six of them are the best fit.
    assert_eq!(group.free_list, (7..13).map(AgBlock).collect::<Vec<_>>());
    assert_eq!(group.free.first(), Some(&free(13, 3)));
}

#[test]
fn adjacent_extents_of_one_owner_are_one_record() {
    let plan = plan(GIB, "-m reflink=0").unwrap();
    let group = plan.group(AgNumber(1)).unwrap();
    let last = group.owned.last().unwrap();
    // The root of the reverse map, and the free list after it.
    assert_eq!((last.start, last.count, last.owner), (AgBlock(5), 7, RmapOwner::Group));
}

#[test]
fn every_block_is_free_or_owned_once() {
    for text in ["", "-b size=1k -l su=256k", "-b size=64k", "-d su=64k,sw=4", "-i sparse=0"] {
        let plan = plan(GIB, text).unwrap();
        for number in plan.superblock().geometry.groups() {
            let group = plan.group(number).unwrap();
            let owned = group.owned.iter().map(|owned| (owned.start.0, owned.count));
            let free = group.free.iter().map(|extent| (extent.start.0, extent.count));
            let mut all: Vec<_> = owned.chain(free).collect();
            all.sort_unstable();
            let end = all.iter().fold(0, |end, (start, count)| {
                assert_eq!(end, *start, "{text} in {number}");
                start + count
            });
            assert_eq!(end, group.length_blocks, "{text} in {number}");
        }
    }
}
