//! Tests of the library over the golden image, intact and damaged, and over volumes that the tests
//! make.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod api;
mod blank_log;
mod buffered;
mod damage;
mod detached;
mod discards;
mod everything;
mod examples;
mod failing_reads;
mod files;
mod flags;
mod freed_cluster;
mod frozen;
mod full;
mod growing;
mod iterators;
mod largest;
mod lists;
mod locks;
mod names;
mod opening;
mod paths;
mod permissions;
mod privileges;
mod quota;
mod quota_counts;
mod quota_limits;
mod quota_metadata;
mod quota_realtime;
mod realtime;
mod realtime_discards;
mod realtime_groups;
mod realtime_growth;
mod realtime_space;
mod realtime_writing;
mod reproducible;
mod shrinking;
mod small_log;
mod syncing;
mod threads;
mod tree;
mod unlinked;
mod untouched;
mod upkeep;
mod writing;
mod zoned;

use std::sync::Arc;

use ferroxfs::InodeNumber;
use ferroxfs::device::{Durability, SharedDevice};
use ferroxfs::raw::format::{Lsn, inode};
use ferroxfs::{OpenOptions, Volume};
use xfs_testkit::{Image, golden};

/// Opens the golden image.
fn volume() -> Volume {
    open(golden())
}

/// Writes `value` into the core of an inode on a closed volume, at byte `at` of the core, and
/// corrects the checksum.
fn forge(device: &SharedDevice, number: InodeNumber, at: usize, value: u32) {
    let devices = OpenOptions::new().with_devices(Arc::clone(device), None);
    let volume = devices.open().expect("the image opens");
    let (geometry, place) = (volume.geometry(), volume.geometry().inode_location(number).unwrap());
    let offset = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes);
    let mut bytes = vec![0; geometry.inode_size as usize];
    device.read_at(&mut bytes, offset).unwrap();
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    let lsn = Lsn(u64::from_be_bytes(bytes[112..120].try_into().unwrap()));
    inode::seal(&mut bytes, lsn);
    device.write_at(&bytes, offset, Durability::Cached).unwrap();
}

fn open(image: Image) -> Volume {
    let devices = OpenOptions::new().with_devices(Arc::new(image), None);
    devices.open().expect("the image opens")
}
