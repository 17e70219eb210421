#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod room;
#[cfg(not(shuttle))]
mod stress;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError};
use xfs_format::InodeNumber;
use xfs_trans::testing::make_with;

use super::{Count, Entry, InodeIndex, Keep, Table};
use crate::superblock::{CacheCounts, Filesystem, Which, count_inodes, drop_idle, evict_all};
use crate::writing::{Creation, NewKind, Parts};
use crate::{OpenOptions, Volume};

const PLAIN: Creation = Creation { mode: 0o600, uid: 0, gid: 0, umask: 0 };
const FILES: usize = 24;
const MOST: u64 = 8;

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
    for index in [InodeIndex::ByGroup, InodeIndex::OneList] {
        act(&Table::new(Arc::clone(&parts.journal), MOST, index), parts, &numbers);
    }
}

fn take(table: &Table, number: InodeNumber) -> Arc<Entry> {
    table.take(number).unwrap()
}

/// Inodes that are in memory.
fn present(table: &Table) -> u64 {
    count_inodes(table).total()
}

#[test]
fn an_idle_inode_is_found_again() {
    check(|table, _, numbers| {
        let first = take(table, numbers[0]);
        table.release(Arc::clone(&first));
        let again = take(table, numbers[0]);
        assert!(Arc::ptr_eq(&first, &again));
    });
}

#[test]
fn what_is_in_memory_is_told_from_any_number_on() {
    check(|table, _, numbers| {
        let held: Vec<_> = numbers[..3].iter().map(|number| take(table, *number)).collect();
        for before in 0..80 {
            let first = InodeNumber(numbers[0].0 - before);
            let bits = numbers[..3].iter().map(|number| number.0 - first.0);
            let expected = bits.filter(|bit| *bit < 64).fold(0, |bits, bit| bits | 1 << bit);
            assert_eq!(table.present(first), expected, "from {before} before the first on");
        }
        held.into_iter().for_each(|entry| table.release(entry));
    });
}

#[test]
fn no_more_stay_than_may() {
    check(|table, _, numbers| {
        for number in numbers {
            let entry = take(table, *number);
            table.release(entry);
            assert!(present(table) <= MOST, "{} in memory", present(table));
        }
        assert_eq!(present(table), MOST);
    });
}

#[test]
fn what_is_used_stays() {
    check(|table, _, numbers| {
        let used = take(table, numbers[0]);
        for number in numbers {
            let entry = take(table, *number);
            table.release(entry);
        }
        let again = take(table, numbers[0]);
        assert!(Arc::ptr_eq(&used, &again));
    });
}

#[test]
fn what_is_evicted_is_read_again() {
    check(|table, _, numbers| {
        let first = take(table, numbers[0]);
        table.release(Arc::clone(&first));
        for number in &numbers[1..] {
            let entry = take(table, *number);
            table.release(entry);
        }
        assert!(first.is_gone());
        let again = take(table, numbers[0]);
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
    parts.table.drain();
    assert!(parts.table.take_failure().is_none());
    let gone = parts.take(numbers[3]).map(|entry| entry.number());
    assert!(matches!(gone, Err(Error::Posix(PosixError::NotFound))), "{gone:?}");
}

#[test]
fn what_is_looked_at_once_does_not_stay() {
    check(|table, _, numbers| {
        let seen = table.take_as(numbers[0], Keep::Once).unwrap();
        table.release(seen);
        assert_eq!(present(table), 0);
        // Somebody else who comes meanwhile keeps it.
        let seen = table.take_as(numbers[0], Keep::Once).unwrap();
        table.release(take(table, numbers[0]));
        table.release(seen);
        assert_eq!(present(table), 1);
        // And it is not pushed out by who looks at what is there.
        table.release(table.take_as(numbers[0], Keep::Once).unwrap());
        assert_eq!(present(table), 1);
        let counts = table.counts();
        assert_eq!([Count::Missed, Count::Evicted].map(|count| counts.sum(count)), [2, 1]);
    });
}

#[test]
fn a_chunk_that_is_held_stays_when_its_inodes_go() {
    check(|table, _, numbers| {
        let is_empty = || table.groups.iter().all(|group| group.is_empty());
        let held = table.hold(numbers[0]);
        for number in numbers {
            table.release(table.take_as(*number, Keep::Once).unwrap());
        }
        assert_eq!((present(table), is_empty()), (0, false));
        drop(held);
        assert!(is_empty());
        // Nor does it keep anything from coming, or take out what has come.
        let held = table.hold(numbers[0]);
        table.release(take(table, numbers[0]));
        drop(held);
        assert_eq!((present(table), is_empty()), (1, false));
    });
}

#[test]
fn inodes_that_lie_beside_each_other_are_read_from_one_cluster() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (parts, _) = root.writable().unwrap();
    let table = Table::new(Arc::clone(&parts.journal), MOST, InodeIndex::ByGroup);
    let reads = || volume.statistics().unwrap().buffers.reads;
    table.release(take(&table, numbers[0]));
    let before = reads();
    let first = volume.geometry().inode_location(numbers[0]).unwrap().cluster;
    let is_beside = |number: &&InodeNumber| {
        volume.geometry().inode_location(**number).unwrap().cluster == first
    };
    let beside: Vec<_> = numbers[1..].iter().filter(is_beside).collect();
    assert!(beside.len() > 2);
    for number in &beside {
        let entry = take(&table, **number);
        assert_eq!(entry.number(), **number);
        table.release(entry);
    }
    assert_eq!(reads(), before);
    // Nobody keeps a cluster when caches are dropped.
    table.forget_near();
    table.release(table.take_as(*beside[0], Keep::Once).unwrap());
    assert!(reads() <= before + 1);
}

#[test]
fn a_table_that_goes_takes_its_inodes_along() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (parts, _) = root.writable().unwrap();
    let table = Table::new(Arc::clone(&parts.journal), MOST, InodeIndex::ByGroup);
    let live = Arc::downgrade(take(&table, numbers[0]).live());
    // In use or not, or taken out and not given back yet.
    table.release(take(&table, numbers[1]));
    table.release(table.take_as(numbers[2], Keep::Once).unwrap());
    assert!(live.strong_count() > 0);
    drop(table);
    assert_eq!(live.strong_count(), 0);
}

