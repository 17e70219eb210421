//! What is open for reading is not written, flushed or discarded, whatever state it is in.

use std::sync::Arc;

use ferroxfs::format::{BlockKind, DiskAddr};
use ferroxfs::{BlockDevice, OpenOptions};
use xfs_testkit::{Image, RecordingDevice, golden};

use super::everything::read_everything;

/// Reads everything of a volume on a device that could be written, and tells whether it opened.
fn check_untouched(image: Image) -> bool {
    let device = Arc::new(RecordingDevice::new(Arc::new(image)));
    assert!(!device.is_read_only(), "a device that refuses writes shows nothing");
    for no_recovery in [false, true] {
        let options = OpenOptions::new().no_recovery(no_recovery).cache_bytes(1 << 20);
        let devices = options.with_devices(Arc::<RecordingDevice>::clone(&device), None);
        drop(devices.describe());
        if let Ok(volume) = devices.volume() {
            read_everything(&volume);
            drop(volume.inode_paths(volume.root().map_or(0.into(), |root| root.number())));
        }
    }
    assert_eq!(device.recording().requests(), []);
    OpenOptions::new().no_recovery(true).with_devices(device, None).volume().is_ok()
}

#[test]
fn a_clean_volume_is_not_written() {
    assert!(check_untouched(golden()));
}

#[test]
fn a_volume_with_damage_is_not_mended() {
    let mut image = golden();
    // Every hundredth sector behind the headers of the first group.
    for sector in (100..image.length_bytes() as u64 / 512).step_by(100) {
        image.replace(DiskAddr(sector), &[0x5a; 512]);
    }
    assert!(check_untouched(image));
}

#[test]
fn a_volume_that_needs_repair_is_not_marked() {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| sector[219] |= 1 << 4);
    assert!(check_untouched(image));
}

#[test]
fn a_log_that_cannot_be_read_is_not_zeroed() {
    let mut image = golden();
    image.truncate(image.length_bytes() / 2);
    assert!(check_untouched(image));
}

#[test]
fn a_volume_that_is_refused_is_not_written() {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| sector[216] = 0x80);
    assert!(!check_untouched(image));
}
