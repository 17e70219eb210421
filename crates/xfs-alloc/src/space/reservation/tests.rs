//! Tests of the accounts of reserved blocks of a group: their sizes, and the blocks that they hide
//! from users.

use super::*;

#[test]
fn account_gives_and_takes_only_its_own_blocks() {
    let mut reserve = Reserve::new(10, 4);
    assert_eq!(reserve.left, 6);
    assert_eq!(reserve.draw(4), 0);
    assert_eq!(reserve.draw(5), 3);
    assert_eq!(reserve.left, 0);
    assert_eq!(reserve.refill(12), 2);
    assert_eq!(reserve.left, 10);
    // The btrees have more blocks than the account's maximum.
    assert_eq!(Reserve::new(10, 12).left, 0);
}

#[test]
fn accounts_are_hidden_while_there_is_room() {
    let demand = |refcount, free_inodes, reverse_map| ReserveDemand {
        refcount: Reserve::new(refcount, 1),
        free_inodes: Reserve::new(free_inodes, 1),
        reverse_map: Reserve::new(reverse_map, 1),
    };
    let mut visible = VisibleBlocks::new(1000, 16, 50);
    assert_eq!(visible.blocks(), 934);
    let reserves = Reserves::set_up(&demand(101, 51, 200), &mut visible);
    assert_eq!(visible.blocks(), 934 - 150 - 200);
    assert_eq!((reserves.metadata.left, reserves.reverse_map.left), (150, 199));
    assert_eq!(reserves.kept_from(None), 349);
    assert_eq!(reserves.kept_from(Some(Account::Metadata)), 199);
    // First the free inode btree has no account, then the reverse map also has none.
    let reserves = Reserves::set_up(&demand(101, 901, 500), &mut visible);
    assert_eq!((reserves.metadata.left, reserves.reverse_map.left), (100, 0));
    // The pool supplies the blocks.
    let mut visible = VisibleBlocks::new(1000, 16, 500);
    assert!(visible.hide(484));
    assert!(visible.hide(499));
    assert!(!visible.hide(2));
}
