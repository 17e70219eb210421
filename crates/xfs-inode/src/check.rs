//! A consistency check of a whole volume, for the tests of this crate.
//!
//! Owns: the comparison of every inode's maps with free space, reverse map and reference counts,
//! block by block. Does **not** own names, link counts, or the contents of attributes.
//!
//! The check reads everything through a cache of its own, so it sees the contents of the device.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::indexing_slicing, reason = "what fails here fails the test")]
#![allow(clippy::panic, reason = "what fails here fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use xfs_alloc::{AgHeaders, inode_chunks, read_free_list};
use xfs_btree::{Cursor, ForkRoot};
use xfs_buffer::BufferCache;
use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::inode::ForkKind;
use xfs_format::refcount::RefcountDomain;
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{AgNumber, BlockKind, FsBlock, Geometry, InodeNumber};

use crate::{Fork, Inode};

/// One use of a block: the inode number, and the file offset with the flags as the reverse map
/// packs them.
type Use = (u64, u64);

/// The blocks that the inodes of a volume refer to.
#[derive(Default)]
struct BlockUsers {
    /// For each block that belongs to a file, the uses of the block.
    uses: BTreeMap<u64, BTreeSet<Use>>,
    /// For each block, the number of its uses by files.
    counts: BTreeMap<u64, u32>,
}

impl BlockUsers {
    fn add(&mut self, block: FsBlock, owner: InodeNumber, word: u64) {
        assert!(
            self.uses.entry(block.0).or_default().insert((owner.0, word)),
            "{owner} has {block} twice at {word:#x}"
        );
        *self.counts.entry(block.0).or_default() += 1;
    }
}

/// Checks that the volume in `cache` is consistent.
pub(crate) fn check_volume(cache: &BufferCache) {
    let mut found = BlockUsers::default();
    for group in cache.geometry().groups() {
        for chunk in inode_chunks(cache, group).unwrap() {
            let chunk = chunk.unwrap();
            for index in 0..64 {
                let is_used = chunk.free >> index & 1 == 0;
                let number = chunk.start.0 + index;
                let number = cache.geometry().join_inode(group, number.into());
                if is_used {
                    check_inode(cache, number, &mut found);
                }
            }
        }
    }
    for group in cache.geometry().groups() {
        check_group(cache, group, &found);
    }
}

/// Checks one inode, and records the blocks that it refers to.
fn check_inode(cache: &BufferCache, number: InodeNumber, found: &mut BlockUsers) {
    let inode = Inode::read(cache, number).unwrap_or_else(|error| panic!("{number}: {error}"));
    let mut blocks = 0;
    for kind in [ForkKind::Data, ForkKind::Attr] {
        let flag = if kind == ForkKind::Attr { RmapFlags::ATTR } else { RmapFlags::empty() };
        let map = inode.extent_map(cache, kind).unwrap();
        for pair in map.iter().collect::<Vec<_>>().windows(2) {
            let [left, right] = pair else { unreachable!() };
            let continues = left.end() == right.file_block
                && left.start.0 + u64::from(left.length_blocks) == right.start.0
                && left.unwritten == right.unwritten;
            assert!(!continues, "{number}: {left:?} and {right:?} must be one extent");
        }
        for extent in map.iter() {
            let state = if extent.unwritten { RmapFlags::UNWRITTEN } else { RmapFlags::empty() };
            for index in 0..u64::from(extent.length_blocks) {
                let word = (extent.file_block.0 + index) | (flag | state).bits();
                found.add(FsBlock(extent.start.0 + index), number, word);
                blocks += 1;
            }
        }
        if let Fork::Btree(btree) = inode.fork(kind) {
            let root = ForkRoot::decode(btree.root()).unwrap();
            let children = root.children.iter().map(|child| child.1).collect();
            for block in btree_blocks(cache, number, root.level, children) {
                found.add(block, number, (flag | RmapFlags::FORK_BTREE).bits());
                blocks += 1;
            }
        }
    }
    assert_eq!(inode.core().blocks, blocks, "{number}: blocks of the inode");
}

/// Returns the blocks of a fork's btree. Panics if one of them is less than half full, unless it is
/// the only block of its level.
fn btree_blocks(
    cache: &BufferCache,
    owner: InodeNumber,
    level: u16,
    mut blocks: Vec<FsBlock>,
) -> Vec<FsBlock> {
    let geometry = cache.geometry();
    let layout = BtreeKind::Extent.layout();
    let mut all = Vec::new();
    for level in (0..level).rev() {
        let alone = blocks.len() == 1;
        let mut below = Vec::new();
        for block in blocks {
            let at = geometry.block_disk_addr(block).unwrap();
            let kind = BlockKind::Btree(BtreeKind::Extent);
            let buffer = cache.read(at, geometry.block_size, kind).unwrap();
            let bytes = buffer.bytes();
            let node = BtreeBlock::decode(&bytes, BtreeKind::Extent, at).unwrap();
            assert_eq!(node.owner(), Some(owner.0));
            let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
            let most = match level {
                0 => layout.max_records(geometry.block_size),
                _ => layout.max_pointers(geometry.block_size),
            };
            assert!(alone || count >= most / 2, "{owner}: {block} holds {count} of {most}");
            if level > 0 {
                below.extend((0..count).map(|index| FsBlock(node.pointer(index).unwrap())));
            }
            all.push(block);
        }
        blocks = below;
    }
    all
}

