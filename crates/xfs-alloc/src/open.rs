//! Opening the allocator with the journal of a volume.
//!
//! Owns: summing the headers of all groups, sizing the reserves of each group, the counters that
//! the journal starts with, and the counters that the superblock gets at unmount. Does **not** own
//! recovery: the log has been replayed already.
//!
//! The counters of the superblock are not used. Only those of the groups are up to date, and the
//! headers have to be read in any case.

use std::sync::Arc;

use xfs_buffer::{BufferCache, Result};
use xfs_format::agf::{Agf, BtreeRoot};
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeKind};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Corruption, Group, Structure, StructureAddress, Superblock,
};
use xfs_log::Log;
use xfs_trans::{Journal, SpaceCounts};

use crate::counters::VolumeCounters;
use crate::headers::AgHeaders;
use crate::space::AllocatorState;
use crate::space::reservation::{
    ReserveDemand, Reserves, VisibleBlocks, counted_free_inode_blocks, free_space_btree_blocks,
    pool, set_aside,
};

/// Opens the journal and the allocator of a volume whose log has been recovered.
///
/// # Errors
///
/// The device's error, or a corrupt header.
#[doc(alias = "xfs_fs_reserve_ag_blocks")]
pub fn open_journal(
    cache: Arc<BufferCache>,
    log: Log,
    superblock: &Superblock,
) -> Result<Arc<Journal>> {
    let OpenedSpace { space, counts, pool } = open_space(&cache, superblock)?;
    let journal = Journal::open(cache, log, superblock, counts);
    journal.set_pool(pool);
    let of_journal = journal.extension(|| space);
    assert!(of_journal.groups() > 0, "a volume has a group");
    journal.set_disk_counts(Box::new(|journal| counts_for_disk(journal.cache())));
    Ok(journal)
}

/// Returns the number of free blocks that files can use. It is the number that `statfs` shows on a
/// volume that is mounted read-write.
///
/// # Errors
///
/// The errors of [`open_journal`].
pub fn available_blocks(cache: &BufferCache, superblock: &Superblock) -> Result<u64> {
    open_space(cache, superblock).map(|opened| opened.counts.free_blocks)
}

/// Returns the counters for the superblock: the sums over the groups' headers.
fn counts_for_disk(cache: &BufferCache) -> Result<SpaceCounts> {
    let VolumeCounters { inodes, free_inodes, free_blocks } = VolumeCounters::sum(cache)?;
    Ok(SpaceCounts { free_blocks, inodes, free_inodes })
}

/// The allocator's state, computed from the headers of all groups.
pub(crate) struct OpenedSpace {
    pub(crate) space: AllocatorState,
    /// The counters of free blocks and inodes that users see.
    pub(crate) counts: SpaceCounts,
    /// Number of blocks kept for operations that must not fail for lack of space.
    pub(crate) pool: u64,
}

pub(crate) fn open_space(cache: &BufferCache, superblock: &Superblock) -> Result<OpenedSpace> {
    let geometry = cache.geometry();
    let mut counters = VolumeCounters::default();
    let mut unavailable = set_aside(geometry);
    let mut groups = Vec::new();
    for number in geometry.groups() {
        let headers = AgHeaders::read(cache, number)?;
        counters = counters.plus(&headers);
        unavailable += u64::from(free_space_btree_blocks(&headers.agf));
        let free_inode_blocks = free_inode_blocks(cache, &headers.agi)?;
        let demand = ReserveDemand::new(superblock, &headers.agf, free_inode_blocks);
        groups.push((headers.agf, demand));
    }
    let mut visible = VisibleBlocks::new(counters.free_blocks, unavailable, pool(geometry));
    let reserved: Vec<(Agf, Reserves)> = groups
        .into_iter()
        .map(|(agf, demand)| (agf, Reserves::set_up(&demand, &mut visible)))
        .collect();
    let counts = SpaceCounts {
        free_blocks: visible.blocks(),
        inodes: counters.inodes,
        free_inodes: counters.free_inodes,
    };
    Ok(OpenedSpace { space: AllocatorState::new(geometry, reserved), counts, pool: visible.pool() })
}

/// Returns the size of the free-inode btree in blocks. The blocks are counted one by one if the
/// header does not hold the size.
pub(crate) fn free_inode_blocks(cache: &BufferCache, agi: &Agi) -> Result<u32> {
    match (counted_free_inode_blocks(agi), agi.free_inode_btree) {
        (Some(blocks), _) => Ok(blocks),
        (None, Some(root)) => count_blocks(cache, agi.group, root, BtreeKind::FreeInode),
        (None, None) => Ok(0),
    }
}

/// Counts the blocks of a btree of a group. Walks along each level, from its leftmost block to the
/// right.
pub(crate) fn count_blocks(
    cache: &BufferCache,
    number: AgNumber,
    root: BtreeRoot,
    kind: BtreeKind,
) -> Result<u32> {
    let geometry = cache.geometry();
    let outside =
        || Corruption::new(Structure::Btree, StructureAddress::Group(number), BtreeCheck::Outside);
    let group = Group::new(geometry, number).ok_or_else(outside)?;
    let mut blocks = 0;
    let mut leftmost = Some(root.block);
    while let Some(first) = leftmost.take() {
        let mut next = Some(first);
        while let Some(block) = next {
            // A ring of siblings would never end.
            if !group.contains_block(block) || blocks >= group.length_blocks() {
                return Err(outside().into());
            }
            blocks += 1;
            let at = geometry.ag_block_disk_addr(number, block);
            let buffer = cache.read(at, geometry.block_size, BlockKind::Btree(kind))?;
            let bytes = buffer.bytes();
            let node = BtreeBlock::decode(&bytes, kind, at)?;
            if block == first && !node.is_leaf() {
                leftmost = Some(short(node.pointer(0).expect("a verified node has children")));
            }
            next = node.right_sibling().map(short);
        }
    }
    Ok(blocks)
}

fn short(block: u64) -> AgBlock {
    AgBlock(u32::try_from(block).expect("a pointer inside a group has 32 bits"))
}
