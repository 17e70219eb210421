//! Tests of extent records: their packing, the rules of a list of records, and invalid roots of
//! extent btrees.

use std::vec::Vec;

use zerocopy::IntoBytes;

use super::{
    EXTENT_BYTES, Extent, ExtentCheck, ExtentList, ExtentRoot, ExtentRules, FILE_BLOCK_LIMIT,
    MAX_EXTENT_BLOCKS, MAX_EXTENT_LEVELS, encode_extent_root,
};
use crate::addr::{DiskAddr, FileBlock, FsBlock};
use crate::corruption::StructureAddress;
use crate::geometry::Geometry;
use crate::superblock::Superblock;

/// Returns a geometry of two groups of 153,600 blocks, whose block numbers take 18 bits.
fn geometry() -> Geometry {
    let sector = include_bytes!("../../../../testdata/inodes/new.superblock");
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn extent(file_block: u64, start: u64, length_blocks: u32) -> Extent {
    Extent {
        file_block: FileBlock(file_block),
        start: FsBlock(start),
        length_blocks,
        unwritten: false,
    }
}

fn check_packing(extent: Extent, high: u64, low: u64) {
    let disk = extent.encode().unwrap();
    assert_eq!((disk.high.get(), disk.low.get()), (high, low));
    assert_eq!(Extent::decode(&disk), extent);
}

#[test]
fn extents_pack_and_unpack() {
    check_packing(extent(0, 0, 0), 0, 0);
    check_packing(extent(1, 1, 1), 1 << 9, 1 << 21 | 1);
    check_packing(extent(0, (1 << 52) - 1, 0), 0x1ff, !0 << 21);
    check_packing(extent(FILE_BLOCK_LIMIT, 0, 0), (1 << 63) - (1 << 9), 0);
    check_packing(extent(0, 0, MAX_EXTENT_BLOCKS), 0, (1 << 21) - 1);
    check_packing(Extent { unwritten: true, ..extent(0, 0, 0) }, 1 << 63, 0);
}

#[test]
fn extent_that_does_not_fit_is_not_packed() {
    assert!(extent(1 << 54, 0, 0).encode().is_none());
    assert!(extent(0, 1 << 52, 0).encode().is_none());
    assert!(extent(0, 0, MAX_EXTENT_BLOCKS + 1).encode().is_none());
}

fn verify(extents: &[Extent]) -> Result<FileBlock, ExtentCheck> {
    let geometry = geometry();
    let rules = ExtentRules { geometry: &geometry, is_realtime: false, unwritten_allowed: false };
    let bytes: Vec<u8> =
        extents.iter().flat_map(|extent| extent.encode().unwrap().as_bytes().to_vec()).collect();
    ExtentList::decode(&bytes, extents.len() as u64)?.verify(FileBlock(0), &rules)
}

#[test]
fn ordered_lists_verify() {
    assert_eq!(verify(&[]), Ok(FileBlock(0)));
    assert_eq!(verify(&[extent(0, 10, 5), extent(5, 100, 1)]), Ok(FileBlock(6)));
    assert_eq!(verify(&[extent(7, 10, 5), extent(1000, 10, 5)]), Ok(FileBlock(1005)));
}

#[test]
fn invalid_lists_are_refused() {
    let order = |file_block, end| ExtentCheck::Order {
        file_block: FileBlock(file_block),
        end: FileBlock(end),
    };
    assert_eq!(verify(&[extent(0, 10, 5), extent(4, 100, 1)]), Err(order(4, 5)));
    assert_eq!(verify(&[extent(9, 10, 1), extent(0, 100, 1)]), Err(order(0, 10)));
    let empty = ExtentCheck::Empty { file_block: FileBlock(3) };
    assert_eq!(verify(&[extent(3, 10, 0)]), Err(empty));
    let limit = ExtentCheck::FileLimit { file_block: FileBlock(FILE_BLOCK_LIMIT - 1) };
    assert_eq!(verify(&[extent(FILE_BLOCK_LIMIT - 1, 10, 2)]), Err(limit));
    assert!(verify(&[extent(FILE_BLOCK_LIMIT - 1, 10, 1)]).is_ok());
    let unwritten = ExtentCheck::Unwritten { file_block: FileBlock(0) };
    assert_eq!(verify(&[Extent { unwritten: true, ..extent(0, 10, 1) }]), Err(unwritten));
}

#[test]
fn extents_outside_the_volume_are_refused() {
    let check = |start: u64, length_blocks: u32| {
        let (file_block, start) = (FileBlock(0), FsBlock(start));
        let outside = ExtentCheck::OutsideVolume { file_block, start, length_blocks };
        assert_eq!(verify(&[extent(0, start.0, length_blocks)]), Err(outside));
    };
    let group_blocks = u64::from(geometry().ag_blocks);
    let shift = geometry().ag_blocks_log;
    check(group_blocks, 1);
    check(group_blocks - 1, 2);
    check(2 << shift, 1);
    check((1 << 52) - 1, 1);
    // The headers of a group take two blocks of 1 KiB.
    check(0, 1);
    check(1, 5);
    check(1 << shift, 1);
    assert!(verify(&[extent(0, 2, 1)]).is_ok());
    check((1 << shift) + group_blocks - 1, 2);
    assert!(verify(&[extent(0, (1 << shift) + group_blocks - 1, 1)]).is_ok());
}

#[test]
fn counts_that_do_not_fit_are_refused() {
    for count in [2, 1 << 32, u64::MAX, u64::MAX / EXTENT_BYTES as u64 + 1] {
        let room = ExtentCheck::Room { count, room: 16 };
        assert_eq!(ExtentList::decode(&[0; 16], count).unwrap_err(), room);
    }
    assert_eq!(ExtentList::decode(&[0; 31], 1).unwrap().count(), 1);
}

/// Encodes a root into a fork of 68 bytes, which has room for four children.
fn root(level: u16, count: u16, entries: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = std::vec![0; 68];
    bytes[..2].copy_from_slice(&level.to_be_bytes());
    bytes[2..4].copy_from_slice(&count.to_be_bytes());
    for (index, (key, pointer)) in entries.iter().enumerate() {
        bytes[4 + 8 * index..][..8].copy_from_slice(&key.to_be_bytes());
        bytes[36 + 8 * index..][..8].copy_from_slice(&pointer.to_be_bytes());
    }
    bytes
}

#[test]
fn valid_roots_decode_and_verify() {
    let bytes = root(1, 2, &[(0, 100), (7, 200)]);
    let decoded = ExtentRoot::decode(&bytes).unwrap();
    let entries: Vec<_> = decoded.iter().collect();
    assert_eq!(entries, [(FileBlock(0), FsBlock(100)), (FileBlock(7), FsBlock(200))]);
    assert_eq!((decoded.level(), decoded.count()), (1, 2));
    decoded.verify(&geometry()).unwrap();
}

#[test]
fn roots_encode_to_the_bytes_that_decode() {
    // Room for four children, and bytes that are too few for a fifth.
    let mut fork = std::vec![0xaa; 4 + 4 * 16 + 12];
    for count in 1..=4 {
        let children: Vec<_> =
            (0..count).map(|index| (FileBlock(10 * index), FsBlock(300 + index))).collect();
        encode_extent_root(2, &children, &mut fork);
        let root = ExtentRoot::decode(&fork).unwrap();
        assert_eq!((root.level(), root.iter().collect::<Vec<_>>()), (2, children));
    }
    assert_eq!(ExtentRoot::capacity(fork.len()), 4);
}

#[test]
fn invalid_roots_are_refused() {
    let check = |bytes: &[u8], expected| {
        let found = ExtentRoot::decode(bytes).and_then(|root| root.verify(&geometry()));
        assert_eq!(found, Err(expected));
    };
    check(&root(0, 1, &[(0, 100)]), ExtentCheck::RootLevel { level: 0 });
    let level = MAX_EXTENT_LEVELS;
    check(&root(level, 1, &[(0, 100)]), ExtentCheck::RootLevel { level });
    check(&root(1, 0, &[]), ExtentCheck::RootCount { count: 0, limit: 4 });
    check(&root(1, 5, &[]), ExtentCheck::RootCount { count: 5, limit: 4 });
    check(&root(1, 65535, &[]), ExtentCheck::RootCount { count: 65535, limit: 4 });
    check(&[0, 1, 0], ExtentCheck::Room { count: 1, room: 3 });
    let (file_block, child) = (FileBlock(7), FsBlock(1 << 40));
    check(&root(1, 2, &[(7, 100), (7, 200)]), ExtentCheck::KeyOrder { file_block });
    check(&root(1, 1, &[(7, child.0)]), ExtentCheck::Child { file_block, child });
}
