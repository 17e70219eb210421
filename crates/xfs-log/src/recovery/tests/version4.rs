//! Replay of the log of a version 4 volume, which Linux 6.1 left dirty.

use std::sync::Arc;

use xfs_device::{MemoryDevice, SharedDevice};
use xfs_format::log_item::{HostOrder, LOG_CORE_BYTES_V4};
use xfs_format::log_record::LogVersion;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::golden_version_4;

use super::super::inode::is_flushed_later;
use super::super::{replay, replay_all};
use crate::device::LogDevice;
use crate::find_head_and_tail;

/// Returns the golden volume of version 4 and its superblock.
fn volume() -> (SharedDevice, Superblock) {
    let image = golden_version_4();
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let superblock = Superblock::decode(&bytes, StructureAddress::Disk(DiskAddr(0))).unwrap();
    (Arc::new(MemoryDevice::from_bytes(&bytes).unwrap()), superblock)
}

#[test]
fn log_of_version_4_is_replayed_and_marked_clean_in_its_own_version() {
    let (device, superblock) = volume();
    let log = LogDevice::new(Arc::clone(&device), &superblock).unwrap();
    assert_eq!(log.geometry().version, LogVersion::V1);
    let replayed = replay(Arc::clone(&device), &log, &superblock).unwrap();
    let summary = *replayed.summary();
    assert!(summary.items > 100 && summary.skipped == 0, "{summary:?}");
    replayed.write_back(&log).unwrap();
    let state = find_head_and_tail(&log).unwrap();
    assert!(state.clean);
    let (header, _) = log.read_record(state.last_record).unwrap();
    assert_eq!((header.version, header.header_blocks()), (LogVersion::V1, 1));
}

#[test]
fn replay_of_version_4_repeats_without_a_change() {
    let (device, superblock) = volume();
    let log = LogDevice::new(Arc::clone(&device), &superblock).unwrap();
    let first = replay_all(device, &log, &superblock).unwrap();
    // The log is read from the device, and replayed over its own result.
    let second = replay_all(first.device(), &log, &superblock).unwrap();
    assert_eq!(first.superblock(), second.superblock());
    let length = usize::try_from(superblock.geometry.data_bytes()).unwrap();
    let [mut one, mut other] = [vec![0; length], vec![0; length]];
    first.device().read_at(&mut one, 0).unwrap();
    second.device().read_at(&mut other, 0).unwrap();
    assert!(one == other, "a second replay changes the volume");
}

/// Checks `is_flushed_later` for a v4 inode. On disk it has counted `stored` writes in place, and
/// its logged core `logged` writes. The result must be `is_later`.
fn check_flushes(stored: u16, logged: u16, is_later: bool) {
    let mut inode = [0; 256];
    inode[30..32].copy_from_slice(&stored.to_be_bytes());
    let mut core = [0; LOG_CORE_BYTES_V4];
    core[30..32].copy_from_slice(&logged.swap_bytes().to_be_bytes());
    assert_eq!(is_flushed_later(&inode, &core, HostOrder::Little), is_later, "{stored} {logged}");
}

#[test]
fn inode_that_was_written_after_it_was_logged_is_kept() {
    check_flushes(0, 0, false);
    check_flushes(7, 7, false);
    check_flushes(7, 8, false);
    check_flushes(8, 7, true);
    check_flushes(u16::MAX, u16::MAX - 1, true);
    // The count starts again after its highest value.
    check_flushes(u16::MAX, 1, false);
    check_flushes(u16::MAX - 1, 1, true);
}
