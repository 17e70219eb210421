//! Schedules of names beside the removal of what they mean, explored over the real table. A planted bug must
//! be found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use xfs_format::InodeNumber;
use xfs_sync::{Latch, Object};

use super::DIRECTORY;
use crate::names::Names;
use crate::table::testing::{Plant, Shelf};
use crate::table::{InodeIndex, Table};

const SCHEDULES: usize = 1000;
const DEPTH: usize = 3;
const NUMBER: InodeNumber = InodeNumber(5);
const NAME: &[u8] = b"name";

fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    Runner::new(PctScheduler::new(DEPTH, SCHEDULES), Config::new()).run(model.clone());
    Runner::new(RandomScheduler::new(SCHEDULES), Config::new()).run(model);
}

/// What a reader does when it has a use of what a name means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// It looks whether the name is dead, as I2 says.
    Looks,
    Trusts,
}

/// A path is walked by a remembered name, while the file is removed and its number given to another.
fn walk_beside_removal(reader: Reader) {
    let shelf = Arc::new(Shelf::new(1, Plant::None));
    shelf.create(NUMBER, drop);
    let table = Arc::new(Table::new(Arc::clone(&shelf), 4, InodeIndex::ByGroup));
    let (names, latch) = (Arc::new(Names::new()), Arc::new(Latch::<Object>::new()));
    (0..2).for_each(|_| names.note(DIRECTORY, NAME, Some(NUMBER)));
    let first = table.take(NUMBER).expect("there is one");
    let generation = first.live().generation();
    table.release(first);
    let (walking, removing) = (Arc::clone(&table), Arc::clone(&table));
    let (read, removed) = (Arc::clone(&names), Arc::clone(&names));
    let reading = thread::spawn(move || {
        let names = read.reader();
        let Some(meaning) = names.find(DIRECTORY, NAME) else { return };
        let Ok(entry) = meaning.inode().ok_or(()).and_then(|it| walking.take(it).map_err(drop))
        else {
            return;
        };
        if reader == Reader::Trusts || !meaning.is_dead() {
            assert_eq!(entry.live().generation(), generation, "the name leads to another file");
        }
        walking.release(entry);
    });
    let changing = thread::spawn(move || {
        if let Ok(entry) = removing.take(NUMBER) {
            let held = latch.exclusive();
            removed.forget(DIRECTORY, NAME);
            entry.live().unlink();
            drop(held);
            removing.finish_with(entry);
        }
        removing.drain();
        if let Some(Ok(made)) = shelf.create(NUMBER, |book| removing.insert(book)) {
            made.set_ready();
            removing.release(made);
        }
    });
    reading.join().expect("a thread of the model");
    changing.join().expect("a thread of the model");
    assert_eq!(names.count(), 0);
}

#[test]
fn a_name_leads_to_no_other_file() {
    explore(|| walk_beside_removal(Reader::Looks));
}

#[test]
fn a_reader_that_trusts_a_dead_name_is_found() {
    let explored =
        catch_unwind(AssertUnwindSafe(|| explore(|| walk_beside_removal(Reader::Trusts))));
    assert!(explored.is_err(), "no schedule has shown the planted bug");
}
