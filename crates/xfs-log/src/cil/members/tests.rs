use std::sync::Arc;

use xfs_testkit::Prng;

use super::{CHUNK_MEMBERS, MOVED_CHUNKS, MemberListPool};
use crate::cil::OpenCheckpoint;
use crate::cil::membership::{CilMembership, Disposition};
use crate::item::{CheckpointEnd, LogItem};
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

/// Commits items through the slot, as `Cil::commit` does. Returns the indices of their members.
fn commit(membership: &mut CilMembership, items: &[Arc<TestItem>]) -> Vec<u32> {
    let items: Vec<_> = items.iter().map(|item| Arc::clone(item) as Arc<dyn LogItem>).collect();
    let mut scratch = Scratch::take();
    items.iter().for_each(|item| scratch.format(item.as_ref()));
    if membership.members.lacks_arena_chunk(2 * scratch.length_bytes()) {
        membership.members.arena.add(Vec::with_capacity(64 << 10));
    }
    let order = membership.begin_commit(0);
    for (item, vector) in items.iter().zip(scratch.vectors()) {
        membership.insert(item, vector.unwrap(), order);
    }
    membership.end_commit(&items).for_each(|intent| intent.unpin(CheckpointEnd::Cancelled));
    let started = items.iter().filter(|item| item.finishes().is_none());
    started.map(|item| item.state().member_ref().index).collect()
}

#[test]
fn cancelled_intent_leaves_its_entry_and_its_memory_to_the_next() {
    let mut membership = membership_of(0);
    for number in 0..10_000 {
        let intent = TestItem::new(8 * number);
        assert_eq!(commit(&mut membership, &[Arc::clone(&intent)]), [0]);
        commit(&mut membership, &[TestItem::finishing(0, &intent)]);
        assert!(intent.was_cancelled());
        assert_eq!(intent.pins(), 0);
        assert_eq!(Arc::strong_count(&intent), 2);
    }
    assert_eq!(membership.members.list.len(), 1);
    assert_eq!(membership.members.arena.chunk_count(), 1);
}

#[test]
fn intents_of_a_commit_stay_in_order_in_the_entries_of_cancelled_ones() {
    let mut membership = membership_of(0);
    let intents: Vec<_> = (0..4).map(|number| TestItem::new(8 * number)).collect();
    assert_eq!(commit(&mut membership, &intents), [0, 1, 2, 3]);
    let ends = |intent: usize| TestItem::finishing(0, &intents[intent]);
    assert_eq!(commit(&mut membership, &[ends(3), ends(1)]), []);
    // The entry that the commit frees comes before the one that it has taken.
    let items = [TestItem::new(64), ends(0), TestItem::new(72), TestItem::new(80)];
    assert_eq!(commit(&mut membership, &items), [1, 3, 4]);
    assert_eq!(commit(&mut membership, &[TestItem::new(88)]), [0]);
}

/// Opens and finishes intents of random lengths in random commits. Checks after each commit that
/// the checkpoint would write the open intents, each with its bytes and in order.
fn check_open_intents(seed: u64) {
    let mut random = Prng::new(seed);
    let mut membership = membership_of(0);
    let mut open: Vec<(u64, Arc<TestItem>)> = Vec::new();
    let mut most = 0;
    for number in 0..400_u64 {
        let mut items = Vec::new();
        for _ in 0..random.within(1..5) {
            if !open.is_empty() && random.within(0..2) == 0 {
                let (_, intent) = open.remove(random.within(0..open.len()));
                items.push(TestItem::finishing(0, &intent));
            } else {
                let length = 128 * random.within(1..9);
                items.push(TestItem::with_length(8 * (number + 1), length));
            }
        }
        let indices = commit(&mut membership, &items);
        assert!(indices.is_sorted_by(|left, right| left < right), "seed {seed}: {indices:?}");
        let started = items.into_iter().filter(|item| item.finishes().is_none());
        open.extend(started.map(|item| (membership.clock, item)));
        most = most.max(open.len());
        let members = &membership.members;
        let written = |(_, item): &(u64, Arc<TestItem>)| {
            let index = item.state().member_ref().index as usize;
            let member = members.list.iter().nth(index).unwrap();
            (member.order, member.disposition, members.arena.bytes(member.location).to_vec())
        };
        let expected = |(order, item): &(u64, Arc<TestItem>)| {
            let mut scratch = Scratch::take();
            scratch.format(item.as_ref());
            let bytes = scratch.vectors().next().unwrap().unwrap().bytes.to_vec();
            (*order, Disposition::Written, bytes)
        };
        assert!(open.iter().map(written).eq(open.iter().map(expected)), "seed {seed}");
        assert_eq!(members.list.len() - members.free.len(), open.len(), "seed {seed}");
    }
    assert!(membership.members.list.len() <= 2 * most + 4, "seed {seed}: more than {most} open");
}

#[test]
fn entries_of_cancelled_intents_are_used_again_at_random() {
    (0..50).for_each(check_open_intents);
}
