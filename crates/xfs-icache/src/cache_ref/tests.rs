use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use xfs_format::InodeNumber;

use super::{CacheRef, MarkRef, TakenMarks};
use crate::cached_inode::Keep;
use crate::counts::Count;
use crate::evict::{CacheCounts, count_inodes};
use crate::filter::WalkFilter;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::marks::Mark;
use crate::store::BulkRequest;
use crate::testing::{FakeInode, FakeStore, Mutant, RecordedWatch};

const NUMBER: InodeNumber = InodeNumber(5);

fn open() -> (InodeCache<Arc<FakeStore>>, Arc<FakeStore>) {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    for number in [5, 6, 7, 64, 65] {
        store.create(InodeNumber(number), drop);
    }
    (InodeCache::new(Arc::clone(&store), 100, InodeIndex::ByGroup), store)
}

/// Checks that nothing refers to an inode any more.
fn check_released(cache: &InodeCache<Arc<FakeStore>>, reclaimable: u64) {
    assert_eq!(count_inodes(cache), CacheCounts { reclaimable, ..CacheCounts::default() });
}

#[test]
fn reference_dropped_on_an_error_path_is_released() {
    let (cache, _) = open();
    let fail = || -> xfs_buffer::Result<()> {
        let _held = cache.take(NUMBER)?;
        cache.take(InodeNumber(900)).map(drop)
    };
    assert!(fail().is_err());
    check_released(&cache, 1);
    assert_eq!(cache.counts().sum(Count::Released), 1);
}

/// Checks that an inode is released if the transaction that makes it fails after the inode was
/// inserted into the cache, although the inode was never ready.
#[test]
fn new_inode_of_a_failed_transaction_is_released() {
    let (cache, store) = open();
    let made = store.create(InodeNumber(900), |inode| cache.insert(inode)).unwrap().unwrap();
    assert_eq!(count_inodes(&cache).live, 1);
    drop(made);
    check_released(&cache, 1);
}

#[test]
fn stored_reference_keeps_its_inode_until_it_is_restored() {
    let (cache, _) = open();
    let stored = cache.take(NUMBER).unwrap().store();
    let second = stored.share();
    drop(CacheRef::restore(&cache, stored));
    assert_eq!(count_inodes(&cache).live, 1);
    drop(CacheRef::restore(&cache, second));
    check_released(&cache, 1);
}

#[test]
fn claimed_reference_is_given_up_once() {
    let (cache, _) = open();
    let (first, second) = (cache.take(NUMBER).unwrap(), cache.take(NUMBER).unwrap());
    let stored = first.store();
    assert!(!stored.claim(), "another reference exists");
    drop(second);
    assert!(stored.claim());
    assert!(CacheRef::of_found(&cache, stored.inode()).is_none());
    cache.take_out_claimed(stored);
    check_released(&cache, 0);
}

#[test]
fn panic_of_a_visitor_releases_all_references_of_the_step() {
    let (cache, _) = open();
    (NUMBER.0..NUMBER.0 + 3).for_each(|number| drop(cache.take(InodeNumber(number)).unwrap()));
    let walk = || {
        let _ = cache.iter_inodes(WalkFilter::Cached, |entry| -> ControlFlow<()> {
            panic!("the visitor fails at {}", entry.number().0)
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(walk)).is_err());
    check_released(&cache, 3);
    let visit = || {
        cache.bulk_visit(
            BulkRequest { first: InodeNumber(64), inodes: 0b11, freed: 0 },
            |_: &FakeInode| panic!("the visitor fails"),
        )
    };
    assert!(catch_unwind(AssertUnwindSafe(visit)).is_err());
    check_released(&cache, 3);
}

#[test]
fn mark_reference_ends_with_its_value_or_with_the_locks() {
    let (cache, _) = open();
    let held = cache.take(NUMBER).unwrap();
    drop(MarkRef::take(&cache, &held));
    MarkRef::take(&cache, &held).leave();
    let entry = Arc::clone(&held);
    drop(held);
    assert_eq!(count_inodes(&cache).live, 1, "the locks keep the inode");
    drop(MarkRef::resume(&cache, &entry));
    check_released(&cache, 1);
}

#[test]
fn taken_marks_release_one_reference_each() {
    let (cache, _) = open();
    let held = cache.take_as(NUMBER, Keep::Cached).unwrap();
    held.mark(Mark::Keeper);
    held.mark(Mark::Watch(RecordedWatch::default()));
    let entry = Arc::clone(&held);
    drop(held);
    let taken = TakenMarks::take(&cache, &entry, |_| true);
    assert_eq!((taken.marks().len(), count_inodes(&cache).live), (2, 1));
    drop(taken);
    check_released(&cache, 1);
}

#[test]
fn panic_of_a_watch_releases_the_marks_of_an_abandoned_inode() {
    let (cache, _) = open();
    let held = cache.take(NUMBER).unwrap();
    held.mark(Mark::Watch(RecordedWatch::default()));
    held.mark(Mark::Watch(RecordedWatch::failing()));
    held.live().unlink();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
    let counts = CacheCounts { needs_inactivation: 1, ..CacheCounts::default() };
    assert_eq!(count_inodes(&cache), counts);
    cache.drain();
    check_released(&cache, 0);
}
