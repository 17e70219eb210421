//! Offsets of the attribute fork: ferroxfs must choose those that the kernel chooses for inodes of
//! 512 bytes.

use xfs_format::inode::{ForkFormat, InodeCore};
use xfs_format::{DiskAddr, Geometry, InodeNumber, StructureAddress, Superblock};

use super::{DataUse, attr_room, offset_for, usual_offset};
use crate::testing::EMPTY;

fn geometry() -> Geometry {
    let sector = include_bytes!("../../../../testdata/inodes/new.superblock");
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn core(format: ForkFormat, fork_offset: u8) -> InodeCore {
    let core = InodeCore::decode(EMPTY, InodeNumber(0), &geometry()).unwrap();
    InodeCore { data_format: format, fork_offset, ..core }
}

fn check(format: ForkFormat, data: (u8, usize), attr_bytes: usize, expected: Option<u8>) {
    let (fork_offset, bytes) = data;
    let data = DataUse { format, bytes };
    let core = core(format, fork_offset);
    assert_eq!(offset_for(&core, data, attr_bytes, &geometry()), expected);
    assert_eq!(attr_room(&core, data, &geometry()) >= attr_bytes, expected.is_some());
}

#[test]
fn default_offset_equals_the_kernels() {
    assert_eq!(usual_offset(ForkFormat::Extents, &geometry()), 24);
    assert_eq!(usual_offset(ForkFormat::Device, &geometry()), 1);
}

#[test]
fn offset_is_as_high_as_the_attributes_allow() {
    // 336 bytes in total; the attributes leave the rest to data.
    check(ForkFormat::Extents, (0, 0), 50, Some(35));
    check(ForkFormat::Extents, (0, 0), 4, Some(37));
    check(ForkFormat::Extents, (0, 16), 280, Some(7));
    check(ForkFormat::Extents, (0, 16), 281, None);
    check(ForkFormat::Local, (0, 100), 240, None);
    check(ForkFormat::Local, (0, 100), 232, Some(13));
}

#[test]
fn offset_of_attributes_that_fit_does_not_change() {
    check(ForkFormat::Extents, (24, 16), 144, Some(24));
    check(ForkFormat::Extents, (24, 16), 145, Some(23));
    check(ForkFormat::Extents, (24, 192), 145, None);
    check(ForkFormat::Extents, (24, 16), 10, Some(24));
}

#[test]
fn offset_beside_a_btree_root_does_not_change() {
    check(ForkFormat::Btree, (24, 52), 144, Some(24));
    check(ForkFormat::Btree, (24, 52), 145, None);
    check(ForkFormat::Btree, (0, 68), 100, Some(29));
    // 20 extents become a root of the smallest size.
    check(ForkFormat::Extents, (0, 320), 280, Some(7));
}

#[test]
fn offset_after_a_device_number_is_fixed() {
    check(ForkFormat::Device, (0, 4), 328, Some(1));
    check(ForkFormat::Device, (0, 4), 329, None);
}
