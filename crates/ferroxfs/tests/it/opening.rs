//! Tests of opening volumes: the state that an opened volume reports, and the volumes that are
//! refused.

use std::sync::Arc;

use ferroxfs::error::DiskAddr;
use ferroxfs::error::Unsupported;
use ferroxfs::raw::format::BlockKind;
use ferroxfs::{Error, OpenError, OpenOptions};
use xfs_testkit::{Image, golden};

use super::volume;

/// Byte offset of the version in the superblock.
const VERSION: usize = 100;
const RO_COMPAT: usize = 212;
const INCOMPAT: usize = 216;
const NEEDS_REPAIR: u8 = 1 << 4;

fn edited(offset: usize, change: impl FnOnce(&mut u8)) -> Image {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| change(&mut sector[offset]));
    image
}

fn check_refused(image: Image, reason: Unsupported) {
    match OpenOptions::new().open_device(Arc::new(image)) {
        Err(OpenError::Volume(Error::Unsupported(found))) => assert_eq!(found, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clean_volume_is_reported_clean() {
    let volume = volume();
    assert_eq!(volume.staleness(), None);
    assert!(volume.log_state().unwrap().clean);
    assert_eq!(volume.superblock().label.as_bytes(), b"golden");
}

#[test]
fn counters_of_a_clean_volume_equal_its_superblock() {
    let volume = volume();
    let (space, superblock) = (volume.space().unwrap(), volume.superblock());
    assert_eq!(space.free_blocks, superblock.free_blocks);
    assert_eq!((space.inodes, space.free_inodes), (superblock.inode_count, superblock.free_inodes));
}

#[test]
fn unsupported_formats_are_refused_by_name() {
    check_refused(
        edited(VERSION + 1, |byte| *byte = *byte & 0xf0 | 3),
        Unsupported::Version { version: 3 },
    );
    check_refused(edited(INCOMPAT, |byte| *byte = 0x80), Unsupported::UnknownIncompat(1 << 31));
    check_refused(edited(INCOMPAT + 3, |byte| *byte |= NEEDS_REPAIR), Unsupported::NeedsRepair);
}

#[test]
fn volume_that_needs_repair_is_readable_on_request() {
    let image = edited(INCOMPAT + 3, |byte| *byte |= NEEDS_REPAIR);
    let devices = OpenOptions::new().no_recovery(true).with_devices(Arc::new(image), None);
    assert!(devices.open().unwrap().root().is_ok());
}

#[test]
fn unknown_read_only_features_allow_reading() {
    let image = edited(RO_COMPAT, |byte| *byte |= 0x80);
    assert!(super::open(image).lookup("/short/a").is_ok());
}

#[test]
fn refused_volume_is_described() {
    let image = edited(INCOMPAT, |byte| *byte = 0x80);
    let description = OpenOptions::new().with_devices(Arc::new(image), None).describe().unwrap();
    assert_eq!(description.refusal, Some(Unsupported::UnknownIncompat(1 << 31)));
    assert_eq!(description.superblock.label.as_bytes(), b"golden");
}
