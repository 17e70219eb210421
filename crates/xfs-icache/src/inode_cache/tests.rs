#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod room;
#[cfg(not(shuttle))]
mod stress;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_format::InodeNumber;

use super::{InodeCache, InodeIndex};
use crate::cache_ref::CacheRef;
use crate::cached_inode::Keep;
use crate::counts::Count;
use crate::evict::{CacheCounts, count_inodes, drop_idle, evict_all};
use crate::filter::WalkFilter;
use crate::inode_walk::InodeWalk;
use crate::testing::{FakeStore, Mutant};

type FakeCache = InodeCache<Arc<FakeStore>>;

const FILES: u64 = 24;
/// The inode number of the first file. It is not the first number of a chunk.
const FIRST: u64 = 131;
const MOST: u64 = 8;

/// Returns a store with `FILES` files in one group, and their inode numbers.
fn store() -> (Arc<FakeStore>, Vec<InodeNumber>) {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    let numbers: Vec<_> = (FIRST..FIRST + FILES).map(InodeNumber).collect();
    for number in &numbers {
        store.create(*number, drop);
    }
    (store, numbers)
}

/// Calls `act` with the files of a store and a new cache over them, once for each kind of index.
fn check(act: impl Fn(&FakeCache, &[InodeNumber])) {
    let (store, numbers) = store();
    for index in [InodeIndex::ByGroup, InodeIndex::OneList] {
        act(&InodeCache::new(Arc::clone(&store), MOST, index), &numbers);
    }
}

fn take(cache: &FakeCache, number: InodeNumber) -> CacheRef<'_, FakeCache> {
    cache.take(number).unwrap()
}

/// Returns the number of cached inodes.
fn present(cache: &FakeCache) -> u64 {
    count_inodes(cache).total()
}

#[test]
fn idle_inode_taken_again_is_the_same_one() {
    check(|cache, numbers| {
        let first = Arc::clone(&take(cache, numbers[0]));
        let again = take(cache, numbers[0]);
        assert!(Arc::ptr_eq(&first, &again));
    });
}

/// Checks I1 of `xfs_icache::chunk`: the result of `present` has a bit for each cached inode,
/// whatever the first inode number is.
#[test]
fn present_from_any_first_number_has_a_bit_for_each_inode() {
    check(|cache, numbers| {
        let held: Vec<_> = numbers[..3].iter().map(|number| take(cache, *number)).collect();
        for before in 0..80 {
            let first = InodeNumber(numbers[0].0 - before);
            let bits = numbers[..3].iter().map(|number| number.0 - first.0);
            let expected = bits.filter(|bit| *bit < 64).fold(0, |bits, bit| bits | 1 << bit);
            assert_eq!(cache.present(first), expected, "from {before} before the first on");
        }
        drop(held);
    });
}

#[test]
fn released_inodes_beyond_the_limit_are_evicted() {
    check(|cache, numbers| {
        for number in numbers {
            let entry = take(cache, *number);
            drop(entry);
            assert!(present(cache) <= MOST, "{} in memory", present(cache));
        }
        assert_eq!(present(cache), MOST);
    });
}

#[test]
fn referenced_inode_is_never_evicted() {
    check(|cache, numbers| {
        let used = take(cache, numbers[0]);
        for number in numbers {
            let entry = take(cache, *number);
            drop(entry);
        }
        let again = take(cache, numbers[0]);
        assert!(Arc::ptr_eq(&used, &again));
    });
}

#[test]
fn evicted_inode_taken_again_is_read_again() {
    check(|cache, numbers| {
        let first = Arc::clone(&take(cache, numbers[0]));
        for number in &numbers[1..] {
            let entry = take(cache, *number);
            drop(entry);
        }
        assert!(first.is_gone());
        let again = take(cache, numbers[0]);
        assert!(!Arc::ptr_eq(&first, &again));
        assert_eq!(again.number(), numbers[0]);
    });
}

#[test]
fn inode_taken_once_is_evicted_unless_another_took_it() {
    check(|cache, numbers| {
        let seen = cache.take_as(numbers[0], Keep::Once).unwrap();
        drop(seen);
        assert_eq!(present(cache), 0);
        // The inode stays if another caller takes it meanwhile.
        let seen = cache.take_as(numbers[0], Keep::Once).unwrap();
        drop(take(cache, numbers[0]));
        drop(seen);
        assert_eq!(present(cache), 1);
        // A further reader that needs it once does not evict it.
        drop(cache.take_as(numbers[0], Keep::Once).unwrap());
        assert_eq!(present(cache), 1);
        let counts = cache.counts();
        assert_eq!([Count::Missed, Count::Evicted].map(|count| counts.sum(count)), [2, 1]);
    });
}

#[test]
fn held_chunk_stays_when_its_inodes_are_evicted() {
    check(|cache, numbers| {
        let is_empty = || cache.groups.iter().all(|group| group.is_empty());
        let held = cache.hold(numbers[0]);
        for number in numbers {
            drop(cache.take_as(*number, Keep::Once).unwrap());
        }
        assert_eq!((present(cache), is_empty()), (0, false));
        drop(held);
        assert!(is_empty());
        // The holder neither keeps an inode from being inserted, nor removes one.
        let held = cache.hold(numbers[0]);
        drop(take(cache, numbers[0]));
        drop(held);
        assert_eq!((present(cache), is_empty()), (1, false));
    });
}

