//! The first block after the start of the log that has an owner or is free: the end of the log.
//!
//! Owns: the search for the end of the log when the reverse map does not show it. Does **not** own:
//! the start of the log.
//!
//! The blocks of the log are contiguous, not free, and in no fork, btree or inode chunk. So the log
//! ends before the next block that is free or in one of these. An owner that cannot be read could
//! own blocks in between, so the search gives no result unless it has read all owners.

use xfs_format::agfl::{AGFL_SECTOR, Agfl};
use xfs_format::btree::BtreeFormat;
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode::ForkKind;
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{AgBlock, AgInode, AgNumber, BlockKind, FsBlock};

use crate::inode::InodeState;
use crate::volume::Evidence;

/// The lowest block after block `after` of a group that is known to have an owner or to be free.
struct Nearest {
    group: AgNumber,
    after: AgBlock,
    nearest: AgBlock,
}

impl Nearest {
    fn add(&mut self, block: AgBlock) {
        if block > self.after {
            self.nearest = self.nearest.min(block);
        }
    }
}

/// Returns the first block after block `after` of the group that has an owner or is free, or else
/// the end of the group. Returns `None` if an owner could not be read.
pub(super) fn next_after(
    evidence: &Evidence<'_>,
    group: AgNumber,
    after: AgBlock,
) -> Option<AgBlock> {
    let end = AgBlock(evidence.geometry().ag_length(group));
    let mut nearest = Nearest { group, after, nearest: end };
    add_group(evidence, &mut nearest)?;
    for other in evidence.geometry().groups() {
        add_inodes(evidence, other, &mut nearest)?;
    }
    Some(nearest.nearest)
}

/// Adds the free blocks of the group, the blocks of its btrees, and those on its free list. Returns
/// `None` if one of these structures could not be read.
fn add_group(evidence: &Evidence<'_>, nearest: &mut Nearest) -> Option<()> {
    let group = nearest.group;
    let mut occupied = Vec::new();
    let found =
        evidence.group_records::<FreeSpaceByBlock>(group, |extent, _| occupied.push(extent.start));
    if !found.is_whole {
        return None;
    }
    occupied.extend(found.blocks);
    occupied.extend(tree_blocks::<FreeSpaceBySize>(evidence, group)?);
    occupied.extend(tree_blocks::<InodeChunks>(evidence, group)?);
    occupied.extend(tree_blocks::<FreeInodeChunks>(evidence, group)?);
    // The tree of reference counts also has blocks that are reserved for copy-on-write.
    let counts =
        evidence.group_records::<Refcounts>(group, |record, _| occupied.push(record.start));
    if !counts.is_whole {
        return None;
    }
    occupied.extend(counts.blocks);
    occupied.extend(tree_blocks::<ReverseMap>(evidence, group)?);
    occupied.extend(free_list(evidence, group)?);
    occupied.into_iter().for_each(|block| nearest.add(block));
    Some(())
}

/// Returns the blocks of a btree of a group, or `None` if not all of them could be read.
fn tree_blocks<F: BtreeFormat>(evidence: &Evidence<'_>, group: AgNumber) -> Option<Vec<AgBlock>> {
    let found = evidence.group_records::<F>(group, |_, _| {});
    found.is_whole.then_some(found.blocks)
}

/// Returns the blocks of a group's free list.
fn free_list(evidence: &Evidence<'_>, group: AgNumber) -> Option<Vec<AgBlock>> {
    let geometry = evidence.geometry();
    let range = evidence.agf(group).ok()?.free_list;
    let at = geometry.header_disk_addr(group, AGFL_SECTOR);
    let mut sector = vec![0; geometry.sector_size as usize];
    evidence.read(at, &mut sector).ok()?;
    BlockKind::Agfl.verify(&sector, at, &evidence.context()).ok()?;
    let list = Agfl::decode(&sector, at, geometry.version).ok()?;
    list.blocks(range).ok()?.collect::<Result<_, _>>().ok()
}

/// Adds the blocks of a group's inode chunks, and the blocks of the inodes' forks. Returns `None`
/// if one of these structures could not be read.
fn add_inodes(evidence: &Evidence<'_>, group: AgNumber, nearest: &mut Nearest) -> Option<()> {
    let geometry = evidence.geometry();
    let mut chunks: Vec<InodeChunk> = Vec::new();
    let found = evidence.group_records::<InodeChunks>(group, |chunk, _| chunks.push(*chunk));
    if !found.is_whole {
        return None;
    }
    for chunk in chunks {
        if group == nearest.group {
            let first = geometry.ag_inode_block(chunk.start);
            let length = geometry.chunk_blocks().max(1);
            (0..length).for_each(|offset| nearest.add(AgBlock(first.0.saturating_add(offset))));
        }
        let allocated = chunk.allocated();
        for index in (0..64).filter(|index| allocated >> index & 1 == 1) {
            let number = geometry.join_inode(group, AgInode(chunk.start.0 + index));
            let inode = evidence.inode(number);
            if !matches!(inode.state, InodeState::Sound(_)) {
                return None;
            }
            for kind in [ForkKind::Data, ForkKind::Attr] {
                let map = evidence.extents(&inode, kind);
                if !map.is_whole() {
                    return None;
                }
                let blocks = map.extents.iter().map(|extent| extent.start);
                let blocks: Vec<FsBlock> = blocks.chain(map.tree_blocks.iter().copied()).collect();
                add_blocks(evidence, &blocks, nearest);
            }
        }
    }
    Some(())
}

fn add_blocks(evidence: &Evidence<'_>, blocks: &[FsBlock], nearest: &mut Nearest) {
    let placed = blocks.iter().filter_map(|block| evidence.geometry().split_block(*block));
    for (group, block) in placed {
        if group == nearest.group {
            nearest.add(block);
        }
    }
}
