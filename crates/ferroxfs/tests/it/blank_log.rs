//! Tests of volumes whose log a tool has overwritten with zeros.

use std::sync::Arc;

use ferroxfs::device::SharedDevice;
use ferroxfs::error::Check;
use ferroxfs::{Error, OpenError, OpenOptions, Volume};
use xfs_device::Durability;
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice};
use xfs_trans::testing::{is_clean, make, superblock};

fn open(device: &SharedDevice) -> Result<Volume, OpenError> {
    let options = OpenOptions::new().write(true);
    options.open_device(Arc::clone(device))
}

fn reading(device: &SharedDevice, no_recovery: bool) -> Result<Volume, OpenError> {
    let options = OpenOptions::new().no_recovery(no_recovery);
    options.open_device(Arc::clone(device))
}

/// Overwrites the log with zeros, as dd would.
fn zero_log(device: &SharedDevice) {
    let superblock = superblock(device);
    let geometry = &superblock.geometry;
    let start = geometry.block_disk_addr(superblock.log_start).unwrap();
    let bytes = u64::from(superblock.log_blocks) * u64::from(geometry.block_size);
    device.write_at(&vec![0; bytes as usize], start.0 * 512, Durability::Durable).unwrap();
}

#[test]
fn new_volume_with_a_zeroed_log_is_writable() {
    let device = make();
    zero_log(&device);
    assert!(reading(&device, false).unwrap().log_state().unwrap().is_blank);
    let volume = open(&device).unwrap();
    volume.write("/file", "contents").unwrap();
    volume.close().unwrap();
    assert!(is_clean(&device));
    let volume = reading(&device, false).unwrap();
    assert!(!volume.log_state().unwrap().is_blank);
    assert_eq!(volume.read("/file").unwrap(), b"contents");
}

#[test]
fn power_cut_after_a_zeroed_log_is_recovered() {
    let device = make();
    zero_log(&device);
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice)).unwrap();
    volume.write("/file", "contents").unwrap();
    volume.sync().unwrap();
    let synced = recording.position();
    volume.write("/other", "contents").unwrap();
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    let mut seen = 0;
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    for cut in cuts.all(if is_long { 3 } else { 2 }) {
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        let volume = open(&cut_off).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        if cut.point() >= synced {
            assert_eq!(volume.read("/file").unwrap(), b"contents", "cut {cut}");
        }
        volume.close().unwrap();
        assert!(is_clean(&cut_off), "cut {cut}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

/// A volume that was used before has metadata with log sequence numbers. A zeroed log starts again
/// with lower numbers, so recovery would take the old metadata for newer than every new record.
/// Such a volume must be refused.
#[test]
fn used_volume_with_a_zeroed_log_is_refused() {
    let device = make();
    for round in 0..40 {
        let volume = open(&device).unwrap();
        volume.write("/file", vec![7; 100_000]).unwrap();
        volume.create_dir(format!("/{round}")).unwrap();
        volume.close().unwrap();
    }
    zero_log(&device);
    for opened in [open(&device), reading(&device, false)] {
        let refused = opened.expect_err("opened with a zeroed log");
        let OpenError::Log(Error::Corrupt(corruption)) = &refused else { panic!("{refused:?}") };
        assert!(matches!(corruption.check(), Check::LsnAheadOfLog { .. }), "{corruption}");
    }
    assert_eq!(reading(&device, true).unwrap().read("/file").unwrap(), vec![7; 100_000]);
}
