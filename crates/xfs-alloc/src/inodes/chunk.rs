//! Making chunks of free inodes.
//!
//! The inodes of a new chunk are not logged one by one. One log item records that the blocks became
//! inodes, and the buffers of the blocks are ordered: the log's tail does not pass the item before
//! the buffers are written.

use xfs_buffer::Result;
use xfs_format::agi::AgiCheck;
use xfs_format::btree::BtreeKind;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::encode_free;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::log_item::InodeCreate;
use xfs_format::{AgBlock, AgInode, BlockKind, FsBlock, Geometry};
use xfs_trans::Transaction;

use super::group::GroupInodes;
use crate::allocate::{AllocationTarget, SpaceRequest, allocate_extent};
use crate::deferred::defer_free;
use crate::extent::BlockExtent;
use crate::owner::ExtentOwner;

/// The largest number of chunks that a group may make before it reads the volume's inode count
/// again.
const MOST_ALLOWED_CHUNKS: u64 = 16;

/// The blocks that become a chunk of inodes, or a part of one.
struct ChunkBlocks {
    start: AgBlock,
    length_blocks: u32,
    /// Whether the blocks are only a part of a chunk.
    is_sparse: bool,
}

impl<'journal> GroupInodes<'journal> {
    /// Makes a chunk of free inodes, or a part of one if the group has no room for a whole chunk.
    /// Returns `false` if the group has no room for either, or the volume has reached its inode
    /// limit.
    #[doc(alias = "xfs_ialloc_ag_alloc")]
    pub(super) fn add_chunk(&mut self, tx: &mut Transaction<'journal>) -> Result<bool> {
        let geometry = tx.geometry();
        let blocks = geometry.chunk_blocks();
        let count = blocks << geometry.inodes_per_block_log;
        if tx.blocks_left() < super::inode_blocks(geometry) || !self.may_grow(tx, count) {
            return Ok(false);
        }
        let Some(room) = self.allocate_blocks(tx)? else { return Ok(false) };
        let count = room.length_blocks << geometry.inodes_per_block_log;
        let first = AgInode(room.start.0 << geometry.inodes_per_block_log);
        self.write_inodes(tx, &room)?;
        let newest = if room.is_sparse {
            self.insert_sparse(tx, first, count)?
        } else {
            for start in (first.0..first.0 + count).step_by(INODES_PER_CHUNK as usize) {
                self.insert_chunk(tx, InodeChunk::of_free(AgInode(start), 0, INODES_PER_CHUNK))?;
            }
            first
        };
        self.agi.count += count;
        self.agi.free_count += count;
        self.agi.newest_inode = Some(newest);
        tx.count_inodes(count.into(), count.into());
        Ok(true)
    }

    /// Whether the volume's inode limit allows `count` more inodes.
    ///
    /// Far below the limit a group gets an allowance of several chunks at once, so that the
    /// volume's count is not read each time. A group may still use its allowance when other groups
    /// have reached the limit. The volume can therefore exceed the limit, which is advisory, by the
    /// sum of the allowances.
    fn may_grow(&self, tx: &Transaction<'_>, count: u32) -> bool {
        let (geometry, journal) = (tx.geometry(), tx.journal());
        let limit = journal.superblock().inode_limit(geometry.data_blocks);
        let Some(limit) = limit else { return true };
        if self.state.take_allowance() {
            return true;
        }
        let left = limit.saturating_sub(journal.inodes()) / u64::from(count);
        let share = left / (2 * u64::from(geometry.ag_count));
        self.state.set_allowance(share.min(MOST_ALLOWED_CHUNKS) as u32);
        left > 0
    }

    /// Allocates the blocks of a chunk: directly after the newest chunk, or else near the inode
    /// btree. If the group has no room for a whole chunk, allocates the blocks of a part of one.
    /// Returns `None` if the group has no room for that, either.
    fn allocate_blocks(&self, tx: &mut Transaction<'journal>) -> Result<Option<ChunkBlocks>> {
        let geometry = tx.geometry();
        let (blocks, alignment) = (geometry.chunk_blocks(), geometry.inode_alignment_blocks);
        let request = |target: AllocationTarget, blocks: u32, alignment: u32| {
            SpaceRequest::new(target, blocks, blocks)
                .with_owner(ExtentOwner::INODES)
                .with_alignment(alignment.max(1))
                // The btree of chunks may have to grow in this very step.
                .with_minimum_left(BtreeKind::Inode.max_levels(geometry))
                // The chunk is committed before the transaction continues (I3 of the module above).
                .at_end_of_step()
        };
        let in_group = |block: AgBlock| geometry.join_block(self.number, block);
        let near = AllocationTarget::NearInGroup(in_group(self.agi.inode_btree.block));
        let after = self.agi.newest_inode.and_then(|newest| {
            let next = geometry.ag_inode_block(newest).checked_add(blocks)?;
            geometry.contains_ag_block(self.number, next).then_some(in_group(next))
        });
        let whole = |start: FsBlock| ChunkBlocks {
            start: self.own_block(geometry, start),
            length_blocks: blocks,
            is_sparse: false,
        };
        for target in after.map(AllocationTarget::Exact).into_iter().chain([near]) {
            if let Some(extent) = allocate_extent(tx, &request(target, blocks, alignment))? {
                return Ok(Some(whole(extent.start)));
            }
        }
        let part = geometry.sparse_alignment_blocks;
        if part == 0 || part >= blocks {
            return Ok(None);
        }
        match allocate_extent(tx, &request(near, part, part))? {
            Some(extent) => Ok(self.sparse_blocks(tx, extent)),
            None => Ok(None),
        }
    }

