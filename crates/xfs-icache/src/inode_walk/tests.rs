//! Tests the walks and the functions that use them, over a filesystem with the generic walk and
//! over one with its own walk.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_sync::{AtomicU64, Ordering, Volume};
use xfs_testkit::Prng;

use super::InodeWalk;
use crate::cache_ref::{CacheRef, TakenMarks};
use crate::evict::{
    count_inodes, drop_idle, evict_all, release_keepers, release_watches, take_down,
};
use crate::filter::WalkFilter;
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::kind::InodeKind;
use crate::marks::Mark;
use crate::small::{Small, SmallContents};
use crate::testing::{FakeStore, Mutant, RecordedWatch, WatchEnd};

/// Number of inodes. It is larger than the number of inodes that one step of a walk shows. In a
/// filesystem with groups, the inodes lie in two groups.
const INODES: u64 = 1100;

/// Limit of memory in bytes, more than any test of this module uses.
const MOST_BYTES: u64 = 1 << 30;

fn create(small: &Small, number: u64) -> CacheRef<'_, Small> {
    small.create(InodeNumber(number), SmallContents::Special(FileType::Regular)).unwrap()
}

fn numbers<F: InodeWalk>(filesystem: &F, which: WalkFilter) -> Vec<u64> {
    let mut seen = Vec::new();
    let _ = filesystem.iter_inodes(which, |entry| {
        seen.push(entry.number().0);
        ControlFlow::Continue(())
    });
    seen
}

fn watch() -> (Mark<RecordedWatch>, RecordedWatch) {
    let watch = RecordedWatch::default();
    (Mark::Watch(watch.clone()), watch)
}

