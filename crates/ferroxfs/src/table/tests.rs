use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::InodeNumber;
use xfs_trans::testing::make_with;

use super::{Entry, Table};
use crate::writing::{Creation, NewKind, Parts};
use crate::{OpenOptions, Volume};

const PLAIN: Creation = Creation { mode: 0o600, uid: 0, gid: 0 };
const FILES: usize = 24;
const MOST: usize = 8;

/// A volume with files, all of one group, and their numbers.
fn volume() -> (Volume, Vec<InodeNumber>) {
    let options = OpenOptions::new().writable(true);
    let volume = options.with_devices(make_with(""), None).writable_volume().unwrap();
    let root = volume.root().unwrap();
    let make =
        |number| root.create(format!("file{number}"), &NewKind::Regular, &PLAIN).unwrap().number();
    let numbers = (0..FILES).map(make).collect();
    (volume, numbers)
}

/// Does something with a table of its own over the inodes of a volume.
fn check(act: impl Fn(&Table, &Parts, &[InodeNumber])) {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (parts, _) = root.writable().unwrap();
    act(&Table::with_idle(parts.geometry(), MOST), parts, &numbers);
}

fn take(table: &Table, parts: &Parts, number: InodeNumber) -> Arc<Entry> {
    table.take(&parts.journal, number).unwrap()
}

/// Inodes that are in memory.
fn present(table: &Table) -> usize {
    table.groups.iter().map(|group| group.entries.len()).sum()
}

#[test]
fn an_idle_inode_is_found_again() {
    check(|table, parts, numbers| {
        let first = take(table, parts, numbers[0]);
        table.release(parts.geometry(), Arc::clone(&first));
        let again = take(table, parts, numbers[0]);
        assert!(Arc::ptr_eq(&first, &again));
    });
}

#[test]
fn no_more_stay_than_may() {
    check(|table, parts, numbers| {
        for number in numbers {
            let entry = take(table, parts, *number);
            table.release(parts.geometry(), entry);
            assert!(present(table) <= MOST, "{} in memory", present(table));
        }
        assert_eq!(present(table), MOST);
    });
}

#[test]
fn what_is_used_stays() {
    check(|table, parts, numbers| {
        let used = take(table, parts, numbers[0]);
        for number in numbers {
            let entry = take(table, parts, *number);
            table.release(parts.geometry(), entry);
        }
        let again = take(table, parts, numbers[0]);
        assert!(Arc::ptr_eq(&used, &again));
    });
}

#[test]
fn what_is_evicted_is_read_again() {
    check(|table, parts, numbers| {
        let first = take(table, parts, numbers[0]);
        table.release(parts.geometry(), Arc::clone(&first));
        for number in &numbers[1..] {
            let entry = take(table, parts, *number);
            table.release(parts.geometry(), entry);
        }
        assert!(first.is_gone());
        let again = take(table, parts, numbers[0]);
        assert!(!Arc::ptr_eq(&first, &again));
        assert_eq!(again.number(), numbers[0]);
    });
}

#[test]
fn an_inode_without_a_name_is_freed_by_its_last_user() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (parts, _) = root.writable().unwrap();
    let entry = parts.take(numbers[3]).unwrap();
    root.remove_file("file3").unwrap();
    assert_eq!(entry.core().nlink, 0);
    // It has a user, so it is there for others too.
    let other = parts.take(numbers[3]).unwrap();
    parts.release(other);
    parts.release(entry);
    parts.table.drain(&parts.journal);
    assert!(parts.table.take_failure().is_none());
    let gone = parts.take(numbers[3]).map(|entry| entry.number());
    assert!(matches!(gone, Err(Error::Posix(PosixError::NotFound))), "{gone:?}");
}
