use std::sync::Arc;

use xfs_format::InodeNumber;

use crate::superblock::{Filesystem, count_inodes, drop_idle};
use crate::table::testing::{Book, Plant, Shelf};
use crate::table::{Count, Inode, InodeIndex, Keep, Table, Wanted};

const FIRST: InodeNumber = InodeNumber(128);

fn open(index: InodeIndex) -> (Table<Arc<Shelf>>, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::new(1, Plant::None));
    // Every third is free.
    for number in (0..64).filter(|number| number % 3 != 0) {
        shelf.create(InodeNumber(FIRST.0 + number), drop);
    }
    (Table::new(Arc::clone(&shelf), 1000, index), shelf)
}

fn pass(table: &Table<Arc<Shelf>>, inodes: u64) -> (Vec<u64>, u64) {
    let mut shown = Vec::new();
    let left = table.pass(Wanted { first: FIRST, inodes, freed: 0 }, |book: &Book| {
        book.check();
        shown.push(book.number().0 - FIRST.0);
    });
    (shown, left)
}

fn sums(table: &Table<Arc<Shelf>>) -> [u64; 4] {
    [Count::Attempt, Count::Missed, Count::Released, Count::Evicted]
        .map(|count| table.counts().sum(count))
}

#[test]
fn all_come_and_go() {
    let (table, _) = open(InodeIndex::ByGroup);
    let (shown, left) = pass(&table, u64::MAX);
    assert_eq!(shown, (0..64).filter(|number| number % 3 != 0).collect::<Vec<_>>());
    // What is free is for who asks for each to say.
    assert_eq!(left, (0..64).step_by(3).fold(0, |all, number| all | 1 << number));
    assert_eq!(sums(&table), [42; 4]);
    assert_eq!(count_inodes(&table).total(), 0);
    assert!(table.groups.iter().all(|group| group.is_empty()));
}

#[test]
fn what_is_in_memory_is_left_and_stays() {
    let (table, _) = open(InodeIndex::ByGroup);
    let held = table.take(InodeNumber(FIRST.0 + 1)).unwrap();
    let idle = table.take(InodeNumber(FIRST.0 + 2)).unwrap();
    table.release(idle);
    assert_eq!(pass(&table, 0b1_0110), (vec![4], 0b110));
    assert_eq!(count_inodes(&table).total(), 2);
    table.release(held);
    assert_eq!(drop_idle(&table), 2);
}

#[test]
fn one_that_is_asked_for_meanwhile_stays() {
    let (table, _) = open(InodeIndex::ByGroup);
    let mut taken = None;
    let left = table.pass(Wanted { first: FIRST, inodes: 0b110, freed: 0 }, |book: &Book| {
        if book.number().0 == FIRST.0 + 1 {
            taken = Some(table.take(book.number()).unwrap());
        }
    });
    assert_eq!((left, count_inodes(&table).total()), (0, 1));
    table.release(taken.unwrap());
    assert_eq!(count_inodes(&table).reclaimable, 1);
    assert_eq!(drop_idle(&table), 1);
}

#[test]
fn where_there_is_a_list_all_are_left() {
    let (table, _) = open(InodeIndex::OneList);
    assert_eq!(pass(&table, 0b110), (vec![], 0b110));
    table.release(table.take_as(InodeNumber(FIRST.0 + 1), Keep::Once).unwrap());
    assert!(table.list().is_some());
}
