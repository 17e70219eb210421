//! Freeing an inode.

use std::sync::Arc;

use xfs_btree::Seek;
use xfs_buffer::Result;
use xfs_format::agi::AgiCheck;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::{ForkFormat, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::log_item::LoggedFields;
use xfs_format::{AgBlock, AgInode, BlockKind, Geometry};
use xfs_trans::{ForkBytes, InodeImage, InodeRecord, Transaction};

use super::group::GroupInodes;
use crate::deferred::defer_free;
use crate::extent::BlockExtent;
use crate::owner::{BlockPurpose, ExtentOwner};

/// The result of freeing an inode: only the inode was freed, or its whole chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedInode {
    /// Only the inode was freed: its inode number can be allocated again.
    Inode,
    /// The whole chunk was freed, because it had no other inode in use. The inode number is no
    /// longer valid.
    Chunk,
}

/// Whether the inode that is freed is on an unlinked list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The inode is on an unlinked list.
    Unlinked,
    /// The inode is on no unlinked list. Its last name is removed in this transaction step, after
    /// this call (see the lock order of `xfs_alloc::inodes`).
    Named,
}

/// Frees an inode, which must be joined to the transaction and have no blocks. Removes the inode
/// from its unlinked list if it is on one. The transaction unlatches the inode at the end of this
/// step. `core` is the inode core in the transaction's view.
///
/// # Errors
///
/// The device's error; a corrupt structure, such as a btree or an unlinked list that does not
/// contain the inode.
///
/// # Panics
///
/// Panics if the inode is not joined.
#[doc(alias = "xfs_ifree")]
pub fn free_inode(
    tx: &mut Transaction<'_>,
    record: &Arc<InodeRecord>,
    core: &InodeCore,
    state: LinkState,
) -> Result<FreedInode> {
    let (mut group, inode) = GroupInodes::of_inode(tx, record.number())?;
    if state == LinkState::Unlinked {
        // Before any change: a caller that meets damage here can skip this inode and continue.
        let found = group.in_chunks(tx, |chunks| chunks.seek(Seek::AtOrBefore(inode)))?;
        in_use(found, inode).map_err(|check| group.corrupt(check))?;
        group.unlink(tx, inode)?;
    }
    let (chunk, left) = group.free_in_chunks(tx, inode)?;
    let bare = || InodeImage { core: core.clone(), data: ForkBytes::NONE, attr: ForkBytes::NONE };
    tx.remember_charge(record, core);
    tx.change_inode(record, LoggedFields::CORE, bare, clear);
    tx.leave(record);
    if ends(tx.geometry(), left) {
        group.remove_chunk(tx, chunk)?;
        group.close(tx);
        return Ok(FreedInode::Chunk);
    }
    group.replace_in_free_chunks(tx, chunk, left)?;
    group.agi.free_count += 1;
    tx.count_inodes(0, 1);
    group.close(tx);
    Ok(FreedInode::Inode)
}

/// Whether freeing an inode frees its whole chunk, when `left` is the state of the chunk
/// afterwards. A chunk is freed if none of its inodes is in use. On a volume with several chunks in
/// a block, no chunk is ever freed.
fn ends(geometry: &Geometry, left: InodeChunk) -> bool {
    let is_block_of_many = 1 << geometry.inodes_per_block_log > INODES_PER_CHUNK;
    left.free_count == left.count && !is_block_of_many
}

/// Returns the chunk that was found for an inode, and the index of the inode in it. Returns an
/// error unless the inode is in use.
fn in_use(found: Option<InodeChunk>, inode: AgInode) -> Result<(InodeChunk, u32), AgiCheck> {
    let place = found.and_then(|chunk| Some((chunk, chunk.position(inode)?)));
    let (chunk, position) = place.ok_or(AgiCheck::NoChunk { inode: inode.0 })?;
    match chunk.allocated() >> position & 1 {
        0 => Err(AgiCheck::NotInUse { inode: inode.0 }),
        _ => Ok((chunk, position)),
    }
}

/// Turns the on-disk image of an inode into that of a free inode.
#[doc(alias = "xfs_inode_uninit")]
fn clear(image: &mut InodeImage) {
    let core = &mut image.core;
    core.mode = 0;
    core.nlink = 0;
    core.flags = InodeFlags::empty();
    // The flags for the format of times and counters stay.
    core.flags2 &= InodeFlags2::BIGTIME | InodeFlags2::NREXT64;
    core.fork_offset = 0;
    core.data_format = ForkFormat::Extents;
    core.attr_format = ForkFormat::Extents;
    core.rdev = None;
    core.size = 0;
    core.generation = core.generation.wrapping_add(1);
    (image.data, image.attr) = (ForkBytes::NONE, ForkBytes::NONE);
}