/// Walks over a filesystem, marks inodes and takes the filesystem down. Checks after each of these
/// actions which inodes are left. `entries` are all inodes of the filesystem, each with a
/// reference.
fn check<K: InodeKind<Watch = RecordedWatch>, F: InodeWalk<Kind = K>>(
    filesystem: &F,
    mut entries: Vec<CacheRef<'_, F>>,
    deactivate: impl Fn(&F),
) {
    let all: Vec<_> = (0..INODES).collect();
    assert_eq!(numbers(filesystem, WalkFilter::Referenced), all);
    let held = entries.split_off(INODES as usize - 3);
    let (watched, watch) = watch();
    held[0].mark(watched.clone());
    held[1].mark(watched);
    held[1].mark(Mark::Keeper);
    held[2].mark(Mark::Keeper);
    drop(entries);
    assert_eq!(numbers(filesystem, WalkFilter::Cached), all);
    assert_eq!(numbers(filesystem, WalkFilter::Referenced), all[all.len() - 3..]);
    let counts = count_inodes(filesystem);
    assert_eq!((counts.live, counts.reclaimable), (3, INODES - 3));

    // A stopped walk visits no further group (I3), and releases what its step had taken.
    let mut seen = 0;
    let stopped = filesystem.iter_inodes(WalkFilter::Cached, |_| {
        seen += 1;
        if seen == 70 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((stopped.is_break(), seen, count_inodes(filesystem).live), (true, 70, 3));

    // Without the references above only the marks hold the inodes.
    drop(held);
    deactivate(filesystem);
    // A walk takes no unreferenced inode any more (I4).
    assert_eq!(numbers(filesystem, WalkFilter::Cached), all[all.len() - 3..]);
    assert_eq!(evict_all(filesystem), INODES - 3);
    assert_eq!(numbers(filesystem, WalkFilter::Referenced).len(), 3);
    assert_eq!(watch.end(), WatchEnd::Open);
    take_down(filesystem);
    assert_eq!(watch.end(), WatchEnd::Closed);
    assert_eq!(count_inodes(filesystem).total(), 0);
}

#[test]
fn walk_over_a_list_meets_all_inodes() {
    let small = Small::new(MOST_BYTES);
    let entries = (0..INODES).map(|number| create(&small, number)).collect();
    check(&small, entries, Small::deactivate);
}

/// Checks I1 of `xfs_icache::inode_walk`: a walk goes forward and ends.
#[test]
fn walk_over_an_index_meets_all_inodes() {
    let store = Arc::new(FakeStore::new(2, Mutant::None));
    for number in 0..INODES {
        store.create(InodeNumber(number), drop);
    }
    let cache = InodeCache::new(Arc::clone(&store), 2 * INODES, InodeIndex::ByGroup);
    let entries = (0..INODES).map(|number| cache.take(InodeNumber(number)).unwrap()).collect();
    check(&cache, entries, InodeCache::deactivate);
}

#[test]
fn release_of_watches_leaves_keepers() {
    let small = Small::new(MOST_BYTES);
    let entry = create(&small, 7);
    let (watched, watch) = watch();
    entry.mark(watched);
    entry.mark(Mark::Keeper);
    drop(entry);
    small.deactivate();
    assert_eq!(evict_all(&small), 0);
    release_watches(&small);
    // The keeper still holds the inode after its watch has ended.
    assert_eq!(watch.end(), WatchEnd::Closed);
    assert_eq!(numbers(&small, WalkFilter::Referenced), [7]);
    release_keepers(&small);
    assert_eq!(count_inodes(&small).total(), 0);
}

#[test]
fn unlinked_file_is_freed_by_its_last_reference() {
    let small = Small::new(MOST_BYTES);
    let entry = create(&small, 7);
    entry.live().unlink();
    assert_eq!(drop_idle(&small), 0);
    drop(entry);
    assert_eq!(count_inodes(&small).total(), 0);
}

/// Number of inodes of the small filesystem that stay referenced while all threads run.
const HELD: u64 = 60;

/// Checks I2 of `xfs_icache::inode_walk`: each walk shows all inodes that are held. Runs all
/// functions that use the walks in parallel over a filesystem with a list, and walks over the
/// filesystem while it is taken down. With `FERROXFS_LONG=1` the test takes a minute.
#[test]
fn concurrent_users_over_a_list_miss_no_held_inode() {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let duration = Duration::from_millis(if is_long { 60_000 } else { 300 });
    let (small, next) = (Small::new(MOST_BYTES), AtomicU64::<Volume>::new(HELD));
    let held: Vec<_> = (0..HELD).map(|number| create(&small, number)).collect();
    let end = Instant::now() + duration;
    let is_over = || Instant::now() >= end;
    let walk = |which| {
        let held = numbers(&small, which).into_iter().filter(|number| *number < HELD).count();
        assert_eq!(held as u64, HELD, "{which:?}");
    };
    let churn = |seed| {
        let mut prng = Prng::new(seed);
        while !is_over() {
            let entry = create(&small, next.fetch_add(1, Ordering::Relaxed));
            match prng.within(0..4) {
                0 => entry.live().unlink(),
                1 => entry.mark(watch().0),
                2 => entry.mark(Mark::Keeper),
                _ => {}
            }
            // Some watches end before the filesystem does.
            if prng.within(0..4) > 0 {
                drop(TakenMarks::take(&small, &entry, |_| true));
            }
            drop(entry);
        }
    };
    thread::scope(|scope| {
        let churning = [1, 2].map(|seed| {
            let churn = &churn;
            scope.spawn(move || churn(seed))
        });
        let others = [
            scope.spawn(|| {
                while !is_over() {
                    walk(WalkFilter::Cached)
                }
            }),
            scope.spawn(|| {
                while !is_over() {
                    walk(WalkFilter::Referenced)
                }
            }),
            scope.spawn(|| {
                while !is_over() {
                    assert!(count_inodes(&small).live >= HELD)
                }
            }),
            scope.spawn(|| {
                while !is_over() {
                    drop_idle(&small);
                }
            }),
        ];
        churning.into_iter().chain(others).for_each(|thread| thread.join().unwrap());
    });
    thread::scope(|scope| {
        let late = [WalkFilter::Cached, WalkFilter::Referenced]
            .map(|which| scope.spawn(move || (0..50).for_each(|_| walk(which))));
        small.deactivate();
        take_down(&small);
        late.into_iter().for_each(|thread| thread.join().unwrap());
    });
    evict_all(&small);
    assert_eq!(numbers(&small, WalkFilter::Cached), (0..HELD).collect::<Vec<_>>());
    drop(held);
    assert_eq!(count_inodes(&small).total(), 0);
    assert_eq!(small.room.used_bytes(), 0);
}
