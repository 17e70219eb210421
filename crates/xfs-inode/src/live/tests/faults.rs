//! Runs operations on a device whose n-th request fails, for increasing n. Checks that the
//! operations fail only if the device has failed a request, and that the volume is consistent after
//! a crash and recovery.

use std::sync::Arc;

use xfs_buffer::{Error, Result};
use xfs_device::SharedDevice;
use xfs_format::inode::ForkKind;
use xfs_format::{DiskAddr, FileBlock};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};
use xfs_trans::Journal;
use xfs_trans::testing;

use super::volume::{Volume, now};
use crate::extent_map::Mapping;
use crate::live::{ExchangedRange, KeepSize, LiveInode, SharedRange};

/// Performs operations of every kind on two files.
fn work(journal: &Arc<Journal>, [left, right]: [&Arc<LiveInode>; 2]) -> Result<()> {
    let whole = SharedRange { from: 0, to: 0, length_bytes: 128 << 10 };
    left.write_at(journal, 0, &vec![1; 128 << 10], now())?;
    LiveInode::reflink(journal, left, right, whole, now())?;
    left.write_at(journal, 5000, &vec![2; 20_000], now())?;
    journal.force_all()?;
    right.punch(journal, 8192..40_960, now())?;
    right.insert(journal, 16_384..32_768, now())?;
    LiveInode::exchange(
        journal,
        [left, right],
        ExchangedRange { starts: [0; 2], length_bytes: None },
        now(),
    )?;
    right.allocate(journal, 0..200_000, KeepSize::No, now())?;
    left.truncate(journal, 10_000, now())?;
    journal.force_all()?;
    right.inactivate(journal)
}

fn check_fault(kind: RequestKind, index: u64) -> bool {
    let made = testing::make_with("-b size=1024 -l size=16m");
    let failing = Arc::new(FailingDevice::new(Arc::clone(&made), index));
    let device: SharedDevice = failing.clone();
    let volume = Volume::of_threads(device, 0);
    let files = [volume.file(), volume.file()];
    volume.journal.force_all().unwrap();
    failing.set_fault(Some(Fault { kind, nth: index, persistence: Persistence::Once }));
    let done = work(&volume.journal, [&files[0], &files[1]]);
    let was_hit = failing.failures() > 0;
    assert!(done.is_ok() || was_hit, "{kind:?} {index}: {done:?}");
    failing.set_fault(None);
    // The device now has the state after a crash.
    let crashed = testing::crashed(&made);
    drop(volume);
    Volume::recover(crashed).unmount();
    was_hit
}

fn check_faults(kind: RequestKind) {
    let mut index = 1;
    while check_fault(kind, index) {
        index += 1 + index / 4;
    }
    assert!(index > 2, "the work makes requests of this kind: {index}");
}

#[test]
fn failed_write_is_reported_and_leaves_a_consistent_volume() {
    check_faults(RequestKind::Write);
}

#[test]
fn failed_flush_is_reported_and_leaves_a_consistent_volume() {
    check_faults(RequestKind::Flush);
}

#[test]
fn failed_write_of_contents_names_its_address() {
    let failing = Arc::new(FailingDevice::new(testing::make_with("-b size=4k"), 1));
    let volume = Volume::of_threads(failing.clone(), 0);
    let (live, journal) = (volume.file(), &volume.journal);
    live.write_at(journal, 0, &[1; 5 * 4096], now()).unwrap();
    journal.force_all().unwrap();
    let found = live.inode().find(journal.cache(), ForkKind::Data, FileBlock(0)).unwrap();
    let Mapping::Extent(extent) = found else { panic!("{found:?}") };
    let start = journal.geometry().block_disk_addr(extent.start).unwrap();
    let fault = |kind| Some(Fault { kind, nth: 1, persistence: Persistence::Once });
    failing.set_fault(fault(RequestKind::Write));
    let written = live.write_at(journal, 3 * 4096 + 512, &[2; 1024], now()).map(drop);
    failing.set_fault(fault(RequestKind::Read));
    let read = live.inode().read_at(journal.cache(), 2 * 4096, &mut [0; 4096]).map(drop);
    for (failed, sectors, length) in [(written, 3 * 8 + 1, 1024), (read, 2 * 8, 4096)] {
        let Err(Error::Io(error)) = failed else { panic!("{failed:?}") };
        assert_eq!((error.at, error.length_bytes), (DiskAddr(start.0 + sectors), length));
    }
}