impl<'journal> GroupInodes<'journal> {
    /// Finds the chunk of an inode that is freed. Updates the chunk's record in the btree of all
    /// chunks, unless the whole chunk is freed ([`ends`]). Returns the record before and after the
    /// change.
    fn free_in_chunks(
        &mut self,
        tx: &mut Transaction<'journal>,
        inode: AgInode,
    ) -> Result<(InodeChunk, InodeChunk)> {
        let geometry = tx.geometry();
        let found = self.in_chunks(tx, |chunks| {
            let found = chunks.seek(Seek::AtOrBefore(inode))?;
            let (chunk, position) = match in_use(found, inode) {
                Ok(place) => place,
                Err(check) => return Ok(Err(check)),
            };
            let left = chunk.with_freed(position);
            if !ends(geometry, left) {
                let is_replaced = chunks.replace(&chunk, &left)?;
                assert!(is_replaced, "the editor stands on the chunk that it has found");
            }
            Ok(Ok((chunk, left)))
        })?;
        found.map_err(|check| self.corrupt(check))
    }

    /// Frees the blocks of a chunk whose last used inode has just been freed, and removes the chunk
    /// from the btrees.
    #[doc(alias = "xfs_ifree_cluster")]
    fn remove_chunk(&mut self, tx: &mut Transaction<'journal>, chunk: InodeChunk) -> Result<()> {
        self.remove_record(tx, chunk)?;
        let (count, free) = (u32::from(chunk.count), u32::from(chunk.free_count));
        let counts = (self.agi.count.checked_sub(count), self.agi.free_count.checked_sub(free));
        let (Some(count_left), Some(free_left)) = counts else {
            return Err(self.corrupt(AgiCheck::NoneFree { free: self.agi.free_count }));
        };
        (self.agi.count, self.agi.free_count) = (count_left, free_left);
        if self.agi.newest_inode == Some(chunk.start) {
            self.agi.newest_inode = None;
        }
        tx.count_inodes(-i64::from(count), -i64::from(free));
        self.forget_cluster();
        self.state.count_freed_chunk();
        self.stale_clusters(tx, chunk)?;
        let geometry = tx.geometry();
        for (start, length_blocks) in present_blocks(chunk, geometry.inodes_per_block_log) {
            let start = geometry.join_block(self.number, start);
            let extent = BlockExtent { start, length_blocks };
            defer_free(tx, extent, Some(ExtentOwner::INODES), BlockPurpose::File);
        }
        Ok(())
    }

    fn remove_record(&mut self, tx: &mut Transaction<'journal>, chunk: InodeChunk) -> Result<()> {
        let differ = AgiCheck::ChunksDiffer { start: chunk.start.0 };
        let agreed = self.in_chunks(tx, |chunks| {
            let agrees = chunks.find(chunk.start)? == Some(chunk);
            if agrees {
                chunks.remove()?;
            }
            Ok(agrees)
        })?;
        if !agreed {
            return Err(self.corrupt(differ));
        }
        let agreed = self.in_free_chunks(tx, |free| match free.find(chunk.start)? {
            Some(found) if found == chunk => free.remove().map(|_| true),
            None => Ok(chunk.free_count == 0),
            Some(_) => Ok(false),
        })?;
        if agreed == Some(false) {
            return Err(self.corrupt(differ));
        }
        Ok(())
    }

    /// Marks the buffers of a chunk's inode clusters stale, and with them the chunk's inodes in
    /// memory.
    fn stale_clusters(&self, tx: &mut Transaction<'journal>, chunk: InodeChunk) -> Result<()> {
        let geometry = tx.geometry();
        let cluster_blocks = geometry.cluster_blocks();
        let per_cluster = cluster_blocks << geometry.inodes_per_block_log;
        let bytes = cluster_blocks << geometry.block_log;
        for position in (0..INODES_PER_CHUNK).step_by(per_cluster.max(1) as usize) {
            if chunk.present() >> position & 1 == 0 {
                continue;
            }
            let block = geometry.ag_inode_block(AgInode(chunk.start.0 + position));
            let at = geometry.ag_block_disk_addr(self.number, block);
            let buffer = tx.read(at, bytes, BlockKind::InodeCluster)?;
            tx.stale_cluster(&buffer);
        }
        Ok(())
    }
}

/// Returns the runs of blocks of a chunk that exist on disk. A sparse chunk may have several runs.
#[doc(alias = "xfs_difree_inode_chunk")]
fn present_blocks(
    chunk: InodeChunk,
    inodes_per_block_log: u8,
) -> impl Iterator<Item = (AgBlock, u32)> {
    let per_block = 1 << inodes_per_block_log;
    let present = chunk.present();
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = present.checked_shr(position).filter(|rest| *rest != 0)?;
        let first = position + rest.trailing_zeros();
        let length = (present >> first).trailing_ones();
        position = first + length;
        let start = AgBlock((chunk.start.0 + first) >> inodes_per_block_log);
        Some((start, length.div_ceil(per_block)))
    })
}
