//! Tests of the bulk loader: btrees of any size pass the checks of their blocks, and hold the
//! records in order.

use std::collections::BTreeMap;

use xfs_format::btree::{BtreeBlock, BtreeFormat, BtreeKind};
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock};
use xfs_format::rmap::{ReverseMap, Rmap, RmapFlags, RmapOwner};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, FileBlock, Geometry, Group, InodeNumber, Lsn, VerifyContext,
};
use xfs_testkit::golden;

use super::{build, count_blocks, count_levels};

/// Builds a btree of `records` in blocks from 100 on, and walks it from its root. Each block must
/// pass its verifier, have at least half of the entries that fit unless it is the root, and have a
/// pointer to its right neighbour. The leaves must hold all records in order. Each key of a node
/// must be that of its child.
fn check_build<F: BtreeFormat>(geometry: &Geometry, records: &[F::Record]) {
    let group = Group::new(geometry, AgNumber(1)).expect("the image has two groups");
    let count = count_blocks::<F>(records.len(), geometry);
    let numbers: Vec<AgBlock> = (100..).take(count).map(AgBlock).collect();
    let tree = build::<F>(&group, Lsn(0), records, &numbers);
    assert_eq!(tree.blocks.len(), count);
    assert_eq!(tree.levels, count_levels::<F>(records.len(), geometry));
    let blocks: BTreeMap<_, _> =
        tree.blocks.iter().map(|block| (block.at, block.bytes.as_slice())).collect();
    assert_eq!(blocks.len(), count);
    let context = VerifyContext { geometry, log_head: None };
    let mut level: Vec<AgBlock> = vec![tree.root];
    for height in (0..tree.levels).rev() {
        let mut below = Vec::new();
        let mut left = None;
        for (index, number) in level.iter().enumerate() {
            let at = geometry.ag_block_disk_addr(AgNumber(1), *number);
            let bytes = blocks[&at];
            let kind = BlockKind::Btree(F::KIND);
            kind.verify(bytes, at, &context).expect("the block passes its checks");
            let block = BtreeBlock::decode(bytes, F::KIND, at).expect("the block decodes");
            assert_eq!(block.level(), height);
            assert_eq!(block.left_sibling(), left);
            assert_eq!(block.right_sibling(), level.get(index + 1).map(|right| right.0.into()));
            left = Some(number.0.into());
            let fewest = block.layout().min_entries(height, geometry.block_size);
            assert!(block.count() >= fewest || tree.root == *number, "{} entries", block.count());
            for child in 0..block.count() {
                let Some(pointer) = block.pointer(child) else { continue };
                let pointer = AgBlock(u32::try_from(pointer).expect("a short pointer"));
                check_keys::<F>(
                    &block,
                    child,
                    &blocks,
                    geometry.ag_block_disk_addr(AgNumber(1), pointer),
                );
                below.push(pointer);
            }
        }
        if height > 0 {
            level = below;
        }
    }
    let mut found = Vec::new();
    for number in &level {
        let at = geometry.ag_block_disk_addr(AgNumber(1), *number);
        let block = BtreeBlock::decode(blocks[&at], F::KIND, at).expect("the block decodes");
        found.extend(block.records().map(|bytes| F::decode_record(bytes, &group).expect("sound")));
    }
    assert_eq!(found, records);
}

/// Checks that the keys which a node has for its child number `index`, the block at `at`, are the
/// lowest and the highest key in that child.
fn check_keys<F: BtreeFormat>(
    node: &BtreeBlock<'_>,
    index: usize,
    blocks: &BTreeMap<xfs_format::DiskAddr, &[u8]>,
    at: xfs_format::DiskAddr,
) {
    let child = BtreeBlock::decode(blocks[&at], F::KIND, at).expect("the child decodes");
    let key = node.key(index).and_then(F::decode_key);
    let high = node.high_key(index).and_then(F::decode_key);
    if child.is_leaf() {
        let geometry = golden().geometry();
        let group = Group::new(&geometry, AgNumber(1)).expect("the image has two groups");
        let records: Vec<F::Record> =
            child.records().map(|bytes| F::decode_record(bytes, &group).expect("sound")).collect();
        assert_eq!(key, records.first().map(F::key));
        assert!(high.is_none() || high == records.iter().map(F::high_key).max());
    } else {
        assert_eq!(key, child.key(0).and_then(F::decode_key));
        let highest = (0..child.count()).filter_map(|i| child.high_key(i).and_then(F::decode_key));
        assert!(high.is_none() || high == highest.max());
    }
}

#[test]
fn btree_of_free_space_of_any_size_passes_its_checks() {
    let geometry = golden().geometry();
    let full = BtreeKind::FreeSpaceByBlock.layout().max_records(geometry.block_size);
    for count in [0, 1, full, full + 1, 2 * full, 7000] {
        let records: Vec<FreeSpace> = (0..u32::try_from(count).expect("a few records"))
            .map(|index| FreeSpace { start: AgBlock(20 + 2 * index), count: 1 })
            .collect();
        check_build::<FreeSpaceByBlock>(&geometry, &records);
    }
}

#[test]
fn reverse_map_of_any_size_has_the_highest_keys_of_its_records() {
    let geometry = golden().geometry();
    for count in [0_u32, 1, 40, 41, 900, 6000] {
        // Every 50th record is long, so that the highest key is not that of the last record.
        let records: Vec<Rmap> = (0..count)
            .map(|index| Rmap {
                start: AgBlock(20 + index),
                count: if index % 50 == 0 { 500 } else { 1 },
                owner: RmapOwner::Inode(InodeNumber(200 + u64::from(index))),
                offset: FileBlock(u64::from(index)),
                flags: RmapFlags::empty(),
            })
            .collect();
        check_build::<ReverseMap>(&geometry, &records);
    }
}
