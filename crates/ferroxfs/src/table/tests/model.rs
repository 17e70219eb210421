//! Schedules of the real table, explored.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p ferroxfs --lib --target-dir target/model model::`,
//! which `cargo xtask test` does too. The table is that of a volume; below it lie inodes without a
//! volume, each with a latch. A planted bug must be found.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use xfs_format::InodeNumber;

use crate::superblock::{Filesystem, Step, Which, count_inodes, drop_idle, evict_all, evict_step};
use crate::table::testing::{Book, Plant, Shelf};
use crate::table::{Count, Entry, Inode, InodeIndex, Keep, Table, Tag, Wanted};

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

type Books = Table<Arc<Shelf>>;

/// A table over files of all numbers, none of which is in memory.
fn open(plant: Plant, most: u64, index: InodeIndex) -> (Arc<Books>, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::new(1, plant));
    for number in NUMBERS {
        shelf.create(number, drop);
    }
    (Arc::new(Table::new(Arc::clone(&shelf), most, index)), shelf)
}

/// Uses an inode for a while, if there is one of this number.
fn look_at(table: &Books, number: InodeNumber, keep: Keep) {
    let Ok(entry) = table.take_as(number, keep) else { return };
    entry.live().check();
    thread::yield_now();
    entry.live().check();
    table.release(entry);
}

/// Removes a file, and makes another one of its number.
fn replace(table: &Books, shelf: &Shelf, number: InodeNumber) {
    replace_and(table, shelf, number, thread::yield_now);
}

/// The same; `pause` is where others may come between.
fn replace_and(table: &Books, shelf: &Shelf, number: InodeNumber, pause: impl Fn()) {
    if let Ok(entry) = table.take(number) {
        entry.live().unlink();
        table.finish_with(entry);
    }
    if let Some(made) = shelf.create(number, |book| table.insert(book)) {
        let entry = made.expect("nobody else has this number");
        pause();
        entry.set_ready();
        entry.live().check();
        table.release(entry);
    }
}

/// What walks show, each in use while it is shown.
fn walk(table: &Books, which: Which) -> Vec<InodeNumber> {
    let mut seen = Vec::new();
    let _ = table.iter_inodes(which, |entry: &Arc<Entry<Book>>| {
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

/// Takes the table down, and checks that nothing is left and that the counters agree.
fn close(table: &Books) {
    table.deactivate();
    table.drain();
    evict_all(table);
    assert_eq!(count_inodes(table).total(), 0);
    assert!(table.groups.iter().all(|group| group.is_empty()));
    let [missed, made, evicted, freed] = [Count::Missed, Count::Made, Count::Evicted, Count::Freed]
        .map(|count| table.counts().sum(count));
    assert_eq!(missed + made, evicted + freed, "what came went");
}

/// Lookups, with a bound so small that they evict, beside a file that is replaced.
fn look_and_replace(plant: Plant) {
    let (table, shelf) = open(plant, 2, InodeIndex::ByGroup);
    let with = || (Arc::clone(&table), Arc::clone(&shelf));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for keep in [Keep::Cached, Keep::Once] {
        let (table, _) = with();
        threads.push(Box::new(move || {
            NUMBERS.iter().for_each(|number| look_at(&table, *number, keep));
        }));
    }
    let (replaced, shelf) = with();
    threads.push(Box::new(move || {
        replace(&replaced, &shelf, NUMBERS[0]);
        replace(&replaced, &shelf, NUMBERS[0]);
    }));
    run(threads);
    close(&table);
}

#[test]
fn lookups_beside_eviction_and_replacement() {
    explore(SCHEDULES, || look_and_replace(Plant::None));
}

#[test]
fn an_inode_read_without_its_latch_is_found() {
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explore(PLANTED_SCHEDULES, || look_and_replace(Plant::Unlatched));
    }));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}

/// Inodes of a chunk that pass together, beside lookups, a walk, and a file that is replaced.
fn pass_beside(plant: Plant) {
    let (table, shelf) = open(plant, 2, InodeIndex::ByGroup);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    let passing = Arc::clone(&table);
    threads.push(Box::new(move || {
        let inodes = NUMBERS[..3].iter().fold(0, |all, number| all | 1_u64 << number.0);
        let (mut shown, first) = (0, InodeNumber(0));
        let left = passing.pass(Wanted { first, inodes, freed: 0 }, |book: &Book| {
            book.check();
            assert!(passing.present(first) >> book.number().0 & 1 == 1, "shown before it is in");
            shown |= 1 << book.number().0;
        });
        assert_eq!((left | shown, left & shown), (inodes, 0), "each is shown once, or left");
    }));
    let looking = Arc::clone(&table);
    threads.push(Box::new(move || {
        look_at(&looking, NUMBERS[1], Keep::Cached);
        walk(&looking, Which::Cached);
        look_at(&looking, NUMBERS[1], Keep::Once);
    }));
    let replacing = Arc::clone(&table);
    threads.push(Box::new(move || replace(&replacing, &shelf, NUMBERS[0])));
    run(threads);
    close(&table);
}

