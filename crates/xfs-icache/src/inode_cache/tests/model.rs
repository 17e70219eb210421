//! Schedules of the real cache, explored.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p xfs-icache --lib --target-dir target/model
//! model::`, which `cargo xtask test` does too. The cache is that of a volume; below it lie inodes
//! without a volume, each with a latch. A planted bug must be found.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::cached_inode::{CachedInode, Keep};
use crate::counts::Count;
use crate::evict::{count_inodes, drop_idle, evict_all, evict_step};
use crate::filter::{Tag, WalkFilter};
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::kind::Inode;
use crate::store::BulkRequest;
use crate::testing::{FakeInode, FakeKind, FakeStore, Mutant};
use crate::walk_step::WalkStep;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use xfs_format::InodeNumber;

/// Schedules of each kind.
const SCHEDULES: usize = 1500;
/// Schedules in which a planted bug must show.
const PLANTED_SCHEDULES: usize = 3000;
/// Preemptions in a schedule of few.
const DEPTH: usize = 3;
/// Three inodes of a chunk, and one of the next.
const NUMBERS: [InodeNumber; 4] =
    [InodeNumber(5), InodeNumber(6), InodeNumber(63), InodeNumber(64)];

fn explore(schedules: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 19;
        config
    };
    Runner::new(PctScheduler::new(DEPTH, schedules), config()).run(model.clone());
    Runner::new(RandomScheduler::new(schedules), config()).run(model);
}

type FakeCache = InodeCache<Arc<FakeStore>>;

/// A cache over files of all numbers, none of which is in memory.
fn open(mutant: Mutant, most: u64, index: InodeIndex) -> (Arc<FakeCache>, Arc<FakeStore>) {
    let store = Arc::new(FakeStore::new(1, mutant));
    for number in NUMBERS {
        store.create(number, drop);
    }
    (Arc::new(InodeCache::new(Arc::clone(&store), most, index)), store)
}

/// Uses an inode for a while, if there is one of this number.
fn look_at(cache: &FakeCache, number: InodeNumber, keep: Keep) {
    let Ok(entry) = cache.take_as(number, keep) else { return };
    entry.live().check();
    thread::yield_now();
    entry.live().check();
    cache.release(entry);
}

/// Removes a file, and makes another one of its number.
fn replace(cache: &FakeCache, store: &FakeStore, number: InodeNumber) {
    replace_and(cache, store, number, thread::yield_now);
}

/// The same; `pause` is where others may come between.
fn replace_and(cache: &FakeCache, store: &FakeStore, number: InodeNumber, pause: impl Fn()) {
    if let Ok(entry) = cache.take(number) {
        entry.live().unlink();
        cache.finish_with(entry);
    }
    if let Some(made) = store.create(number, |book| cache.insert(book)) {
        let entry = made.expect("nobody else has this number");
        pause();
        entry.set_ready();
        entry.live().check();
        cache.release(entry);
    }
}

/// What walks show, each in use while it is shown.
fn walk(cache: &FakeCache, which: WalkFilter) -> Vec<InodeNumber> {
    let mut seen = Vec::new();
    let _ = cache.iter_inodes(which, |entry: &Arc<CachedInode<FakeKind>>| {
        entry.live().check();
        thread::yield_now();
        entry.live().check();
        seen.push(entry.number());
        ControlFlow::Continue(())
    });
    assert!(seen.is_sorted(), "{seen:?}");
    seen
}

fn run(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    handles.into_iter().for_each(|handle| handle.join().expect("a thread of the model"));
}

/// Takes the cache down, and checks that nothing is left and that the counters agree.
fn close(cache: &FakeCache) {
    cache.deactivate();
    cache.drain();
    evict_all(cache);
    assert_eq!(count_inodes(cache).total(), 0);
    assert!(cache.groups.iter().all(|group| group.is_empty()));
    let [missed, made, evicted, freed] = [Count::Missed, Count::Made, Count::Evicted, Count::Freed]
        .map(|count| cache.counts().sum(count));
    assert_eq!(missed + made, evicted + freed, "what came went");
}

