//! Runs all kinds of walks over the inode cache in parallel with lookups, removals and evictions.
//! Checks that no walk misses an inode that stays referenced.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use crate::cached_inode::Keep;
use crate::counts::Count;
use crate::evict::{count_inodes, drop_idle, evict_all};
use crate::filter::WalkFilter;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::kind::CacheableInode;
use crate::store::BulkRequest;
use crate::testing::{FakeInode, FakeStore, Mutant};
use xfs_format::InodeNumber;
use xfs_testkit::Prng;

const INODES: u64 = 3 * 1024;
const HELD: u64 = 40;
const ROUNDS: usize = 3000;
const WALKS: usize = 40;

type FakeCache = InodeCache<Arc<FakeStore>>;

/// Looks up inodes, removes their files and makes new files, at random.
fn churn(cache: &FakeCache, store: &FakeStore, seed: u64) {
    let mut prng = Prng::new(seed);
    for _ in 0..ROUNDS {
        let number = InodeNumber(prng.within(HELD as usize..INODES as usize) as u64);
        let keep = if prng.within(0..2) == 0 { Keep::Once } else { Keep::Cached };
        let Ok(entry) = cache.take_as(number, keep) else {
            if let Some(made) = store.create(number, |book: Arc<FakeInode>| cache.insert(book)) {
                let made = made.unwrap();
                made.set_ready();
                drop(made);
            }
            continue;
        };
        entry.live().check();
        match prng.within(0..6) {
            0 => {
                entry.live().unlink();
                entry.finish();
            }
            1 => {
                entry.live().unlink();
                drop(entry);
            }
            _ => drop(entry),
        }
    }
}

/// Visits whole chunks in bulk, as bulkstat does. Checks that the visit either passes an inode to
/// the visitor, or returns it as one that the caller must take, and never does both.
fn pass(cache: &FakeCache) {
    for first in (0..INODES).step_by(64).cycle().take(WALKS * 8).map(InodeNumber) {
        let mut shown = 0;
        let left = cache.bulk_visit(
            BulkRequest { first, inodes: u64::MAX, freed: 0 },
            |book: &FakeInode| {
                book.check();
                shown |= 1_u64 << (book.number().0 - first.0);
            },
        );
        assert_eq!((shown | left, shown & left), (u64::MAX, 0));
    }
}

/// Walks over all inodes many times. Checks that each walk shows all inodes that stay referenced.
fn walk(cache: &FakeCache, which: WalkFilter) {
    for _ in 0..WALKS {
        let mut held = 0;
        let done = cache.iter_inodes(which, |entry| {
            entry.live().check();
            held += u64::from(entry.number().0 < HELD);
            ControlFlow::Continue(())
        });
        assert_eq!((done.is_continue(), held), (true, HELD));
    }
}

fn check(index: InodeIndex) {
    let store = Arc::new(FakeStore::new(3, Mutant::None));
    for number in 0..INODES {
        store.create(InodeNumber(number), drop);
    }
    let cache = InodeCache::new(Arc::clone(&store), 500, index);
    let held: Vec<_> = (0..HELD).map(|number| cache.take(InodeNumber(number)).unwrap()).collect();
    thread::scope(|scope| {
        let server = scope.spawn(|| cache.serve());
        let work: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn({
                    let (cache, store) = (&cache, &store);
                    move || churn(cache, store, seed)
                })
            })
            .chain([
                scope.spawn(|| walk(&cache, WalkFilter::Cached)),
                scope.spawn(|| pass(&cache)),
                scope.spawn(|| pass(&cache)),
                scope.spawn(|| walk(&cache, WalkFilter::Referenced)),
                scope.spawn(|| (0..WALKS).for_each(|_| assert!(drop_idle(&cache) <= INODES))),
                scope.spawn(|| (0..WALKS).for_each(|_| assert!(count_inodes(&cache).live >= HELD))),
            ])
            .collect();
        work.into_iter().for_each(|thread| thread.join().unwrap());
        cache.drain();
        cache.close();
        server.join().unwrap();
    });
    cache.deactivate();
    evict_all(&cache);
    assert_eq!(count_inodes(&cache).total(), HELD);
    drop(held);
    assert!(cache.groups.iter().all(|group| group.is_empty()));
    let sum = |count| cache.counts().sum(count);
    assert_eq!(sum(Count::Missed) + sum(Count::Made), sum(Count::Evicted) + sum(Count::Freed));
    assert!(cache.take_failure().is_none());
}

#[test]
fn concurrent_users_lose_no_inode() {
    check(InodeIndex::ByGroup);
}

#[test]
fn concurrent_users_over_one_list_lose_no_inode() {
    check(InodeIndex::OneList);
}