fn records<F: xfs_format::btree::BtreeFormat>(cursor: Cursor<'_, F>) -> Vec<F::Record> {
    cursor.records().map(|record| record.unwrap()).collect()
}

/// Checks the btrees of a group against each other and against the inodes.
fn check_group(cache: &BufferCache, group: AgNumber, found: &BlockUsers) {
    let geometry = cache.geometry();
    let headers = AgHeaders::read(cache, group).unwrap();
    headers.verify_counters(cache).unwrap_or_else(|error| panic!("{group}: {error}"));
    let mut taken = vec![false; geometry.ag_length(group) as usize];
    let mut take = |start: u32, count: u32, what: &str| {
        for block in start..start + count {
            assert!(!taken[block as usize], "{group}: block {block} is {what} and something else");
            taken[block as usize] = true;
        }
    };
    let by_block = records(headers.free_space(cache).unwrap());
    let mut by_size = records(headers.free_space_by_size(cache).unwrap());
    by_size.sort_by_key(|free| free.start);
    assert_eq!(by_block, by_size, "{group}: the two btrees of free space");
    for free in &by_block {
        take(free.start.0, free.count, "free");
    }
    for block in read_free_list(cache, &headers.agf).unwrap() {
        take(block.0, 1, "on the free list");
    }
    let in_group = |block: u64| {
        let (number, block) = geometry.split_block(FsBlock(block)).unwrap();
        (number == group).then_some(block.0)
    };
    for block in found.uses.keys().filter_map(|block| in_group(*block)) {
        take(block, 1, "a file's");
    }
    check_reverse_map(cache, &headers, found);
    check_refcounts(cache, &headers, found);
}

fn check_reverse_map(cache: &BufferCache, headers: &AgHeaders, found: &BlockUsers) {
    let (geometry, group) = (cache.geometry(), headers.group());
    let Some(cursor) = headers.reverse_map(cache).unwrap() else { return };
    let mut mapped: BTreeMap<u64, BTreeSet<Use>> = BTreeMap::new();
    for record in records(cursor) {
        let RmapOwner::Inode(owner) = record.owner else { continue };
        for index in 0..record.count {
            let block = join(geometry, group, record.start.0 + index);
            let offset = match record.flags.contains(RmapFlags::FORK_BTREE) {
                true => 0,
                false => record.offset.0 + u64::from(index),
            };
            let word = offset | record.flags.bits();
            assert!(mapped.entry(block).or_default().insert((owner.0, word)), "{record:?} twice");
        }
    }
    let here = found.uses.iter().filter(|(block, _)| is_in(geometry, group, **block));
    let expected: BTreeMap<_, _> = here.map(|(block, uses)| (*block, uses.clone())).collect();
    for (block, uses) in &expected {
        assert_eq!(mapped.get(block), Some(uses), "{group}: the reverse map of block {block}");
    }
    let extra = mapped.keys().find(|block| !expected.contains_key(block));
    assert_eq!(extra.map(|block| (block, &mapped[block])), None, "{group}: mapped to no file");
}

fn check_refcounts(cache: &BufferCache, headers: &AgHeaders, found: &BlockUsers) {
    let (geometry, group) = (cache.geometry(), headers.group());
    let Some(cursor) = headers.refcounts(cache).unwrap() else { return };
    let mut counted = BTreeMap::new();
    let all = records(cursor);
    for pair in all.windows(2) {
        let [left, right] = pair else { unreachable!() };
        let continues = (left.domain, left.references) == (right.domain, right.references)
            && left.end() == right.start;
        assert!(!continues, "{group}: {left:?} and {right:?} must be one record");
    }
    for record in all {
        assert_eq!(record.domain, RefcountDomain::Shared, "{group}: {record:?} is still staged");
        for index in 0..record.count {
            counted.insert(join(geometry, group, record.start.0 + index), record.references);
        }
    }
    let shared = found.counts.iter().filter(|(_, count)| **count > 1);
    let here = shared.filter(|(block, _)| is_in(geometry, group, **block));
    let expected: BTreeMap<_, _> = here.map(|(block, count)| (*block, *count)).collect();
    assert_eq!(counted, expected, "{group}: reference counts");
}

fn join(geometry: &Geometry, group: AgNumber, block: u32) -> u64 {
    geometry.join_block(group, block.into()).0
}

fn is_in(geometry: &Geometry, group: AgNumber, block: u64) -> bool {
    geometry.split_block(FsBlock(block)).is_some_and(|(number, _)| number == group)
}