#[test]
fn dropping_caches_leaves_what_is_used() {
    check(|table, _, numbers| {
        let used = take(table, numbers[0]);
        numbers[1..5].iter().for_each(|number| table.release(take(table, *number)));
        let counts = CacheCounts { live: 1, reclaimable: 4, ..CacheCounts::default() };
        assert_eq!(count_inodes(table), counts);
        assert_eq!(drop_idle(table), 4);
        assert_eq!(count_inodes(table), CacheCounts { live: 1, ..CacheCounts::default() });
        assert!(Arc::ptr_eq(&used, &take(table, numbers[0])));
    });
}

/// The numbers that a walk shows.
fn walk(table: &Table, which: Which) -> Vec<InodeNumber> {
    let mut seen = Vec::new();
    let done = table.iter_inodes(which, |entry| {
        seen.push(entry.number());
        ControlFlow::Continue(())
    });
    assert!(done.is_continue());
    seen
}

#[test]
fn a_walk_shows_each_inode_once() {
    check(|table, _, numbers| {
        let used = take(table, numbers[2]);
        numbers[3..6].iter().for_each(|number| table.release(take(table, *number)));
        assert_eq!(walk(table, Which::Cached), numbers[2..6]);
        assert_eq!(walk(table, Which::Referenced), numbers[2..3]);
        table.release(used);
    });
}

#[test]
fn a_walk_is_stopped_as_a_whole() {
    check(|table, _, numbers| {
        numbers[..5].iter().for_each(|number| table.release(take(table, *number)));
        let mut seen = 0;
        let stopped = table.iter_inodes(Which::Cached, |_| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((stopped.is_break(), seen), (true, 2));
        // All uses that the step had taken are given back.
        assert_eq!(count_inodes(table).live, 0);
    });
}

#[test]
fn a_volume_that_is_taken_down_keeps_what_is_held() {
    check(|table, _, numbers| {
        let held = take(table, numbers[0]);
        numbers[1..5].iter().for_each(|number| table.release(take(table, *number)));
        table.deactivate();
        assert_eq!(walk(table, Which::Cached), numbers[..1]);
        assert_eq!(evict_all(table), 4);
        assert_eq!(walk(table, Which::Referenced), numbers[..1]);
        // Who lets go now leaves nothing behind.
        table.release(held);
        assert_eq!(present(table), 0);
        assert!(table.groups.iter().all(|group| group.is_empty()));
    });
}

#[test]
fn an_inode_that_is_being_made_is_passed_over() {
    let (volume, numbers) = volume();
    let root = volume.root().unwrap();
    let (parts, _) = root.writable().unwrap();
    let live = Arc::clone(parts.take(numbers[0]).unwrap().live());
    let table = Table::new(Arc::clone(&parts.journal), MOST, InodeIndex::ByGroup);
    let made = table.insert(live).unwrap();
    assert_eq!(walk(&table, Which::Cached), []);
    made.set_ready();
    assert_eq!(walk(&table, Which::Cached), numbers[..1]);
}