/// Lookups, with a bound so small that they evict, beside a file that is replaced.
fn look_and_replace(mutant: Mutant) {
    let (cache, store) = open(mutant, 2, InodeIndex::ByGroup);
    let with = || (Arc::clone(&cache), Arc::clone(&store));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for keep in [Keep::Cached, Keep::Once] {
        let (cache, _) = with();
        threads.push(Box::new(move || {
            NUMBERS.iter().for_each(|number| look_at(&cache, *number, keep));
        }));
    }
    let (replaced, store) = with();
    threads.push(Box::new(move || {
        replace(&replaced, &store, NUMBERS[0]);
        replace(&replaced, &store, NUMBERS[0]);
    }));
    run(threads);
    close(&cache);
}

#[test]
fn lookups_beside_eviction_and_replacement() {
    explore(SCHEDULES, || look_and_replace(Mutant::None));
}

#[test]
fn an_inode_read_without_its_latch_is_found() {
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explore(PLANTED_SCHEDULES, || look_and_replace(Mutant::Unlatched));
    }));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}

/// Inodes of a chunk that pass together, beside lookups, a walk, and a file that is replaced.
fn pass_beside(mutant: Mutant) {
    let (cache, store) = open(mutant, 2, InodeIndex::ByGroup);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    let passing = Arc::clone(&cache);
    threads.push(Box::new(move || {
        let inodes = NUMBERS[..3].iter().fold(0, |all, number| all | 1_u64 << number.0);
        let (mut shown, first) = (0, InodeNumber(0));
        let left =
            passing.bulk_visit(BulkRequest { first, inodes, freed: 0 }, |book: &FakeInode| {
                book.check();
                assert!(
                    passing.present(first) >> book.number().0 & 1 == 1,
                    "shown before it is in"
                );
                shown |= 1 << book.number().0;
            });
        assert_eq!((left | shown, left & shown), (inodes, 0), "each is shown once, or left");
    }));
    let looking = Arc::clone(&cache);
    threads.push(Box::new(move || {
        look_at(&looking, NUMBERS[1], Keep::Cached);
        walk(&looking, WalkFilter::Cached);
        look_at(&looking, NUMBERS[1], Keep::Once);
    }));
    let replacing = Arc::clone(&cache);
    threads.push(Box::new(move || replace(&replacing, &store, NUMBERS[0])));
    run(threads);
    close(&cache);
}

#[test]
fn a_passage_beside_lookups_and_replacement() {
    explore(SCHEDULES, || pass_beside(Mutant::None));
}

#[test]
fn a_passage_that_enters_without_latches_is_found() {
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explore(PLANTED_SCHEDULES, || pass_beside(Mutant::PassedLate));
    }));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}

/// Walks beside eviction and replacement: what is held all the time is shown by all of them.
fn walk_beside(index: InodeIndex) {
    let (cache, store) = open(Mutant::None, 64, index);
    let held = cache.take(NUMBERS[1]).expect("there is one");
    look_at(&cache, NUMBERS[0], Keep::Cached);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for which in [WalkFilter::Cached, WalkFilter::Referenced] {
        let cache = Arc::clone(&cache);
        threads.push(Box::new(move || {
            assert!(walk(&cache, which).contains(&NUMBERS[1]), "a walk has missed an inode");
        }));
    }
    let evicting = Arc::clone(&cache);
    threads.push(Box::new(move || {
        drop_idle(&*evicting);
        evicting.release(evicting.take(NUMBERS[3]).expect("there is one"));
        drop_idle(&*evicting);
    }));
    let (replacing, store) = (Arc::clone(&cache), Arc::clone(&store));
    threads.push(Box::new(move || replace(&replacing, &store, NUMBERS[0])));
    run(threads);
    cache.release(held);
    close(&cache);
}

#[test]
fn walks_beside_eviction_and_replacement() {
    explore(SCHEDULES, || walk_beside(InodeIndex::ByGroup));
}

#[test]
fn walks_over_one_list() {
    explore(SCHEDULES, || walk_beside(InodeIndex::OneList));
}

/// How somebody evicts what is without a user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicts {
    /// The tag of what is gone is left to who has its place.
    Looks,
    /// It is taken away before anything is known of the inode.
    Blindly,
}

