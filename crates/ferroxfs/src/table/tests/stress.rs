//! Everybody who looks at all inodes, and everybody who changes which there are, at once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use xfs_format::InodeNumber;
use xfs_testkit::Prng;

use crate::superblock::{Filesystem, Which, count_inodes, drop_idle, evict_all};
use crate::table::testing::{Book, Plant, Shelf};
use crate::table::{Count, Inode, InodeIndex, Keep, Table, Wanted};

const INODES: u64 = 3 * 1024;
const HELD: u64 = 40;
const ROUNDS: usize = 3000;
const WALKS: usize = 40;

type Books = Table<Arc<Shelf>>;

/// Looks inodes up, removes them and makes them anew, at random.
fn churn(table: &Books, shelf: &Shelf, seed: u64) {
    let mut prng = Prng::new(seed);
    for _ in 0..ROUNDS {
        let number = InodeNumber(prng.within(HELD as usize..INODES as usize) as u64);
        let keep = if prng.within(0..2) == 0 { Keep::Once } else { Keep::Cached };
        let Ok(entry) = table.take_as(number, keep) else {
            if let Some(made) = shelf.create(number, |book: Arc<Book>| table.insert(book)) {
                let made = made.unwrap();
                made.set_ready();
                table.release(made);
            }
            continue;
        };
        entry.live().check();
        match prng.within(0..6) {
            0 => {
                entry.live().unlink();
                table.finish_with(entry);
            }
            1 => {
                entry.live().unlink();
                table.release(entry);
            }
            _ => table.release(entry),
        }
    }
}

/// Has whole chunks pass, as bulkstat does: each inode is shown once, or left.
fn pass(table: &Books) {
    for first in (0..INODES).step_by(64).cycle().take(WALKS * 8).map(InodeNumber) {
        let mut shown = 0;
        let left = table.pass(Wanted { first, inodes: u64::MAX, freed: 0 }, |book: &Book| {
            book.check();
            shown |= 1_u64 << (book.number().0 - first.0);
        });
        assert_eq!((shown | left, shown & left), (u64::MAX, 0));
    }
}

/// Walks, each of which shows all that is held.
fn walk(table: &Books, which: Which) {
    for _ in 0..WALKS {
        let mut held = 0;
        let done = table.iter_inodes(which, |entry| {
            entry.live().check();
            held += u64::from(entry.number().0 < HELD);
            ControlFlow::Continue(())
        });
        assert_eq!((done.is_continue(), held), (true, HELD));
    }
}

fn check(index: InodeIndex) {
    let shelf = Arc::new(Shelf::new(3, Plant::None));
    for number in 0..INODES {
        shelf.create(InodeNumber(number), drop);
    }
    let table = Table::new(Arc::clone(&shelf), 500, index);
    let held: Vec<_> = (0..HELD).map(|number| table.take(InodeNumber(number)).unwrap()).collect();
    thread::scope(|scope| {
        let server = scope.spawn(|| table.serve());
        let work: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn({
                    let (table, shelf) = (&table, &shelf);
                    move || churn(table, shelf, seed)
                })
            })
            .chain([
                scope.spawn(|| walk(&table, Which::Cached)),
                scope.spawn(|| pass(&table)),
                scope.spawn(|| pass(&table)),
                scope.spawn(|| walk(&table, Which::Referenced)),
                scope.spawn(|| (0..WALKS).for_each(|_| assert!(drop_idle(&table) <= INODES))),
                scope.spawn(|| (0..WALKS).for_each(|_| assert!(count_inodes(&table).live >= HELD))),
            ])
            .collect();
        work.into_iter().for_each(|thread| thread.join().unwrap());
        table.drain();
        table.close();
        server.join().unwrap();
    });
    table.deactivate();
    evict_all(&table);
    assert_eq!(count_inodes(&table).total(), HELD);
    held.into_iter().for_each(|entry| table.release(entry));
    assert!(table.groups.iter().all(|group| group.is_empty()));
    let sum = |count| table.counts().sum(count);
    assert_eq!(sum(Count::Missed) + sum(Count::Made), sum(Count::Evicted) + sum(Count::Freed));
    assert!(table.take_failure().is_none());
}

#[test]
fn all_users_at_once() {
    check(InodeIndex::ByGroup);
}

#[test]
fn all_users_at_once_over_one_list() {
    check(InodeIndex::OneList);
}
