use std::sync::Arc;

use super::{ListPool, MOVED_PIECES, PIECE_MEMBERS};
use crate::cil::Checkpoint;
use crate::cil::membership::CilMembership;
use crate::item::LogItem;
use crate::mutant::ActiveMutant;
use crate::testing::item::TestItem;
use crate::vector::Scratch;

/// A share to which so many items have been committed.
fn membership_of(count: usize) -> CilMembership {
    let mut membership =
        CilMembership::new(0, Arc::new(Checkpoint::new(1)), ActiveMutant::default());
    for number in 0..count {
        let item: Arc<dyn LogItem> = TestItem::new(8 * number as u64);
        let mut scratch = Scratch::take();
        scratch.format(item.as_ref());
        membership.members.arena.add(Vec::with_capacity(scratch.length_bytes()));
        for vector in scratch.vectors() {
            membership.insert(&item, vector, number as u64);
        }
    }
    membership
}

#[test]
fn members_stand_where_they_were_put() {
    let count = 2 * PIECE_MEMBERS + 7;
    let mut list = membership_of(count).members.list;
    assert_eq!(list.len(), count);
    assert!(list.has_room(PIECE_MEMBERS - 7) && !list.has_room(PIECE_MEMBERS - 6));
    for index in 0..count {
        assert_eq!(list.get_mut(index).unwrap().order, index as u64);
    }
    assert!(list.get_mut(count).is_none());
    assert!(list.iter().map(|member| member.order).eq(0..count as u64));
    let lengths: Vec<_> = list.into_pieces().map(|piece| piece.len()).collect();
    assert_eq!(lengths, [PIECE_MEMBERS, PIECE_MEMBERS, 7]);
}

#[test]
fn pieces_are_used_again_but_not_all_are_kept() {
    let pool = ListPool::new(0, 2);
    for piece in membership_of((2 * MOVED_PIECES + 1) * PIECE_MEMBERS).members.list.into_pieces() {
        pool.give_back(piece);
    }
    // Of those that have been moved, two; and the rest.
    let at_hand = MOVED_PIECES + 1;
    assert_eq!((pool.pieces.lock().len(), pool.at_hand.mine().lock().len()), (2, at_hand));
    let memory = pool.at_hand.mine().lock().last().unwrap().as_ptr();
    let again = pool.take();
    assert!(again.is_empty());
    assert_eq!((again.as_ptr(), again.capacity()), (memory, PIECE_MEMBERS));
    let used: Vec<_> = (0..MOVED_PIECES).map(|_| pool.take()).collect();
    let memory = pool.pieces.lock().last().unwrap().as_ptr();
    let moved = pool.take();
    assert_eq!(moved.as_ptr(), memory);
    assert!(pool.pieces.lock().is_empty());
    drop((used, moved));
}