fn evict(cache: &FakeCache, how: Evicts) {
    if how == Evicts::Looks {
        drop_idle(cache);
        return;
    }
    let mut cursor = 0;
    let clear = |entry: &CachedInode<FakeKind>| {
        entry.slot().into_iter().for_each(|slot| slot.clear_idle());
        entry.evict()
    };
    let step = |cursor| evict_step(cache, |visit| cache.visit(0, cursor, Tag::Idle, visit), clear);
    while let (WalkStep::Next(next), _) = step(cursor) {
        cursor = next;
    }
}

/// Somebody evicts what a file has left that is replaced: what has its number then, and nobody
/// uses, is found by who evicts last.
fn evict_beside_replacement(how: Evicts) {
    let (cache, store) = open(Mutant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&cache, *number, Keep::Cached));
    let (evicting, replacing) = (Arc::clone(&cache), Arc::clone(&cache));
    run(vec![
        Box::new(move || evict(&evicting, how)),
        // Who evicts may stand still for all of it.
        Box::new(move || replace_and(&replacing, &store, NUMBERS[0], || ())),
    ]);
    close(&cache);
}

#[test]
fn eviction_beside_replacement() {
    explore(SCHEDULES, || evict_beside_replacement(Evicts::Looks));
}

#[test]
fn an_eviction_that_takes_the_tag_of_another_is_found() {
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explore(PLANTED_SCHEDULES, || evict_beside_replacement(Evicts::Blindly));
    }));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}

/// The last inode of a chunk goes while another one comes: it is not lost to walks.
fn chunk_turns_over() {
    let (cache, _) = open(Mutant::None, 64, InodeIndex::ByGroup);
    let (coming, going) = (Arc::clone(&cache), Arc::clone(&cache));
    run(vec![
        Box::new(move || {
            let held = coming.take(NUMBERS[1]).expect("there is one");
            let seen = walk(&coming, WalkFilter::Referenced);
            assert!(seen.contains(&NUMBERS[1]), "a walk has missed an inode");
            coming.release(held);
        }),
        Box::new(move || look_at(&going, NUMBERS[2], Keep::Once)),
    ]);
    close(&cache);
}

#[test]
fn a_chunk_that_turns_over() {
    explore(SCHEDULES, chunk_turns_over);
}

/// The volume is taken down while somebody holds an inode and a walk is under way.
fn take_down() {
    let (cache, _) = open(Mutant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&cache, *number, Keep::Cached));
    let held = cache.take(NUMBERS[0]).expect("there is one");
    let (walking, holding) = (Arc::clone(&cache), Arc::clone(&cache));
    let threads: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || drop(walk(&walking, WalkFilter::Cached))),
        Box::new(move || holding.release(held)),
    ];
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    cache.deactivate();
    evict_all(&*cache);
    handles.into_iter().for_each(|handle| handle.join().expect("a thread of the model"));
    close(&cache);
}

#[test]
fn a_volume_taken_down_beside_a_walk() {
    explore(SCHEDULES, take_down);
}

/// Handles that are dropped, and a thread that frees what they leave: it is never left asleep,
/// which would be a deadlock of the model.
fn free_in_background() {
    let (cache, _) = open(Mutant::None, 64, InodeIndex::ByGroup);
    let serving = Arc::clone(&cache);
    let server = thread::spawn(move || serving.serve());
    let droppers: Vec<_> = NUMBERS[..2]
        .iter()
        .map(|number| {
            let (cache, number) = (Arc::clone(&cache), *number);
            thread::spawn(move || {
                let entry = cache.take(number).expect("there is one");
                entry.live().unlink();
                cache.release(entry);
            })
        })
        .collect();
    droppers.into_iter().for_each(|dropper| dropper.join().expect("a thread of the model"));
    while cache.counts().sum(Count::Freed) < 2 {
        thread::yield_now();
    }
    cache.close();
    server.join().expect("the thread that frees");
    close(&cache);
}

#[test]
fn inodes_freed_in_the_background() {
    explore(SCHEDULES, free_in_background);
}
