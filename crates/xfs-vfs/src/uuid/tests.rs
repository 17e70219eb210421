//! Tests of the two UUIDs in a superblock: that of the volume, and that of its metadata.

use xfs_format::{StructureAddress, Superblock};

use super::*;

/// Changes the UUID of the volume in a superblock. Checks that the UUID with which metadata blocks
/// are marked does not change.
#[test]
fn changed_uuid_keeps_that_of_the_metadata_in_the_superblock() {
    let mut sector = include_bytes!("../../../../testdata/inodes/new.superblock").to_vec();
    let decode = |sector: &[u8]| {
        Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).expect("it was sealed")
    };
    let meta_uuid = decode(&sector).geometry.meta_uuid;
    let stored = |sector: &[u8]| {
        let (disk, _) = SuperblockDisk::ref_from_prefix(sector).unwrap();
        let incompat = IncompatFeatures::from_bits_retain(disk.incompat.get());
        let has_both = incompat.contains(IncompatFeatures::META_UUID);
        (has_both, Uuid::from_bytes(disk.uuid), Uuid::from_bytes(disk.meta_uuid))
    };
    let new = Uuid::from_bytes(*b"another identity");
    put_uuid(&mut sector, new, meta_uuid);
    assert_eq!(stored(&sector), (true, new, meta_uuid));
    assert_eq!((decode(&sector).uuid, decode(&sector).geometry.meta_uuid), (new, meta_uuid));
    // With the old UUID again, one field is enough.
    put_uuid(&mut sector, meta_uuid, meta_uuid);
    assert_eq!(stored(&sector), (false, meta_uuid, Uuid::nil()));
    assert_eq!((decode(&sector).uuid, decode(&sector).geometry.meta_uuid), (meta_uuid, meta_uuid));
}
