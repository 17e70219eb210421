//! Reads of metadata blocks that are contiguous or scattered on disk.

use xfs_format::extent::ExtentCheck;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, FileBlock};

use super::BlockShape;
use crate::testing::{HOLES, STALE, TEXT, Volume, failed_check};

/// Returns the shape of a block whose verifier accepts any bytes.
fn any(length_blocks: u32) -> BlockShape {
    BlockShape { length_blocks, kind: BlockKind::InodeCluster }
}

#[test]
fn scattered_block_is_read_in_file_order() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let read =
        |first, count| inode.read_fork_block(&cache, ForkKind::Data, FileBlock(first), any(count));
    assert_eq!(*read(0, 1).unwrap().bytes(), [b'A'; 1024]);
    let mixed = read(4, 2).unwrap();
    assert_eq!(mixed.bytes()[..1024], [STALE; 1024]);
    assert_eq!(mixed.bytes()[1024..], [b'B'; 1024]);
}

#[test]
fn unmapped_blocks_are_refused() {
    let volume = Volume::new();
    let (inode, cache) = (volume.read(HOLES).unwrap(), volume.cache());
    let check = |first, count, missing| {
        let found = inode.read_fork_block(&cache, ForkKind::Data, FileBlock(first), any(count));
        let expected = ExtentCheck::NotMapped { file_block: FileBlock(missing) };
        assert_eq!(failed_check(found), expected.into());
    };
    check(1, 1, 1);
    check(0, 2, 1);
    check(6, 64, 8);
    check(u64::MAX, 1, u64::MAX);
    let inode = volume.read(TEXT).unwrap();
    let found = inode.read_fork_block(&cache, ForkKind::Attr, FileBlock(0), any(1));
    let expected = ExtentCheck::NotMapped { file_block: FileBlock(0) };
    assert_eq!(failed_check(found), expected.into());
}