/// A group keeps the chunk that it emptied last, and no other one, until it is told to forget it.
#[test]
fn chunk_that_was_emptied_last_stays() {
    let (store, _) = store();
    let cache = InodeCache::new(Arc::clone(&store), MOST, InodeIndex::ByGroup);
    let group = cache.groups.get(0).unwrap();
    let pass = |number: u64| {
        store.create(InodeNumber(number), drop).unwrap();
        drop(cache.take_as(InodeNumber(number), Keep::Once).unwrap());
        (group.chunk_count(), group.is_empty())
    };
    // Inodes of one chunk, and of two others.
    let passed: Vec<_> = [320, 321, 322, 512, 640, 641].into_iter().map(pass).collect();
    assert_eq!(passed, [(1, true); 6]);
    cache.forget_near();
    assert_eq!((group.chunk_count(), group.is_empty()), (0, true));
}

/// Checks I4 of `xfs_icache::chunk`: a dropped cache empties its chunks.
#[test]
fn dropped_cache_drops_its_inodes() {
    let (store, numbers) = store();
    let cache = InodeCache::new(store, MOST, InodeIndex::ByGroup);
    let used = take(&cache, numbers[0]).store();
    let live = Arc::downgrade(used.inode().live());
    // One inode is in use, one is idle, and one was evicted.
    drop(take(&cache, numbers[1]));
    drop(cache.take_as(numbers[2], Keep::Once).unwrap());
    assert!(live.strong_count() > 0);
    drop((cache, used));
    assert_eq!(live.strong_count(), 0);
}

#[test]
fn drop_idle_keeps_referenced_inodes() {
    check(|cache, numbers| {
        let used = take(cache, numbers[0]);
        numbers[1..5].iter().for_each(|number| drop(take(cache, *number)));
        let counts = CacheCounts { live: 1, reclaimable: 4, ..CacheCounts::default() };
        assert_eq!(count_inodes(cache), counts);
        assert_eq!(drop_idle(cache), 4);
        assert_eq!(count_inodes(cache), CacheCounts { live: 1, ..CacheCounts::default() });
        assert!(Arc::ptr_eq(&used, &take(cache, numbers[0])));
    });
}

/// Returns the inode numbers that a walk shows.
fn walk(cache: &FakeCache, which: WalkFilter) -> Vec<InodeNumber> {
    let mut seen = Vec::new();
    let done = cache.iter_inodes(which, |entry| {
        seen.push(entry.number());
        ControlFlow::Continue(())
    });
    assert!(done.is_continue());
    seen
}

#[test]
fn walk_shows_each_inode_once() {
    check(|cache, numbers| {
        let used = take(cache, numbers[2]);
        numbers[3..6].iter().for_each(|number| drop(take(cache, *number)));
        assert_eq!(walk(cache, WalkFilter::Cached), numbers[2..6]);
        assert_eq!(walk(cache, WalkFilter::Referenced), numbers[2..3]);
        drop(used);
    });
}

/// Checks that a walk over a group that the cache does not know panics. A walk that skipped the
/// group would leave the inodes of the group unwritten.
#[test]
#[should_panic(expected = "a walk visits the groups of the cache")]
fn walk_over_an_unknown_group_panics() {
    let cache = InodeCache::new(store().0, MOST, InodeIndex::default());
    let _ = cache.visit(1, 0, WalkFilter::Cached.tag(), &mut |_| ControlFlow::Continue(()));
}

#[test]
fn walk_stopped_by_its_visitor_releases_what_it_took() {
    check(|cache, numbers| {
        numbers[..5].iter().for_each(|number| drop(take(cache, *number)));
        let mut seen = 0;
        let stopped = cache.iter_inodes(WalkFilter::Cached, |_| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((stopped.is_break(), seen), (true, 2));
        // All references that the step had taken are released.
        assert_eq!(count_inodes(cache).live, 0);
    });
}

#[test]
fn deactivated_cache_keeps_referenced_inodes_only() {
    check(|cache, numbers| {
        let held = take(cache, numbers[0]);
        numbers[1..5].iter().for_each(|number| drop(take(cache, *number)));
        cache.deactivate();
        assert_eq!(walk(cache, WalkFilter::Cached), numbers[..1]);
        assert_eq!(evict_all(cache), 4);
        assert_eq!(walk(cache, WalkFilter::Referenced), numbers[..1]);
        // A reference that is released now leaves nothing behind.
        drop(held);
        assert_eq!(present(cache), 0);
        assert!(cache.groups.iter().all(|group| group.is_empty()));
    });
}

#[test]
fn walk_skips_an_inode_until_it_is_ready() {
    let (store, numbers) = store();
    let cache = InodeCache::new(Arc::clone(&store), MOST, InodeIndex::ByGroup);
    let number = InodeNumber(numbers[0].0 - 1);
    let made = store.create(number, |inode| cache.insert(inode)).unwrap().unwrap();
    assert_eq!(walk(&cache, WalkFilter::Cached), []);
    made.set_ready();
    assert_eq!(walk(&cache, WalkFilter::Cached), [number]);
}
