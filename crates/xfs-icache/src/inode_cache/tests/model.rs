//! Explores thread schedules of the real inode cache with shuttle.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p xfs-icache --lib --target-dir target/model
//! model::`. `cargo xtask test` runs this command too. The cache is the production code. Its store
//! is a fake: it holds inodes, each with a latch, and reads no volume. Some tests plant a bug and
//! check that at least one schedule fails.

use std::ops::ControlFlow;
use std::sync::Arc;

use shuttle::thread;
use xfs_format::InodeNumber;
use xfs_sync::schedules::{check_found, explore};

use crate::cache_ref::CacheRef;
use crate::cached_inode::{CachedInode, Keep};
use crate::counts::Count;
use crate::evict::{count_inodes, drop_idle, evict_all, evict_step};
use crate::filter::{Tag, WalkFilter};
use crate::inode_cache::{InodeCache, InodeIndex};
use crate::inode_walk::InodeWalk;
use crate::kind::CacheableInode;
use crate::store::BulkRequest;
use crate::testing::{FakeInode, FakeKind, FakeStore, Mutant};
use crate::walk_step::WalkStep;

/// Inode numbers of the files: three in one chunk, and one in the next.
const NUMBERS: [InodeNumber; 4] =
    [InodeNumber(5), InodeNumber(6), InodeNumber(63), InodeNumber(64)];

type FakeCache = InodeCache<Arc<FakeStore>>;

/// Returns a cache over files of all `NUMBERS`, and its store. No file is cached.
fn open(mutant: Mutant, most: u64, index: InodeIndex) -> (Arc<FakeCache>, Arc<FakeStore>) {
    let store = Arc::new(FakeStore::new(1, mutant));
    for number in NUMBERS {
        store.create(number, drop);
    }
    (Arc::new(InodeCache::new(Arc::clone(&store), most, index)), store)
}

/// Takes a reference to an inode, if it exists, and checks twice that it was not freed.
fn look_at(cache: &FakeCache, number: InodeNumber, keep: Keep) {
    let Ok(entry) = cache.take_as(number, keep) else { return };
    entry.live().check();
    thread::yield_now();
    entry.live().check();
    drop(entry);
}

/// Removes a file, and makes another file with its inode number.
fn replace(cache: &FakeCache, store: &FakeStore, number: InodeNumber) {
    replace_and(cache, store, number, thread::yield_now);
}

/// Replaces a file as [`replace`] does, and calls `pause` before the new inode is ready, to let
/// other threads run.
fn replace_and(cache: &FakeCache, store: &FakeStore, number: InodeNumber, pause: impl Fn()) {
    if let Ok(entry) = cache.take(number) {
        entry.live().unlink();
        entry.finish();
    }
    if let Some(made) = store.create(number, |book| cache.insert(book)) {
        let entry = made.expect("nobody else has this number");
        pause();
        entry.set_ready();
        entry.live().check();
        drop(entry);
    }
}

/// Returns the inode numbers that a walk shows. Checks each inode while it is shown, and that the
/// numbers are sorted.
fn walk(cache: &FakeCache, which: WalkFilter) -> Vec<InodeNumber> {
    let mut seen = Vec::new();
    let _ = cache.iter_inodes(which, |entry| {
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

/// Takes the cache down. Checks that no inode is left, and that the counters show as many inodes
/// that left the cache as inodes that entered it.
fn close(cache: &FakeCache) {
    cache.deactivate();
    cache.drain();
    evict_all(cache);
    assert_eq!(count_inodes(cache).total(), 0, "an inode is left");
    assert!(cache.groups.iter().all(|group| group.is_empty()));
    let [missed, made, evicted, freed] = [Count::Missed, Count::Made, Count::Evicted, Count::Freed]
        .map(|count| cache.counts().sum(count));
    assert_eq!(missed + made, evicted + freed, "inodes that came in, inodes that went");
}

/// Looks up inodes in two threads while a third thread replaces a file. The bound of the cache is
/// so small that lookups evict. Checks that no found inode was freed.
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

/// Checks I2 of `xfs_icache::cached_inode`: no thread takes an inode that is being reclaimed.
#[test]
fn lookups_during_eviction_and_replacement_are_consistent() {
    explore(|| look_and_replace(Mutant::None));
}

/// Checks that a planted bug is found: a thread reads an inode without its latch, which violates
/// I1 of `xfs_icache::inode_cache`.
#[test]
fn planted_read_without_the_latch_is_found() {
    check_found("nobody else has this number", || look_and_replace(Mutant::Unlatched));
}

/// Visits the inodes of a chunk in bulk during lookups, a walk, and the replacement of a file.
/// Checks that the visit either passes an inode to the visitor, or returns it as one that the
/// caller must take.
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
fn bulk_visit_during_lookups_and_replacement_is_consistent() {
    explore(|| pass_beside(Mutant::None));
}

/// Checks that a planted bug is found: a bulk visit inserts inodes after it has unlocked their
/// latches, which violates I1 of `xfs_icache::inode_cache::bulk_visit`.
#[test]
fn planted_bulk_visit_without_latches_is_found() {
    check_found("in use, and", || pass_beside(Mutant::PassedLate));
}

/// Walks during eviction and replacement. Checks that each walk shows the inode that stays
/// referenced throughout.
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
        drop(evicting.take(NUMBERS[3]).expect("there is one"));
        drop_idle(&*evicting);
    }));
    let (replacing, store) = (Arc::clone(&cache), Arc::clone(&store));
    threads.push(Box::new(move || replace(&replacing, &store, NUMBERS[0])));
    run(threads);
    drop(held);
    close(&cache);
}

