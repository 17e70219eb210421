use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cached_inode::Keep;
use crate::counts::Count;
use crate::evict::{count_inodes, drop_idle};
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::kind::CacheableInode;
use crate::store::BulkRequest;
use crate::testing::{FakeInode, FakeStore, Mutant};
use xfs_format::InodeNumber;

const FIRST: InodeNumber = InodeNumber(128);

fn open(index: InodeIndex) -> (InodeCache<Arc<FakeStore>>, Arc<FakeStore>) {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    // One of three numbers is free.
    for number in (0..64).filter(|number| number % 3 != 0) {
        store.create(InodeNumber(FIRST.0 + number), drop);
    }
    (InodeCache::new(Arc::clone(&store), 1000, index), store)
}

fn pass(cache: &InodeCache<Arc<FakeStore>>, inodes: u64) -> (Vec<u64>, u64) {
    let mut shown = Vec::new();
    let left =
        cache.bulk_visit(BulkRequest { first: FIRST, inodes, freed: 0 }, |book: &FakeInode| {
            book.check();
            shown.push(book.number().0 - FIRST.0);
        });
    (shown, left)
}

fn sums(cache: &InodeCache<Arc<FakeStore>>) -> [u64; 4] {
    [Count::Attempt, Count::Missed, Count::Released, Count::Evicted]
        .map(|count| cache.counts().sum(count))
}

#[test]
fn visit_of_a_cold_chunk_leaves_nothing_cached() {
    let (cache, _) = open(InodeIndex::ByGroup);
    let (shown, left) = pass(&cache, u64::MAX);
    assert_eq!(shown, (0..64).filter(|number| number % 3 != 0).collect::<Vec<_>>());
    // The visit leaves free numbers to its caller, which asks for each.
    assert_eq!(left, (0..64).step_by(3).fold(0, |all, number| all | 1 << number));
    assert_eq!(sums(&cache), [42; 4]);
    assert_eq!(count_inodes(&cache).total(), 0);
    assert!(cache.groups.iter().all(|group| group.is_empty()));
}

#[test]
fn visit_leaves_cached_inodes_to_its_caller() {
    let (cache, _) = open(InodeIndex::ByGroup);
    let held = cache.take(InodeNumber(FIRST.0 + 1)).unwrap();
    let idle = cache.take(InodeNumber(FIRST.0 + 2)).unwrap();
    drop(idle);
    assert_eq!(pass(&cache, 0b1_0110), (vec![4], 0b110));
    assert_eq!(count_inodes(&cache).total(), 2);
    drop(held);
    assert_eq!(drop_idle(&cache), 2);
}

/// Visits two inodes of a chunk in bulk, while another caller takes a reference to one of them.
/// Checks I3 of `xfs_icache::inode_cache::bulk_visit`: the taken inode stays cached.
#[test]
fn inode_taken_during_the_visit_stays_cached() {
    let (cache, _) = open(InodeIndex::ByGroup);
    let mut taken = None;
    let left = cache.bulk_visit(
        BulkRequest { first: FIRST, inodes: 0b110, freed: 0 },
        |book: &FakeInode| {
            if book.number().0 == FIRST.0 + 1 {
                taken = Some(cache.take(book.number()).unwrap());
            }
        },
    );
    assert_eq!((left, count_inodes(&cache).total()), (0, 1));
    drop(taken.unwrap());
    assert_eq!(count_inodes(&cache).reclaimable, 1);
    assert_eq!(drop_idle(&cache), 1);
}

#[test]
fn visit_over_one_list_leaves_all_to_its_caller() {
    let (cache, _) = open(InodeIndex::OneList);
    assert_eq!(pass(&cache, 0b110), (vec![], 0b110));
    drop(cache.take_as(InodeNumber(FIRST.0 + 1), Keep::Once).unwrap());
    assert!(cache.list().is_some());
}

/// Checks that a bulk visit which releases the last reference to an inode without a name wakes the
/// background thread, which then frees the inode.
#[test]
fn visited_inode_that_lost_its_name_is_freed_by_the_thread() {
    let (cache, store) = open(InodeIndex::ByGroup);
    let number = InodeNumber(FIRST.0 + 1);
    let entry = cache.take(number).unwrap();
    let is_freed = thread::scope(|scope| {
        scope.spawn(|| cache.serve());
        while !cache.inactivation.is_asleep() {
            thread::yield_now();
        }
        entry.live().unlink();
        assert!(
            cache.release_all(vec![entry.store().into_counted()]).is_empty(),
            "the thread frees it"
        );
        let end = Instant::now() + Duration::from_secs(10);
        let mut is_freed = false;
        while !is_freed && Instant::now() < end {
            thread::yield_now();
            is_freed = store.create(number, drop).is_some();
        }
        cache.inactivation.close();
        is_freed
    });
    assert!(is_freed, "the thread was not woken");
}
