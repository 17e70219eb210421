//! Tests of freeing realtime extents: chains of many steps, and several records in one extent.

use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{File, Volume};
use xfs_trans::testing::superblock;

use super::realtime_writing::{Disks, create, in_memory};

const LARGE_BYTES: u64 = 16 << 30;

fn allocate(file: &File, start: u64, end: u64) {
    file.change_range(start..end, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
}

/// Closes the volume. Checks that all of its realtime extents are free.
fn close_empty(disks: &Disks, volume: Volume) {
    volume.close().unwrap();
    let superblock = superblock(&disks.data);
    assert_eq!(superblock.free_realtime_extents, superblock.realtime_extents);
}

/// Allocates 8 GiB in extents of one block, which have bits in 64 blocks of the bitmap, and frees
/// them by a truncation.
#[test]
fn truncation_of_a_large_realtime_file_frees_all_of_its_extents() {
    let disks = Disks::make_sized(4, LARGE_BYTES);
    let volume = disks.open();
    let file = create(&volume, "large");
    allocate(&file, 0, 8 << 30);
    // From now on the bitmap takes new space in the log.
    volume.sync().unwrap();
    file.set_len(0).unwrap();
    drop(file);
    close_empty(&disks, volume);
}

/// Removes a file of 8 GiB, once by itself and once while it is open, so that a recovery frees it.
#[test]
fn removal_and_recovery_of_a_large_realtime_file_free_all_of_its_extents() {
    let disks = Disks::make_sized(4, LARGE_BYTES);
    let volume = disks.open();
    let file = create(&volume, "large");
    allocate(&file, 0, 8 << 30);
    volume.remove_file("/large").unwrap();
    volume.sync().unwrap();
    let crashed = Disks { data: in_memory(&*disks.data), realtime: disks.realtime.clone() };
    drop(file);
    close_empty(&disks, volume);
    let recovered = crashed.open();
    close_empty(&crashed, recovered);
}
