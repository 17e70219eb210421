//! The superblock is found although the first sector is damaged.

use xfs_evidence::{SuperblockSource, find_superblock};
use xfs_format::{BlockKind, DiskAddr};
use xfs_testkit::golden;

use crate::support::superblock;

#[test]
fn sound_superblock_is_taken_as_it_is() {
    let image = golden();
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Primary);
    assert_eq!(found.superblock, superblock(&image));
}

#[test]
fn zeroed_superblock_is_built_from_the_copy() {
    let mut image = golden();
    let whole = superblock(&image);
    image.replace(DiskAddr(0), &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Copies { agreeing: 1, found: 1 });
    assert_eq!(found.superblock.geometry, whole.geometry);
    assert_eq!(found.superblock.root_inode, whole.root_inode);
    assert_eq!(found.superblock.log_start, whole.log_start);
    assert!(!found.superblock.in_progress);
}

#[test]
fn superblock_with_a_wrong_byte_keeps_its_label_and_counters() {
    let mut image = golden();
    let whole = superblock(&image);
    image.edit_with(DiskAddr(0), 512, |bytes| bytes[84] ^= 0x40);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.superblock.geometry, whole.geometry);
    assert_eq!(found.superblock.label, whole.label);
    assert_eq!(found.superblock.free_blocks, whole.free_blocks);
}

#[test]
fn group_count_that_no_copy_states_is_corrected() {
    let mut image = golden();
    let whole = superblock(&image);
    // One group of 32 MiB: legal by itself, and its checksum is right.
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |bytes| {
        bytes[84..88].copy_from_slice(&16_640_u32.to_be_bytes());
    });
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.superblock.geometry, whole.geometry);
}

#[test]
fn device_without_a_superblock_gives_none() {
    let device = xfs_device::MemoryDevice::new(40 << 20);
    assert!(find_superblock(&device).unwrap().is_none());
}
