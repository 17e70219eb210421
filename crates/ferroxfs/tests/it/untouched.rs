//! Tests that a volume open for reading never writes, flushes or discards, whatever its state.

use std::sync::Arc;

use ferroxfs::OpenOptions;
use ferroxfs::device::BlockDevice;
use ferroxfs::error::DiskAddr;
use ferroxfs::raw::format::BlockKind;
use xfs_testkit::{Image, RecordingDevice, golden};

use super::everything::read_everything;

/// Reads everything in an image through a writable device, and checks that the device gets no
/// writing request. Returns whether the volume could be opened.
fn check_untouched(image: Image) -> bool {
    let device = Arc::new(RecordingDevice::new(Arc::new(image)));
    assert!(!device.is_read_only(), "the device refuses writes, so the test proves nothing");
    for no_recovery in [false, true] {
        let options = OpenOptions::new().no_recovery(no_recovery).cache_bytes(1 << 20);
        let devices = options.with_devices(Arc::<RecordingDevice>::clone(&device), None);
        drop(devices.describe());
        if let Ok(volume) = devices.open() {
            read_everything(&volume);
            drop(volume.inode_paths(volume.root().map_or(0.into(), |root| root.number())));
        }
    }
    assert_eq!(device.recording().requests(), []);
    OpenOptions::new().no_recovery(true).open_device(device).is_ok()
}

/// Checks I1 of the crate: no byte of a volume opened for reading is written.
#[test]
fn clean_volume_is_not_written() {
    assert!(check_untouched(golden()));
}

#[test]
fn damaged_volume_is_not_repaired() {
    let mut image = golden();
    // One of a hundred sectors after the headers of the first group.
    for sector in (100..image.length_bytes() as u64 / 512).step_by(100) {
        image.replace(DiskAddr(sector), &[0x5a; 512]);
    }
    assert!(check_untouched(image));
}

#[test]
fn volume_that_needs_repair_is_not_marked() {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| sector[219] |= 1 << 4);
    assert!(check_untouched(image));
}

#[test]
fn unreadable_log_is_not_zeroed() {
    let mut image = golden();
    image.truncate(image.length_bytes() / 2);
    assert!(check_untouched(image));
}

#[test]
fn refused_volume_is_not_written() {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| sector[216] = 0x80);
    assert!(!check_untouched(image));
}
