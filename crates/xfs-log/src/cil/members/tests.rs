use std::sync::Arc;

use super::{CHUNK_MEMBERS, MOVED_CHUNKS, MemberListPool};
use crate::cil::OpenCheckpoint;
use crate::cil::membership::CilMembership;
use crate::item::LogItem;
use crate::mutant::ActiveMutant;
use crate::testing::item::TestItem;
use crate::vector::Scratch;

/// Returns one slot's part of a checkpoint. This part has `count` items.
fn membership_of(count: usize) -> CilMembership {
    let mut membership =
        CilMembership::new(0, Arc::new(OpenCheckpoint::new(1)), ActiveMutant::default());
    for number in 0..count {
        let item: Arc<dyn LogItem> = TestItem::new(8 * number as u64);
        let mut scratch = Scratch::take();
        scratch.format(item.as_ref());
        membership.members.arena.add(Vec::with_capacity(scratch.length_bytes()));
        for vector in scratch.vectors() {
            membership.insert(&item, vector.unwrap(), number as u64);
        }
    }
    membership
}

#[test]
fn member_list_keeps_members_at_their_indexes() {
    let count = 2 * CHUNK_MEMBERS + 7;
    let mut list = membership_of(count).members.list;
    assert_eq!(list.len(), count);
    assert!(list.has_room(CHUNK_MEMBERS - 7) && !list.has_room(CHUNK_MEMBERS - 6));
    for index in 0..count {
        assert_eq!(list.get_mut(index).unwrap().order, index as u64);
    }
    assert!(list.get_mut(count).is_none());
    assert!(list.iter().map(|member| member.order).eq(0..count as u64));
    let lengths: Vec<_> = list.into_chunks().map(|chunk| chunk.len()).collect();
    assert_eq!(lengths, [CHUNK_MEMBERS, CHUNK_MEMBERS, 7]);
}

#[test]
fn returned_chunks_are_reused_and_their_number_is_bounded() {
    let pool = MemberListPool::new(0, 2);
    for chunk in membership_of((2 * MOVED_CHUNKS + 1) * CHUNK_MEMBERS).members.list.into_chunks() {
        pool.give_back(chunk);
    }
    // Two of the chunks that were moved to the pool of all, and the rest.
    let local = MOVED_CHUNKS + 1;
    assert_eq!((pool.chunks.lock().len(), pool.local.mine().lock().len()), (2, local));
    let memory = pool.local.mine().lock().last().unwrap().as_ptr();
    let again = pool.take();
    assert!(again.is_empty());
    assert_eq!((again.as_ptr(), again.capacity()), (memory, CHUNK_MEMBERS));
    let used: Vec<_> = (0..MOVED_CHUNKS).map(|_| pool.take()).collect();
    let memory = pool.chunks.lock().last().unwrap().as_ptr();
    let moved = pool.take();
    assert_eq!(moved.as_ptr(), memory);
    assert!(pool.chunks.lock().is_empty());
    drop((used, moved));
}
