//! All records of the reverse map that overlap a block.
//!
//! Owns: the walk down every branch whose keys enclose the block. Does **not** own the choice among
//! the records found.
//!
//! A node holds the lowest and the highest key of each child. The walk enters a child if the block
//! lies between these two keys. Levels fall by one with each step, and each child of a node is
//! entered once, so the walk ends on any volume.

use xfs_buffer::{BufferCache, Result};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, BtreeKind};
use xfs_format::rmap::{ReverseMap, Rmap};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, DiskAddr, Group, Structure, StructureAddress,
};

/// Returns the first record that overlaps `block` and for which `is_wanted` returns `true`; `None`
/// if there is no such record.
#[doc(alias = "xfs_rmap_query_range")]
pub(super) fn find(
    cache: &BufferCache,
    group: AgNumber,
    root: BtreeRoot,
    block: AgBlock,
    is_wanted: impl Fn(&Rmap) -> bool,
) -> Result<Option<Rmap>> {
    let geometry = cache.geometry();
    let place = StructureAddress::Group(group);
    let outside = || Corruption::new(Structure::Btree, place, BtreeCheck::Outside);
    let of_group = Group::new(geometry, group).ok_or_else(outside)?;
    let mut waiting = vec![(root.block, root.levels)];
    while let Some((child, levels)) = waiting.pop() {
        if !of_group.contains_block(child) || levels == 0 {
            return Err(outside().into());
        }
        let at = geometry.ag_block_disk_addr(group, child);
        let kind = BlockKind::Btree(BtreeKind::ReverseMap);
        let buffer = cache.read(at, geometry.block_size, kind)?;
        let bytes = buffer.bytes();
        let node = BtreeBlock::decode(&bytes, BtreeKind::ReverseMap, at)?;
        let level = node.level();
        if level + 1 != levels {
            let check = BtreeCheck::Level { level, max: levels - 1 };
            return Err(Corruption::new(Structure::Btree, StructureAddress::Disk(at), check).into());
        }
        if level == 0 {
            let found = find_in_leaf(&node, &of_group, at, block, &is_wanted)?;
            if found.is_some() {
                return Ok(found);
            }
        } else {
            push_children(&node, block, levels - 1, &mut waiting);
        }
    }
    Ok(None)
}

fn find_in_leaf(
    leaf: &BtreeBlock<'_>,
    group: &Group<'_>,
    at: DiskAddr,
    block: AgBlock,
    is_wanted: impl Fn(&Rmap) -> bool,
) -> Result<Option<Rmap>> {
    for record in leaf.records() {
        let record = ReverseMap::decode_record(record, group).map_err(|check| {
            Corruption::new(Structure::Btree, StructureAddress::Disk(at), check)
        })?;
        if record.start > block {
            break;
        }
        if record.end() > block && is_wanted(&record) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// Adds the children whose two keys enclose the block to the list of blocks that are still to be
/// read.
fn push_children(
    node: &BtreeBlock<'_>,
    block: AgBlock,
    levels: u32,
    waiting: &mut Vec<(AgBlock, u32)>,
) {
    for index in 0..node.count() {
        let key = |bytes: Option<&[u8]>| {
            let key = bytes.and_then(ReverseMap::decode_key);
            key.expect("a decoded node of the reverse map holds two keys of each child").start
        };
        if key(node.key(index)) <= block && block <= key(node.high_key(index)) {
            let child = node.pointer(index).expect("a decoded node holds its children");
            let child = u32::try_from(child).expect("a pointer inside a group has 32 bits");
            waiting.push((AgBlock(child), levels));
        }
    }
}
