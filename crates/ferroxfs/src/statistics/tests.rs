use xfs_dir::SetMode;
use xfs_trans::testing::make_with;

use crate::OpenOptions;
use crate::writing::{Creation, NewKind, RenameMode};

const PLAIN: Creation = Creation { mode: 0o600, uid: 0, gid: 0, umask: 0 };

#[test]
fn what_is_done_by_name_is_counted() {
    let options = OpenOptions::new().writable(true);
    let volume = options.with_devices(make_with(""), None).writable_volume().unwrap();
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
fn a_rename_counts_the_entries_that_come_and_go() {
    let options = OpenOptions::new().writable(true);
    let volume = options.with_devices(make_with(""), None).writable_volume().unwrap();
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