    /// Returns the number in this group of a block that was allocated for a chunk.
    fn own_block(&self, geometry: &Geometry, block: FsBlock) -> AgBlock {
        let split = geometry.split_block(block);
        let (group, block) = split.expect("allocated blocks lie in the volume");
        assert_eq!(group, self.number, "the blocks of a chunk lie in the group that gets it");
        block
    }

    /// Accepts blocks for a part of a chunk. In two cases it frees the blocks again and returns
    /// `None`: the chunk would reach past the end of the group, or lie at its start, where inode 0
    /// would be.
    fn sparse_blocks(
        &self,
        tx: &mut Transaction<'journal>,
        extent: BlockExtent,
    ) -> Option<ChunkBlocks> {
        let geometry = tx.geometry();
        let alignment = geometry.inode_alignment_blocks.max(1);
        let start = self.own_block(geometry, extent.start);
        let chunk = start.0 - start.0 % alignment;
        let end = u64::from(chunk) + u64::from(geometry.chunk_blocks());
        if chunk != 0 && end <= u64::from(self.agi.length_blocks) {
            let length_blocks = extent.length_blocks;
            return Some(ChunkBlocks { start, length_blocks, is_sparse: true });
        }
        defer_free(tx, extent, Some(ExtentOwner::INODES), crate::owner::BlockPurpose::File);
        None
    }

    /// Writes free inodes into the blocks that become a chunk or a part of one.
    #[doc(alias = "xfs_ialloc_inode_init")]
    fn write_inodes(&self, tx: &mut Transaction<'journal>, room: &ChunkBlocks) -> Result<()> {
        let geometry = tx.geometry();
        let generation = self.new_generation(tx, room.start);
        let cluster_blocks = geometry.cluster_blocks();
        let bytes = cluster_blocks << geometry.block_log;
        let end = room.start.0 + room.length_blocks;
        for block in (room.start.0..end).step_by(cluster_blocks as usize) {
            let at = geometry.ag_block_disk_addr(self.number, AgBlock(block));
            let buffer = tx.claim(at, bytes, BlockKind::InodeCluster)?;
            let first = AgInode(block << geometry.inodes_per_block_log);
            let first = geometry.join_inode(self.number, first);
            encode_free(first, generation, geometry, &mut buffer.bytes_mut());
            tx.order(&buffer);
        }
        tx.log_inode_create(&InodeCreate {
            group: self.number,
            start: room.start,
            count: room.length_blocks << geometry.inodes_per_block_log,
            inode_size: geometry.inode_size,
            length_blocks: room.length_blocks,
            generation,
        });
        Ok(())
    }

    /// Returns the generation that the inodes of a new chunk get. Chunks are freed and made again.
    /// A client may hold a handle of a deleted file, so an inode number must not return with a
    /// generation that an earlier file had. The generation depends only on the volume, so that the
    /// same operations produce the same volume.
    fn new_generation(&self, tx: &Transaction<'_>, start: AgBlock) -> u32 {
        let (high, low) = tx.geometry().meta_uuid.as_u64_pair();
        let place = u64::from(self.number.0) << 32 | u64::from(start.0);
        let turn = u64::from(self.state.count_chunk());
        let parts = [high, low, place, self.agi.lsn.0, turn];
        let mixed = parts.into_iter().fold(0, |sum: u64, part| {
            let sum = (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sum ^ sum >> 29
        });
        (mixed >> 32) as u32
    }

    fn insert_chunk(&mut self, tx: &mut Transaction<'journal>, chunk: InodeChunk) -> Result<()> {
        self.in_chunks(tx, |chunks| chunks.insert(chunk))?;
        self.in_free_chunks(tx, |chunks| chunks.insert(chunk)).map(drop)
    }

    /// Adds the inodes from `first` on, a part of a chunk, to the record of the chunk that they
    /// belong to. Returns the first inode of the chunk.
    #[doc(alias = "xfs_inobt_insert_sprec")]
    fn insert_sparse(
        &mut self,
        tx: &mut Transaction<'journal>,
        first: AgInode,
        count: u32,
    ) -> Result<AgInode> {
        let geometry = tx.geometry();
        let alignment = geometry.inode_alignment_blocks << geometry.inodes_per_block_log;
        let position = first.0 % alignment.max(1);
        let start = AgInode(first.0 - position);
        let part = InodeChunk::of_free(start, position, count);
        match self.in_chunks(tx, |chunks| chunks.find(start))? {
            None => self.insert_chunk(tx, part)?,
            Some(known) => {
                let overlap = AgiCheck::ChunksDiffer { start: start.0 };
                let merged = known.merged(part).ok_or_else(|| self.corrupt(overlap))?;
                self.replace_in_chunks(tx, known, merged)?;
                self.replace_in_free_chunks(tx, known, merged)?;
            }
        }
        Ok(start)
    }
}
