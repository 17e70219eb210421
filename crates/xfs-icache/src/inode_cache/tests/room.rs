//! Tests of the cache's limits: how many inodes stay cached and which ones, however many allocation
//! groups there are; and how many of the inodes that wait to be freed on disk are freed by one
//! caller.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use crate::counts::Count;
use crate::evict::{count_inodes, evict_all};
use crate::filter::Tag;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::testing::{FakeStore, Mutant};
use crate::walk_step::Existing;
use xfs_format::InodeNumber;
use xfs_sync::{AtomicU64, Ordering, Volume};
use xfs_testkit::Prng;

type FakeCache = InodeCache<Arc<FakeStore>>;

/// Number of inode numbers that belong to a group.
const GROUP: u64 = 1024;

/// Returns a cache over `groups` groups with `files` files each. About `most` inodes stay cached.
fn open(groups: u32, files: u64, most: u64) -> FakeCache {
    let store = Arc::new(FakeStore::new(groups, Mutant::None));
    for group in 0..u64::from(groups) {
        for file in 0..files {
            store.create(InodeNumber(group * GROUP + file), drop);
        }
    }
    InodeCache::new(store, most, InodeIndex::ByGroup)
}

fn use_once(cache: &FakeCache, number: u64) {
    drop(cache.take(InodeNumber(number)).unwrap());
}

/// Fills the cache with inodes of `cold_group`. Then uses a few inodes of `used_group`, fewer than
/// the cache keeps, again and again. Checks that the cold inodes are evicted, so that each used
/// inode is read about once.
fn check_stays(groups: u32, cold_group: u64, used_group: u64) {
    const ROOM: u64 = 700;
    const USED: u64 = 300;
    let cache = open(groups, GROUP, ROOM);
    (0..ROOM).for_each(|file| use_once(&cache, cold_group * GROUP + file));
    let missed = || cache.counts().sum(Count::Missed);
    let before = missed();
    let first = used_group * GROUP + if cold_group == used_group { ROOM } else { 0 };
    for _ in 0..20 {
        (first..first + USED).for_each(|number| use_once(&cache, number));
    }
    // Each inode is read once, and some once more while the cold ones are evicted.
    let missed = missed() - before;
    assert!(missed <= USED + USED / 4, "{groups} groups: {missed} of 6000 missed");
}

#[test]
fn used_inodes_push_out_cold_ones_of_any_group() {
    check_stays(1, 0, 0);
    check_stays(2, 0, 1);
    check_stays(2, 1, 0);
    check_stays(4, 0, 3);
    check_stays(4, 3, 1);
}

/// Uses inodes of all groups in turn, each `times` times. Checks that the number of cached inodes
/// stays near the bound.
fn check_bound(groups: u32, times: usize) {
    const ROOM: u64 = 2000;
    let files = (30_000 / u64::from(groups)).min(GROUP);
    let cache = open(groups, files, ROOM);
    let mut most = 0;
    for file in 0..files {
        for group in 0..u64::from(groups) {
            (0..times).for_each(|_| use_once(&cache, group * GROUP + file));
        }
        if file % (files / 10).max(1) == 0 || file + 1 == files {
            most = most.max(count_inodes(&cache).total());
        }
    }
    assert!(most <= ROOM + ROOM / 4, "{groups} groups, each used {times} times: {most} stay");
    assert!(most >= ROOM - ROOM / 4, "{groups} groups, each used {times} times: only {most} stay");
}

/// Checks I2 of `xfs_icache::inode_cache::reclaim` with up to 3000 groups: an excess of cached
/// inodes is temporary.
#[test]
fn bound_holds_over_any_number_of_groups() {
    for groups in [4, 100, 3000] {
        check_bound(groups, 1);
        check_bound(groups, 3);
    }
}

/// Removes a file while a walk shows its inode, and gives the inode number to a new inode without a
/// reference. Checks that the eviction of the old inode, which comes after that, does not hide the
/// new inode from later evictions.
#[test]
fn late_eviction_keeps_the_tag_of_a_new_inode() {
    let store = Arc::new(FakeStore::new(1, Mutant::None));
    for number in [5, 6].map(InodeNumber) {
        store.create(number, drop);
    }
    let cache = InodeCache::new(Arc::clone(&store), 100, InodeIndex::ByGroup);
    [5, 6].into_iter().for_each(|number| use_once(&cache, number));
    let mut seen = Vec::new();
    let _ = cache.iter_inodes_unsafe(0, Tag::Idle, |Existing(entry)| {
        if seen.is_empty() {
            let old = cache.take(entry.number()).unwrap();
            old.live().unlink();
            old.finish();
            let made = store.create(entry.number(), |book| cache.insert(book)).unwrap().unwrap();
            made.set_ready();
            drop(made);
            let _ = entry.evict();
        }
        seen.push(entry.number().0);
        ControlFlow::Continue(())
    });
    assert_eq!(seen, [5, 6]);
    cache.deactivate();
    assert_eq!(evict_all(&cache), 2);
    assert_eq!(count_inodes(&cache).total(), 0);
}

/// Releases the last references to many unlinked inodes, without a background thread that frees
/// them. Checks that each later operation frees a bounded number, and that the queue gets shorter.
#[test]
fn throttled_caller_frees_a_bounded_number() {
    const FILES: u64 = 1000;
    let cache = open(1, FILES, 2 * FILES);
    let held: Vec<_> = (0..FILES).map(|file| cache.take(InodeNumber(file)).unwrap()).collect();
    for entry in held {
        entry.live().unlink();
        drop(entry);
    }
    let freed = || cache.counts().sum(Count::Freed);
    assert_eq!(freed(), 0);
    let mut before = 0;
    for _ in 0..FILES {
        cache.throttle();
        assert!(freed() - before <= 64, "one caller has freed {}", freed() - before);
        before = freed();
    }
    assert!(count_inodes(&cache).needs_inactivation <= 256, "the queue does not get shorter");
    cache.drain();
    assert_eq!(freed(), FILES);
}

/// Uses inodes of one group in several threads. Checks that the number of cached inodes stays near
/// the bound, although each thread may be evicting.
#[test]
fn bound_holds_with_several_threads() {
    const ROOM: u64 = 200;
    const THREADS: u64 = 8;
    let cache = open(1, GROUP, ROOM);
    let (done, mut most) = (AtomicU64::<Volume>::new(0), 0);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (cache, done) = (&cache, &done);
            scope.spawn(move || {
                let mut prng = Prng::new(seed);
                (0..5000).for_each(|_| use_once(cache, prng.within(0..GROUP as usize) as u64));
                done.fetch_add(1, Ordering::Release);
            });
        }
        while done.load(Ordering::Acquire) < THREADS {
            most = most.max(count_inodes(&cache).total());
        }
    });
    most = most.max(count_inodes(&cache).total());
    assert!(most <= ROOM + ROOM / 2, "{most} stay");
}
