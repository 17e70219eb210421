//! Walks along a btree that the kernel wrote, and along btrees that loop, that contradict
//! themselves or the inode, or that do not end. Each damage must end the walk with an error.

use xfs_buffer::{Error, Result};
use xfs_format::btree::BtreeCheck;
use xfs_format::extent::{Extent, ExtentCheck};
use xfs_format::inode::ForkKind;
use xfs_format::{Check, FileBlock, FsBlock};

use crate::testing::{FRAGMENTS, FRAGMENTS_LEAF, Volume, changed, failed_check, number};

/// The block number of the only leaf of the kernel's btree.
const LEAF: u64 = 31;
/// The offset in the inode, in bytes, of the low byte of the root's level.
const ROOT_LEVEL: usize = 177;
/// The offset in the inode, in bytes, of the low byte of the root's number of children.
const ROOT_COUNT: usize = 179;
/// The offset in the inode, in bytes, of the root's first key.
const ROOT_KEYS: usize = 180;
/// The offset in the inode, in bytes, of the root's first pointer. The fork of 192 bytes has room
/// for eleven keys.
const ROOT_POINTERS: usize = ROOT_KEYS + 11 * 8;

fn walk(volume: &Volume) -> Result<Vec<Extent>, Error> {
    let cache = volume.cache();
    let inode = volume.read(FRAGMENTS)?;
    inode.extents(&cache, ForkKind::Data).collect()
}

fn check_walk(volume: &Volume, expected: impl Into<Check>) {
    assert_eq!(failed_check(walk(volume)), expected.into());
    let inode = volume.read(FRAGMENTS).unwrap();
    assert!(inode.extent_map(&volume.cache(), ForkKind::Data).is_err());
}

fn be(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// Returns the bytes of a btree node with these keys and pointers, in a block of 1 KiB. Such a node
/// has room for 59 children.
fn node(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; 59 * 16];
    for (index, (key, pointer)) in entries.iter().enumerate() {
        bytes[8 * index..][..8].copy_from_slice(&key.to_be_bytes());
        bytes[8 * (59 + index)..][..8].copy_from_slice(&pointer.to_be_bytes());
    }
    bytes
}

fn leaf(extents: &[(u64, u64, u32)]) -> Vec<u8> {
    let disk = extents.iter().flat_map(|&(file_block, start, length_blocks)| {
        let (file_block, start) = (FileBlock(file_block), FsBlock(start));
        let extent = Extent { file_block, start, length_blocks, unwritten: false };
        let disk = extent.encode().unwrap();
        be(&[disk.high.get(), disk.low.get()])
    });
    disk.collect()
}

#[test]
fn btree_written_by_the_kernel_is_walked() {
    let volume = Volume::new();
    let extents = walk(&volume).unwrap();
    assert_eq!(extents.len(), 30);
    assert_eq!(extents[0].file_block, FileBlock(1));
    assert!(extents.iter().zip(0..).all(|(extent, index)| extent.file_block.0 == 2 * index + 1));
    let (inode, cache) = (volume.read(FRAGMENTS).unwrap(), volume.cache());
    assert!(inode.extent_map(&cache, ForkKind::Data).unwrap().iter().eq(&extents));
    // From here on the loaded map is walked.
    assert_eq!(inode.extents(&cache, ForkKind::Data).count(), 30);
}

#[test]
fn btree_of_two_levels_is_walked() {
    let volume = Volume::new();
    volume.put_inode(&changed(FRAGMENTS, &[(ROOT_LEVEL, &[2]), (ROOT_POINTERS, &be(&[40]))]));
    volume.put_btree_block(40, 1, 2, &node(&[(1, LEAF), (100, 41)]));
    let records: Vec<_> = (0..29).map(|index| (1 + index * 2, 500 + index, 1)).collect();
    volume.put_btree_block(LEAF, 0, 29, &leaf(&records));
    volume.put_btree_block(41, 0, 1, &leaf(&[(200, 700, 1)]));
    volume.join_btree_blocks(LEAF, 41);
    let extents = walk(&volume).unwrap();
    assert_eq!(extents.len(), 30);
    assert_eq!(extents[29].file_block, FileBlock(200));
}

