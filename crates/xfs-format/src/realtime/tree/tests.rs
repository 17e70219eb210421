use alloc::vec;
use alloc::vec::Vec;

use super::{RealtimeRefcountTree, RealtimeReverseMapTree, RealtimeTree, RealtimeTreeEntries};
use crate::addr::FsBlock;
use crate::btree::BtreeCheck;
use crate::corruption::Check;

/// Returns a fork with a root of this level and count, and `body` after the header.
fn root(level: u16, count: u16, body: &[u8], fork_bytes: usize) -> Vec<u8> {
    let mut fork = vec![0; fork_bytes];
    fork[..2].copy_from_slice(&level.to_be_bytes());
    fork[2..4].copy_from_slice(&count.to_be_bytes());
    fork[4..4 + body.len()].copy_from_slice(body);
    fork
}

#[test]
fn root_of_level_0_holds_records() {
    let fork = root(0, 2, &[7; 48], 192);
    let entries = RealtimeTreeEntries::of_root::<RealtimeReverseMapTree>(&fork).unwrap();
    assert_eq!(entries.records().len(), 2);
    assert_eq!(entries.children().len(), 0);
}

#[test]
fn pointers_of_a_root_follow_the_room_for_all_keys() {
    // A fork of 192 bytes has room for three children of the reverse map: pointers start at 124.
    let mut fork = root(1, 1, &[1; 40], 192);
    fork[124..132].copy_from_slice(&77_u64.to_be_bytes());
    let entries = RealtimeTreeEntries::of_root::<RealtimeReverseMapTree>(&fork).unwrap();
    let children: Vec<_> = entries.children().collect();
    assert_eq!(children, [([1; 40].as_slice(), FsBlock(77))]);
    // It has room for eleven children of the reference counts: pointers start at 48.
    let mut fork = root(1, 1, &[1; 4], 192);
    fork[48..56].copy_from_slice(&78_u64.to_be_bytes());
    let entries = RealtimeTreeEntries::of_root::<RealtimeRefcountTree>(&fork).unwrap();
    assert_eq!(entries.children().next(), Some(([1; 4].as_slice(), FsBlock(78))));
}

#[test]
fn root_with_an_impossible_level_or_count_is_refused() {
    fn check<T: RealtimeTree>(level: u16, count: u16) -> Check {
        RealtimeTreeEntries::of_root::<T>(&root(level, count, &[], 192)).unwrap_err()
    }
    type Map = RealtimeReverseMapTree;
    assert!(matches!(check::<Map>(16, 1), Check::Btree(BtreeCheck::Level { .. })));
    assert!(matches!(check::<Map>(0, 8), Check::Btree(BtreeCheck::Count { max: 7, .. })));
    assert!(matches!(check::<Map>(1, 4), Check::Btree(BtreeCheck::Count { max: 3, .. })));
    assert!(matches!(check::<Map>(1, 0), Check::Btree(BtreeCheck::EmptyNode)));
    let short = RealtimeTreeEntries::of_root::<RealtimeReverseMapTree>(&[0; 3]);
    assert!(matches!(short.unwrap_err(), Check::Truncated { .. }));
}
