//! Metadata blocks that lie in a fork: directories and attributes.

use xfs_buffer::{Buffer, BufferCache, BufferExtent, Result};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Corruption, FileBlock, Geometry, Place, Structure};

use crate::extent_map::{ExtentMap, Mapping};
use crate::inode::Inode;

impl Inode {
    /// The buffer over the `count` blocks of a fork from `first` on, verified as `block_kind`. They
    /// may be apart on the volume.
    ///
    /// # Errors
    ///
    /// [`ExtentCheck::NotMapped`] where one of them does not exist; the device's error; the check
    /// that failed.
    #[doc(alias = "xfs_da_read_buf")]
    pub fn read_fork_block(
        &self,
        cache: &BufferCache,
        kind: ForkKind,
        first: FileBlock,
        (count, block_kind): (u32, BlockKind),
    ) -> Result<Buffer> {
        let map = self.extent_map(cache, kind)?;
        let pieces = map_blocks(map, first, count, cache.geometry()).map_err(|check| {
            let place = match kind {
                ForkKind::Data => Place::Data(self.number(), first),
                ForkKind::Attr => Place::Attr(self.number(), first),
            };
            Corruption::new(Structure::Extent, place, check)
        })?;
        match pieces.as_slice() {
            [piece] => cache.read(piece.at, piece.length_bytes, block_kind),
            pieces => cache.read_mapped(pieces, block_kind),
        }
    }
}

/// Where `count` blocks from `first` on lie, each neighbour in one piece.
fn map_blocks(
    map: &ExtentMap,
    first: FileBlock,
    count: u32,
    geometry: &Geometry,
) -> core::result::Result<Vec<BufferExtent>, ExtentCheck> {
    let mut pieces: Vec<BufferExtent> = Vec::new();
    let mut left = u64::from(count);
    let mut file_block = first;
    while left != 0 {
        let not_mapped = ExtentCheck::NotMapped { file_block };
        let Mapping::Extent(extent) = map.find(file_block) else { return Err(not_mapped) };
        let skipped = file_block.0 - extent.file_block.0;
        let blocks = (u64::from(extent.length_blocks) - skipped).min(left);
        let start = extent.start.checked_add(skipped).ok_or(not_mapped)?;
        let at = geometry.block_disk_addr(start).ok_or(not_mapped)?;
        let bytes = geometry.blocks_to_bytes(blocks).and_then(|bytes| u32::try_from(bytes).ok());
        pieces.push(BufferExtent { at, length_bytes: bytes.ok_or(not_mapped)? });
        left -= blocks;
        file_block = file_block.checked_add(blocks).ok_or(not_mapped)?;
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
