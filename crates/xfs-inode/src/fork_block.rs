//! Metadata blocks in a fork: blocks of directories and of extended attributes.

use std::ops::Deref;

use xfs_buffer::{Buffer, BufferCache, BufferExtent, Result};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Corruption, FileBlock, Geometry, Structure, StructureAddress};

use crate::extent_map::ExtentMap;
use crate::inode::Inode;

/// The length and the kind of a metadata block in a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// The length in filesystem blocks. It is 1 except for directories, whose blocks may consist of
    /// several filesystem blocks.
    pub length_blocks: u32,
    /// The kind of block that the verifier checks for.
    pub kind: BlockKind,
}

impl Inode {
    /// Reads the metadata block that starts at file block `first` of a fork. The filesystem blocks
    /// of the metadata block may be scattered over the volume.
    ///
    /// # Errors
    ///
    /// [`ExtentCheck::NotMapped`] if one of the blocks is not mapped; the device's error; the check
    /// that failed.
    #[doc(alias = "xfs_da_read_buf")]
    pub fn read_fork_block(
        &self,
        cache: &BufferCache,
        fork: ForkKind,
        first: FileBlock,
        shape: BlockShape,
    ) -> Result<Buffer> {
        cache.read_mapped(&fork_block_extents(self, cache, fork, first, shape)?, shape.kind)
    }
}

/// The disk addresses of a metadata block. Nearly all blocks are contiguous, and need no memory
/// allocation.
#[derive(Debug)]
pub(crate) enum BlockExtents {
    One([BufferExtent; 1]),
    Several(Vec<BufferExtent>),
}

impl Deref for BlockExtents {
    type Target = [BufferExtent];

    fn deref(&self) -> &[BufferExtent] {
        match self {
            Self::One(piece) => piece,
            Self::Several(pieces) => pieces,
        }
    }
}

/// Finds the disk addresses of the metadata block that starts at a file block of a fork.
pub(crate) fn fork_block_extents(
    inode: &Inode,
    cache: &BufferCache,
    fork: ForkKind,
    first: FileBlock,
    shape: BlockShape,
) -> Result<BlockExtents> {
    let map = inode.extent_map(cache, fork)?;
    map_blocks(map, first, shape.length_blocks, cache.geometry()).map_err(|check| {
        let place = match fork {
            ForkKind::Data => StructureAddress::Data(inode.number(), first),
            ForkKind::Attr => StructureAddress::Attr(inode.number(), first),
        };
        Corruption::new(Structure::Extent, place, check).into()
    })
}

/// Finds the disk addresses of `length_blocks` file blocks from `first` on. Contiguous blocks give
/// one extent.
fn map_blocks(
    map: &ExtentMap,
    first: FileBlock,
    length_blocks: u32,
    geometry: &Geometry,
) -> core::result::Result<BlockExtents, ExtentCheck> {
    let mut left = u64::from(length_blocks);
    let (piece, mut blocks) = map_piece(map, first, left, geometry)?;
    if blocks == left {
        return Ok(BlockExtents::One([piece]));
    }
    let (mut pieces, mut file_block) = (vec![piece], first);
    while blocks < left {
        let not_mapped = ExtentCheck::NotMapped { file_block };
        file_block = file_block.checked_add(blocks).ok_or(not_mapped)?;
        left -= blocks;
        let piece;
        (piece, blocks) = map_piece(map, file_block, left, geometry)?;
        pieces.push(piece);
    }
    Ok(BlockExtents::Several(pieces))
}

/// Finds the disk addresses of the file blocks from `file_block` on that are contiguous on disk, at
/// most `limit_blocks`. Returns them as one extent, with the number of blocks.
#[inline]
fn map_piece(
    map: &ExtentMap,
    file_block: FileBlock,
    limit_blocks: u64,
    geometry: &Geometry,
) -> core::result::Result<(BufferExtent, u64), ExtentCheck> {
    let not_mapped = ExtentCheck::NotMapped { file_block };
    let extent = map.extent_over(file_block).ok_or(not_mapped)?;
    let skipped = file_block.0 - extent.file_block.0;
    let blocks = (u64::from(extent.length_blocks) - skipped).min(limit_blocks);
    let start = extent.start.checked_add(skipped).ok_or(not_mapped)?;
    let at = geometry.block_disk_addr(start).ok_or(not_mapped)?;
    let bytes = geometry.blocks_to_bytes(blocks).and_then(|bytes| u32::try_from(bytes).ok());
    let length_bytes = bytes.ok_or(not_mapped)?;
    Ok((BufferExtent { at, length_bytes }, blocks))
}

#[cfg(test)]
mod tests;
