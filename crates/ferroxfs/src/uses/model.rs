//! Schedules of handles that are counted by slot beside the removal of their file, explored over the real table. A
//! planted bug must be found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use xfs_format::InodeNumber;

use super::{Uses, end};
use crate::superblock::count_inodes;
use crate::table::testing::{Plant, Shelf};
use crate::table::{Count, InodeIndex, Table};

const SCHEDULES: usize = 1000;
const DEPTH: usize = 3;
const NUMBER: InodeNumber = InodeNumber(5);

fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    Runner::new(PctScheduler::new(DEPTH, SCHEDULES), Config::new()).run(model.clone());
    Runner::new(RandomScheduler::new(SCHEDULES), Config::new()).run(model);
}

/// When the slots are visited for a file that is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// Once it is set to drain, as I1 says.
    Drained,
    Before,
}

fn open_and_close(table: &Table<Arc<Shelf>>, uses: &Uses<Arc<Shelf>>) {
    let Ok(entry) = table.take(NUMBER) else { return };
    let held = uses.hold(&entry, table);
    table.finish_with(entry);
    let Some(held) = held else { return };
    held.entry().live().check();
    thread::yield_now();
    held.entry().live().check();
    end(held, table);
}

/// A file that many open is removed: it is freed with its last user, and no slot remembers it.
fn opens_beside_removal(visit: Visit) {
    let shelf = Arc::new(Shelf::new(1, Plant::None));
    shelf.create(NUMBER, drop);
    let table = Arc::new(Table::new(Arc::clone(&shelf), 4, InodeIndex::ByGroup));
    let uses = Arc::new(Uses::new());
    let entry = table.take(NUMBER).expect("there is one");
    (0..64).for_each(|slot| entry.locks().note_opener(slot % 2));
    assert!(entry.locks().is_sharded());
    let opening: Vec<_> = (0..2)
        .map(|_| {
            let (table, uses) = (Arc::clone(&table), Arc::clone(&uses));
            thread::spawn(move || (0..2).for_each(|_| open_and_close(&table, &uses)))
        })
        .collect();
    if visit == Visit::Before {
        uses.visit(&entry, &table);
    }
    entry.live().unlink();
    match visit {
        Visit::Drained => uses.drain(&entry, &table),
        Visit::Before => entry.locks().drain(),
    }
    table.finish_with(entry);
    opening.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    table.drain();
    assert_eq!(table.counts().sum(Count::Freed), 1, "a slot remembers what was removed");
    assert_eq!(count_inodes(&*table).total(), 0);
}

#[test]
fn a_removed_file_is_remembered_by_no_slot() {
    explore(|| opens_beside_removal(Visit::Drained));
}

#[test]
fn slots_that_are_visited_too_early_are_found() {
    let explored =
        catch_unwind(AssertUnwindSafe(|| explore(|| opens_beside_removal(Visit::Before))));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}
