//! Tests of hand-made records of free extents, with the geometry of a volume that mkfs.xfs made.

use super::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize, FreeSpaceCheck};
use crate::addr::{AgBlock, AgNumber};
use crate::btree::BtreeFormat;
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::group::Group;

fn decode(start: u32, count: u32) -> Result<FreeSpace, Check> {
    let geometry = golden::geometry(golden!("plain.headers"));
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    FreeSpace::decode(&[start.to_be_bytes(), count.to_be_bytes()].concat(), &group)
}

#[test]
fn extents_must_lie_in_the_group() {
    assert_eq!(decode(1, 19199), Ok(FreeSpace { start: AgBlock(1), count: 19199 }));
    for (start, count) in [(0, 1), (1, 0), (1, 19200), (19200, 1), (19199, u32::MAX), (u32::MAX, 1)]
    {
        let expected = Check::FreeSpace(FreeSpaceCheck::Range { start, count });
        assert_eq!(decode(start, count), Err(expected));
    }
}

#[test]
fn orders_of_the_two_btrees_differ() {
    let (long, short) = (decode(10, 20).unwrap(), decode(100, 5).unwrap());
    assert!(FreeSpaceByBlock::may_follow(&short, &long));
    assert!(!FreeSpaceByBlock::may_follow(&long, &short));
    assert!(FreeSpaceBySize::may_follow(&long, &short));
    assert!(!FreeSpaceBySize::may_follow(&short, &long));
    assert!(FreeSpaceBySize::key(&long) > FreeSpaceBySize::key(&short));
}

#[test]
fn adjacent_extents_may_not_follow_each_other() {
    let (first, touching) = (decode(10, 20).unwrap(), decode(30, 20).unwrap());
    assert!(!FreeSpaceByBlock::may_follow(&touching, &first));
    assert!(!FreeSpaceBySize::may_follow(&touching, &first));
    let apart = decode(31, 20).unwrap();
    assert!(FreeSpaceByBlock::may_follow(&apart, &first));
    assert!(FreeSpaceBySize::may_follow(&apart, &first));
}
