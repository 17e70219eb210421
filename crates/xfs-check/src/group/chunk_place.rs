//! The place of an inode chunk in its group.
//!
//! Owns: the blocks that a chunk claims, and the alignment of its first inode. Does **not** own:
//! the records of the inode btrees.

use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::rmap::RmapOwner;
use xfs_format::{AgBlock, AgInode, Group};

use crate::facts::{Claim, Facts, Owner};

/// Passes to the receiver of facts the owner of the blocks of an inode chunk. Leaves out the holes
/// of a sparse chunk.
pub(super) fn claim_chunk<T: Facts>(facts: &mut T, group: &Group<'_>, chunk: &InodeChunk) {
    let inodes_per_block = 1_u32 << group.geometry().inodes_per_block_log;
    let owner = Owner::Used(RmapOwner::Inodes);
    let mut claim = |start: u32, count: u32| {
        facts.claim(&Claim::of(group.number(), AgBlock(start), count, owner));
    };
    let first = group.geometry().ag_inode_block(chunk.start).0;
    if inodes_per_block >= u64::BITS {
        // Several chunks share a block. The first of them claims it.
        if chunk.start.0.is_multiple_of(inodes_per_block) {
            claim(first, 1);
        }
        return;
    }
    let present = chunk.present();
    let blocks = u64::BITS / inodes_per_block;
    let mut run = None;
    for index in 0..blocks {
        let is_present = present >> (index * inodes_per_block) & 1 != 0;
        match (is_present, run) {
            (true, None) => run = Some(index),
            (false, Some(start)) => {
                claim(first + start, index - start);
                run = None;
            }
            _ => {}
        }
    }
    if let Some(start) = run {
        claim(first + start, blocks - start);
    }
}

/// Returns whether a chunk that starts at this inode has the alignment that the volume requires.
pub(super) fn is_aligned(group: &Group<'_>, start: AgInode) -> bool {
    let geometry = group.geometry();
    let inodes_per_block = 1_u32 << geometry.inodes_per_block_log;
    let alignment = geometry.inode_alignment_blocks.max(1);
    start.0.is_multiple_of(inodes_per_block.min(INODES_PER_CHUNK))
        && (inodes_per_block >= INODES_PER_CHUNK
            || geometry.ag_inode_block(start).0.is_multiple_of(alignment))
}