/// Checks I1 of `xfs_inode::extent_walk`: fewer or more extents than the inode counts are an error.
#[test]
fn counts_that_differ_from_the_inode_are_refused() {
    let volume = Volume::new();
    volume.put_inode(&changed(FRAGMENTS, &[(31, &[29])]));
    check_walk(&volume, ExtentCheck::Count { found: 30, expected: 29 });
    volume.put_inode(&changed(FRAGMENTS, &[(31, &[31])]));
    check_walk(&volume, ExtentCheck::Count { found: 30, expected: 31 });
}

#[test]
fn blocks_of_another_owner_are_refused() {
    let volume = Volume::new();
    volume.put_changed_block(LEAF, FRAGMENTS_LEAF, &[(56, &be(&[99]))]);
    let expected = number(FRAGMENTS).0;
    check_walk(&volume, Check::ForeignOwner { found: 99, expected });
}

#[test]
fn levels_that_do_not_fall_are_refused() {
    let volume = Volume::new();
    volume.put_inode(&changed(FRAGMENTS, &[(ROOT_LEVEL, &[2])]));
    check_walk(&volume, BtreeCheck::LevelOnPath { found: 0, expected: 1 });
    // A node that is its own child.
    volume.put_inode(&changed(FRAGMENTS, &[(ROOT_LEVEL, &[3])]));
    volume.put_btree_block(LEAF, 2, 1, &node(&[(1, LEAF)]));
    check_walk(&volume, BtreeCheck::LevelOnPath { found: 2, expected: 1 });
}

/// Checks I3 of `xfs_inode` (the work to load a map is bounded): no block is visited twice.
#[test]
fn block_with_two_parents_is_refused() {
    let volume = Volume::new();
    let changes: [(usize, &[u8]); 3] =
        [(ROOT_COUNT, &[2]), (ROOT_KEYS, &be(&[1, 1000])), (ROOT_POINTERS, &be(&[LEAF, LEAF]))];
    let more: [(usize, &[u8]); 1] = [(31, &[60])];
    let record = changed(&changed(FRAGMENTS, &changes), &more);
    // The count of 61 extents needs more blocks than there are.
    volume.put_inode(&changed(&record, &[(71, &[61])]));
    let found = u64::MAX;
    check_walk(&volume, BtreeCheck::SiblingOnPath { side: "right", found, expected: LEAF });
}

#[test]
fn entries_outside_their_parent_are_refused() {
    let volume = Volume::new();
    let changes: [(usize, &[u8]); 3] =
        [(ROOT_COUNT, &[2]), (ROOT_KEYS, &be(&[1, 9])), (ROOT_POINTERS, &be(&[LEAF, 40]))];
    volume.put_inode(&changed(FRAGMENTS, &changes));
    // Block 9 and those after it belong to the second child.
    volume.put_btree_block(40, 0, 1, &leaf(&[(200, 700, 1)]));
    volume.join_btree_blocks(LEAF, 40);
    check_walk(&volume, BtreeCheck::OutsideParent { index: 29 });
    let volume = Volume::new();
    volume.put_inode(&changed(FRAGMENTS, &[(ROOT_KEYS, &be(&[2]))]));
    check_walk(&volume, BtreeCheck::OutsideParent { index: 0 });
}

#[test]
fn leaves_out_of_order_are_refused() {
    let volume = Volume::new();
    volume.put_btree_block(LEAF, 0, 0, &[]);
    check_walk(&volume, BtreeCheck::EmptyLeaf);
    volume.put_btree_block(LEAF, 0, 1, &leaf(&[(1, 1 << 40, 1)]));
    let (file_block, start) = (FileBlock(1), FsBlock(1 << 40));
    check_walk(&volume, ExtentCheck::OutsideVolume { file_block, start, length_blocks: 1 });
}

#[test]
fn walk_after_an_error_ends() {
    let volume = Volume::new();
    volume.put_btree_block(LEAF, 0, 0, &[]);
    let (inode, cache) = (volume.read(FRAGMENTS).unwrap(), volume.cache());
    let mut extents = inode.extents(&cache, ForkKind::Data);
    assert!(extents.next().unwrap().is_err());
    assert!(extents.next().is_none());
}
