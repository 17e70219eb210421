use xfs_dir::SetMode;
use xfs_trans::testing::make_with;
use xfs_vfs::{CreateOptions, NewKind, RenameMode};

use crate::OpenOptions;
use crate::admin::Label;
use crate::lock::{LockMode, LockOwner, LockRange, Wait};
use crate::stats::DentryCacheStats;

const PLAIN: CreateOptions = CreateOptions::new(0o600);

#[test]
fn operations_by_name_are_counted() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    let before = volume.statistics().unwrap();
    root.create("one", &NewKind::Regular, &PLAIN).unwrap();
    let file = root.lookup("one".as_ref()).unwrap();
    root.link(&file, "two").unwrap();
    root.rename("two", &root, "three", RenameMode::Replace).unwrap();
    root.remove_file("three").unwrap();
    assert!(root.remove_file("three").is_err());
    file.set_attribute("user.a", b"1", SetMode::Either).unwrap();
    assert_eq!(file.attribute("user.a".as_ref()).unwrap(), b"1");
    assert_eq!(file.attributes().len(), 1);
    file.remove_attribute("user.a").unwrap();
    assert_eq!(root.entries().unwrap().count(), 1);
    let after = volume.statistics().unwrap();
    let (dir, was) = (after.directories, before.directories);
    let names = [dir.lookups - was.lookups, dir.added - was.added, dir.removed - was.removed];
    assert_eq!(names, [1, 3, 2]);
    assert!(dir.listings > was.listings);
    let attributes = after.attributes;
    let counts = [attributes.reads, attributes.set, attributes.removed, attributes.listings];
    assert_eq!(counts, [1, 1, 1, 1]);
}

#[test]
fn rename_counts_added_and_removed_entries() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    for name in ["a", "b", "c", "d"] {
        root.create(name, &NewKind::Regular, &PLAIN).unwrap();
    }
    root.link(&root.lookup("d".as_ref()).unwrap(), "e").unwrap();
    let check = |from: &str, to: &str, mode, expected: [u64; 2]| {
        let was = volume.statistics().unwrap().directories;
        root.rename(from, &root, to, mode).unwrap();
        let dir = volume.statistics().unwrap().directories;
        assert_eq!([dir.added - was.added, dir.removed - was.removed], expected, "{mode:?}");
    };
    check("a", "b", RenameMode::Exchange, [0, 0]);
    check("a", "b", RenameMode::Replace, [0, 1]);
    check("b", "a", RenameMode::NoReplace, [1, 1]);
    check("a", "b", RenameMode::Whiteout, [1, 0]);
    check("b", "c", RenameMode::Whiteout, [0, 0]);
    check("d", "e", RenameMode::Replace, [0, 0]);
}

#[test]
fn changes_count_extents_transactions_and_log_writes() {
    let options = OpenOptions::new().write(true).join_writes(false).cached_inodes(16);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    let file = root.create("file", &NewKind::Regular, &PLAIN).unwrap().open().unwrap();
    let before = volume.statistics().unwrap();
    file.write_at(b"first", 0).unwrap();
    file.write_at(b"second", 1 << 20).unwrap();
    file.read_at(&mut [0; 5], 0).unwrap();
    file.set_len(1).unwrap();
    let after = volume.statistics().unwrap();
    let (maps, was) = (after.extent_maps, before.extent_maps);
    let counts = [maps.reads - was.reads, maps.insertions - was.insertions];
    assert_eq!(counts, [1, 2]);
    assert!(maps.writes >= was.writes + 2);
    assert!(maps.unmaps > was.unmaps);
    assert_eq!(maps.deletions - was.deletions, 1);

    let (was, old) = (after.log, after.transactions);
    assert!(after.checkpoints.gathered_items > 0 && after.checkpoints.gathered_bytes > 0);
    volume.sync().unwrap();
    let synced = volume.statistics().unwrap();
    let gathered = synced.checkpoints;
    assert_eq!((gathered.gathered_items, gathered.gathered_bytes), (0, 0));
    assert!(synced.write_back.unplaced_items > 0);
    assert!(synced.log.forces_waited > was.forces_waited);
    assert!(synced.log.writes > was.writes && synced.checkpoints.written > 0);
    assert!(synced.log.written_bytes > synced.checkpoints.bytes && synced.checkpoints.bytes > 0);
    assert!(synced.log_space.used_bytes > 0);
    // Nothing was left to wait for.
    volume.sync().unwrap();
    let idle = volume.statistics().unwrap().log;
    assert_eq!(idle.forces_waited, synced.log.forces_waited);
    assert!(idle.forces > synced.log.forces);

    volume.set_label(&Label::new(b"name").unwrap()).unwrap();
    let labelled = volume.statistics().unwrap();
    let now = labelled.transactions;
    assert_eq!(now.synchronous - old.synchronous, 1);
    assert_eq!(now.synchronous + now.asynchronous, labelled.checkpoints.commits);
    volume.freeze().unwrap();
    volume.thaw().unwrap();
    let quiet = volume.statistics().unwrap();
    assert!(quiet.write_back.walks > 0 && quiet.write_back.started > 0);
    assert_eq!(quiet.write_back.unplaced_items, 0);
}

#[test]
fn cached_names_and_held_locks_are_counted() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    root.create("one", &NewKind::Regular, &PLAIN).unwrap();
    let names = || {
        let DentryCacheStats { cached: remembered, negative: absent } =
            volume.statistics().unwrap().dentries;
        (remembered, absent)
    };
    // The second lookup of a name caches it.
    for _ in 0..2 {
        root.lookup("one".as_ref()).unwrap();
        assert!(root.lookup("two".as_ref()).is_err());
    }
    assert_eq!(names(), (2, 1));
    root.remove_file("one").unwrap();
    assert_eq!(names(), (1, 1));

    let held = || volume.statistics().unwrap().locks.held;
    let file = root.create("three", &NewKind::Regular, &PLAIN).unwrap();
    let (file, other) = (file.open().unwrap(), file.open().unwrap());
    let lock = |start, length, mode| {
        let range = LockRange::new(start, length).unwrap();
        file.lock(range, mode, LockOwner::Process(1), Wait::No).unwrap();
    };
    lock(0, 10, LockMode::Exclusive);
    lock(20, 10, LockMode::Exclusive);
    assert_eq!(held(), 2);
    lock(10, 10, LockMode::Exclusive);
    assert_eq!(held(), 1, "adjacent locks were not merged");
    lock(5, 5, LockMode::Shared);
    assert_eq!(held(), 3);
    other.flock(LockMode::Shared, Wait::No).unwrap();
    assert_eq!(held(), 4);
    drop(other);
    assert_eq!(held(), 3);
    file.unlock(LockRange::WHOLE, LockOwner::Process(1)).unwrap();
    assert_eq!(held(), 0);
}
