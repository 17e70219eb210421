//! Tests that reading operations write no memory that other threads read.

#![cfg(feature = "count")]

use std::ffi::OsStr;
use std::sync::Arc;

use xfs_sync::{Counts, thread_counts};
use xfs_testkit::golden;
use xfs_trans::testing::make_with;

use crate::{Credentials, OpenOptions, Volume};

fn volume() -> Volume {
    let devices = OpenOptions::new().with_devices(Arc::new(golden()), None);
    devices.open().unwrap()
}

/// Runs an operation twice. Returns the counts of writes to shared memory in the second run, in
/// which everything is cached.
fn count(operation: impl Fn(&Volume)) -> Counts {
    let volume = volume();
    operation(&volume);
    let before = thread_counts();
    operation(&volume);
    thread_counts().since(&before)
}

fn check_shares_nothing(operation: impl Fn(&Volume)) {
    let counts = count(operation);
    assert_eq!(counts.volume.total(), 0, "{counts:?}");
    assert_eq!(counts.group.total(), 0, "{counts:?}");
}

/// Checks I2 of `ferroxfs::volume_ref`: a lookup writes no memory that the whole volume or a whole
/// group shares.
#[test]
fn lookup_writes_nothing_shared() {
    check_shares_nothing(|volume| drop(volume.lookup("/deep/1/2/3/4/5/6/7/8").unwrap()));
    check_shares_nothing(|volume| drop(volume.lookup("/node/a-longer-node-entry-77").unwrap()));
}

/// Returns the counts of a lookup of a cached path. Each per-CPU slot has a cache of its own, so a
/// lookup after a move to another processor costs more: the cheapest of several lookups counts.
fn walk(find: &dyn Fn() -> crate::Result<crate::Node>) -> Counts {
    let counts = (0..16).map(|_| {
        let before = thread_counts();
        drop(find().unwrap());
        thread_counts().since(&before)
    });
    let all = |counts: &Counts| {
        let scopes = [counts.slot, counts.object, counts.group, counts.volume];
        scopes.map(|scope| scope.total()).iter().sum::<u64>()
    };
    counts.min_by_key(all).expect("there are several lookups")
}

/// A user's permissions along a path are read from the cached inodes. Checks that a lookup by the
/// user writes no more shared memory than a lookup by root.
#[test]
fn cached_path_costs_a_user_no_more_than_root() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    volume.create_dir_all("/a/b/c").unwrap();
    let of_user = volume.as_user(Credentials::new(1000, 1000));
    let root = walk(&|| volume.lookup("/a/b/c"));
    let user = walk(&|| of_user.lookup("/a/b/c"));
    assert_eq!(user, root);
    assert_eq!(user.volume.total() + user.group.total(), 0, "{user:?}");
}

/// A lookup that does not follow the last symbolic link uses the dentry cache too. Checks that such
/// a lookup writes no more shared memory than a lookup of a file.
#[test]
fn lookup_of_a_link_itself_costs_no_more_than_a_file() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    volume.create_dir_all("/a/b/c").unwrap();
    volume.symlink("c", "/a/b/link").unwrap();
    let followed = walk(&|| volume.lookup("/a/b/c"));
    assert_eq!(walk(&|| volume.lookup_no_follow("/a/b/c")), followed);
    assert_eq!(walk(&|| volume.lookup_no_follow("/a/b/link")), followed);
    assert!(volume.symlink_metadata("/a/b/link").unwrap().is_symlink());
    assert!(volume.symlink_metadata("/a/b/link/").unwrap().is_dir());
}

#[test]
fn open_and_read_of_a_file_write_nothing_shared() {
    check_shares_nothing(|volume| {
        let file = volume.open_file("/files/original").unwrap();
        assert_eq!(file.read_at(&mut [0; 4096], 0).unwrap(), 4096);
    });
}

#[test]
fn listing_of_a_directory_writes_nothing_shared() {
    check_shares_nothing(|volume| {
        for entry in volume.read_dir("/many").unwrap() {
            drop(entry.unwrap().node().unwrap());
        }
    });
}

#[test]
fn read_of_an_attribute_writes_nothing_shared() {
    check_shares_nothing(|volume| {
        let node = volume.lookup("/attr-node").unwrap();
        drop(node.attribute(OsStr::new("user.node-attribute-99")).unwrap());
    });
}

#[test]
fn walk_of_the_volume_writes_nothing_shared() {
    check_shares_nothing(|volume| {
        assert!(volume.walk("/").unwrap().all(|entry| entry.is_ok()));
    });
}
