//! Checks that writes are torn where the crash model allows it, and nowhere else.

use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};

use super::Atomicity;
use crate::golden::golden;

/// Compares the ends of a write's units with `ends`, and checks that each unit begins where the
/// previous one ends.
fn check(atomicity: &Atomicity, offset: u64, bytes: &[u8], ends: &[usize]) {
    let starts = [0].iter().chain(ends);
    let expected: Vec<_> = starts.zip(ends).map(|(start, end)| *start..*end).collect();
    assert_eq!(atomicity.units(offset, bytes), expected);
}

#[test]
fn metadata_buffer_is_whole_and_log_record_is_torn() {
    let atomicity = Atomicity::default().torn(4096..8192);
    check(&atomicity, 0, &[1; 2048], &[2048]);
    check(&atomicity, 8192, &[1; 2048], &[2048]);
    check(&atomicity, 4096, &[1; 1536], &[512, 1024, 1536]);
    check(&atomicity, 4096, &[], &[]);
}

#[test]
fn unaligned_write_is_torn_at_sectors_of_the_device() {
    let atomicity = Atomicity::default().torn(4000..8192);
    check(&atomicity, 4200, &[1; 1000], &[408, 920, 1000]);
    check(&atomicity, 3900, &[1; 300], &[100, 196, 300]);
}

#[test]
fn write_across_the_end_of_the_log_is_torn_up_to_that_end() {
    let atomicity = Atomicity::default().torn(0..1024).torn(2048..2560);
    check(&atomicity, 512, &[1; 2560], &[512, 1536, 2048, 2560]);
}

#[test]
fn inode_cluster_is_torn_between_inodes() {
    let mut cluster = vec![0; 2048];
    cluster.chunks_mut(512).for_each(|inode| inode[..2].copy_from_slice(b"IN"));
    check(&Atomicity::default(), 0, &cluster, &[512, 1024, 1536, 2048]);
    cluster[1024] = b'X';
    check(&Atomicity::default(), 0, &cluster, &[2048]);
}

#[test]
fn log_of_a_volume_is_torn_and_its_surroundings_are_not() {
    let image = golden();
    let mut sector = vec![0; 512];
    image.read_at(&mut sector, 0).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let atomicity = Atomicity::of(&superblock);
    let geometry = &superblock.geometry;
    let start = geometry.block_disk_addr(superblock.log_start).unwrap().byte_offset().unwrap();
    let end = start + geometry.blocks_to_bytes(superblock.log_blocks.into()).unwrap();
    check(&atomicity, start, &[1; 1024], &[512, 1024]);
    check(&atomicity, end - 512, &[1; 2048], &[512, 2048]);
    check(&atomicity, start - 1024, &[1; 1024], &[1024]);
}
