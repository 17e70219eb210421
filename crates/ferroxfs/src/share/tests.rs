//! What the reading operations write that others read: counted, not claimed.

#![cfg(feature = "count")]

use std::ffi::OsStr;
use std::sync::Arc;

use xfs_sync::{Counts, thread_counts};
use xfs_testkit::golden;

use crate::{OpenOptions, Volume};

fn volume() -> Volume {
    let devices = OpenOptions::new().with_devices(Arc::new(golden()), None);
    devices.volume().unwrap()
}

/// Runs an operation twice, so that what it needs is in memory, and counts the second run.
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

#[test]
fn a_lookup_shares_nothing() {
    check_shares_nothing(|volume| drop(volume.lookup("/deep/1/2/3/4/5/6/7/8").unwrap()));
    check_shares_nothing(|volume| drop(volume.lookup("/node/a-longer-node-entry-77").unwrap()));
}

#[test]
fn opening_and_reading_a_file_shares_nothing() {
    check_shares_nothing(|volume| {
        let file = volume.open_file("/files/original").unwrap();
        assert_eq!(file.read_at(0, &mut [0; 4096]).unwrap(), 4096);
    });
}

#[test]
fn listing_a_directory_shares_nothing() {
    check_shares_nothing(|volume| {
        for entry in volume.read_dir("/many").unwrap() {
            drop(entry.unwrap().node().unwrap());
        }
    });
}

#[test]
fn reading_an_attribute_shares_nothing() {
    check_shares_nothing(|volume| {
        let node = volume.lookup("/attr-node").unwrap();
        drop(node.attribute(OsStr::new("user.node-attribute-99")).unwrap());
    });
}

#[test]
fn walking_the_whole_volume_shares_nothing() {
    check_shares_nothing(|volume| {
        assert!(volume.walk("/").unwrap().all(|entry| entry.is_ok()));
    });
}