#[test]
fn walks_during_eviction_and_replacement_miss_no_held_inode() {
    explore(|| walk_beside(InodeIndex::ByGroup));
}

#[test]
fn walks_over_one_list_miss_no_held_inode() {
    explore(|| walk_beside(InodeIndex::OneList));
}

/// How an evicting thread treats the idle tag of an inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicts {
    /// The thread does not touch the idle tag of an inode that was evicted or freed, because the
    /// slot may hold a new inode.
    Checks,
    /// The thread clears the idle tag before it has checked whether the inode was evicted or freed.
    Blindly,
}

fn evict(cache: &FakeCache, how: Evicts) {
    if how == Evicts::Checks {
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

/// Evicts all inodes while another thread replaces a file. Checks that the last eviction finds the
/// new inode of the same number, which has no reference.
fn evict_beside_replacement(how: Evicts) {
    let (cache, store) = open(Mutant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&cache, *number, Keep::Cached));
    let (evicting, replacing) = (Arc::clone(&cache), Arc::clone(&cache));
    run(vec![
        Box::new(move || evict(&evicting, how)),
        // The evicting thread may stand still for all of it.
        Box::new(move || replace_and(&replacing, &store, NUMBERS[0], || ())),
    ]);
    close(&cache);
}

#[test]
fn eviction_during_replacement_keeps_the_new_tag() {
    explore(|| evict_beside_replacement(Evicts::Checks));
}

#[test]
fn planted_eviction_that_clears_the_new_tag_is_found() {
    check_found("an inode is left", || evict_beside_replacement(Evicts::Blindly));
}

/// Evicts the last inode of a chunk while another inode is inserted into the chunk. Checks that
/// walks show the inserted inode.
fn chunk_turns_over() {
    let (cache, _) = open(Mutant::None, 64, InodeIndex::ByGroup);
    let (coming, going) = (Arc::clone(&cache), Arc::clone(&cache));
    run(vec![
        Box::new(move || {
            let held = coming.take(NUMBERS[1]).expect("there is one");
            let seen = walk(&coming, WalkFilter::Referenced);
            assert!(seen.contains(&NUMBERS[1]), "a walk has missed an inode");
            drop(held);
        }),
        Box::new(move || look_at(&going, NUMBERS[2], Keep::Once)),
    ]);
    close(&cache);
}

/// Checks I3 of `xfs_icache::chunk`: a chunk that has left the index gets no inode.
#[test]
fn inode_entering_an_emptied_chunk_is_walked() {
    explore(chunk_turns_over);
}

/// Takes the volume down while one thread holds an inode and another thread walks. Checks that no
/// inode is left.
fn take_down() {
    let (cache, _) = open(Mutant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&cache, *number, Keep::Cached));
    let held = cache.take(NUMBERS[0]).expect("there is one").store();
    let (walking, holding) = (Arc::clone(&cache), Arc::clone(&cache));
    let threads: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || drop(walk(&walking, WalkFilter::Cached))),
        Box::new(move || drop(CacheRef::restore(&*holding, held))),
    ];
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    cache.deactivate();
    evict_all(&*cache);
    handles.into_iter().for_each(|handle| handle.join().expect("a thread of the model"));
    close(&cache);
}

#[test]
fn volume_taken_down_during_a_walk_is_empty() {
    explore(take_down);
}

/// Lets threads drop the last references to unlinked files, while a background thread frees the
/// inodes. Checks that all inodes are freed: if a wakeup were lost, the model would report a
/// deadlock.
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
                drop(entry);
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
fn inactivation_in_the_background_misses_no_wakeup() {
    explore(free_in_background);
}