#[test]
fn a_passage_beside_lookups_and_replacement() {
    explore(SCHEDULES, || pass_beside(Plant::None));
}

#[test]
fn a_passage_that_enters_without_latches_is_found() {
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explore(PLANTED_SCHEDULES, || pass_beside(Plant::PassedLate));
    }));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}

/// Walks beside eviction and replacement: what is held all the time is shown by all of them.
fn walk_beside(index: InodeIndex) {
    let (table, shelf) = open(Plant::None, 64, index);
    let held = table.take(NUMBERS[1]).expect("there is one");
    look_at(&table, NUMBERS[0], Keep::Cached);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for which in [Which::Cached, Which::Referenced] {
        let table = Arc::clone(&table);
        threads.push(Box::new(move || {
            assert!(walk(&table, which).contains(&NUMBERS[1]), "a walk has missed an inode");
        }));
    }
    let evicting = Arc::clone(&table);
    threads.push(Box::new(move || {
        drop_idle(&*evicting);
        evicting.release(evicting.take(NUMBERS[3]).expect("there is one"));
        drop_idle(&*evicting);
    }));
    let (replacing, shelf) = (Arc::clone(&table), Arc::clone(&shelf));
    threads.push(Box::new(move || replace(&replacing, &shelf, NUMBERS[0])));
    run(threads);
    table.release(held);
    close(&table);
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

fn evict(table: &Books, how: Evicts) {
    if how == Evicts::Looks {
        drop_idle(table);
        return;
    }
    let mut cursor = 0;
    let clear = |entry: &Entry<Book>| {
        entry.spot().into_iter().for_each(|spot| spot.clear_idle());
        entry.evict()
    };
    let step = |cursor| evict_step(table, |visit| table.visit(0, cursor, Tag::Idle, visit), clear);
    while let (Step::On(next), _) = step(cursor) {
        cursor = next;
    }
}

/// Somebody evicts what a file has left that is replaced: what has its number then, and nobody uses, is found by who
/// evicts last.
fn evict_beside_replacement(how: Evicts) {
    let (table, shelf) = open(Plant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&table, *number, Keep::Cached));
    let (evicting, replacing) = (Arc::clone(&table), Arc::clone(&table));
    run(vec![
        Box::new(move || evict(&evicting, how)),
        // Who evicts may stand still for all of it.
        Box::new(move || replace_and(&replacing, &shelf, NUMBERS[0], || ())),
    ]);
    close(&table);
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
    let (table, _) = open(Plant::None, 64, InodeIndex::ByGroup);
    let (coming, going) = (Arc::clone(&table), Arc::clone(&table));
    run(vec![
        Box::new(move || {
            let held = coming.take(NUMBERS[1]).expect("there is one");
            let seen = walk(&coming, Which::Referenced);
            assert!(seen.contains(&NUMBERS[1]), "a walk has missed an inode");
            coming.release(held);
        }),
        Box::new(move || look_at(&going, NUMBERS[2], Keep::Once)),
    ]);
    close(&table);
}

#[test]
fn a_chunk_that_turns_over() {
    explore(SCHEDULES, chunk_turns_over);
}

/// The volume is taken down while somebody holds an inode and a walk is under way.
fn take_down() {
    let (table, _) = open(Plant::None, 64, InodeIndex::ByGroup);
    NUMBERS.iter().for_each(|number| look_at(&table, *number, Keep::Cached));
    let held = table.take(NUMBERS[0]).expect("there is one");
    let (walking, holding) = (Arc::clone(&table), Arc::clone(&table));
    let threads: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || drop(walk(&walking, Which::Cached))),
        Box::new(move || holding.release(held)),
    ];
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    table.deactivate();
    evict_all(&*table);
    handles.into_iter().for_each(|handle| handle.join().expect("a thread of the model"));
    close(&table);
}

#[test]
fn a_volume_taken_down_beside_a_walk() {
    explore(SCHEDULES, take_down);
}

/// Handles that are dropped, and a thread that frees what they leave: it is never left asleep, which
/// would be a deadlock of the model.
fn free_in_background() {
    let (table, _) = open(Plant::None, 64, InodeIndex::ByGroup);
    let serving = Arc::clone(&table);
    let server = thread::spawn(move || serving.serve());
    let droppers: Vec<_> = NUMBERS[..2]
        .iter()
        .map(|number| {
            let (table, number) = (Arc::clone(&table), *number);
            thread::spawn(move || {
                let entry = table.take(number).expect("there is one");
                entry.live().unlink();
                table.release(entry);
            })
        })
        .collect();
    droppers.into_iter().for_each(|dropper| dropper.join().expect("a thread of the model"));
    while table.counts().sum(Count::Freed) < 2 {
        thread::yield_now();
    }
    table.close();
    server.join().expect("the thread that frees");
    close(&table);
}

#[test]
fn inodes_freed_in_the_background() {
    explore(SCHEDULES, free_in_background);
}
