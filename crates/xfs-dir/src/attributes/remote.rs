//! Values that lie in blocks of their own.

use xfs_buffer::Result;
use xfs_format::attr::{AttrCheck, RemoteBlock};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Corruption, FileBlock, Structure};
use xfs_inode::{BlockShape, Mapping};

use super::Attributes;
use crate::dabtree::{place, verify_owner};

impl Attributes<'_> {
    /// The value of `length_bytes`, which its entry bounds, from `first_block` of the fork on.
    ///
    /// The blocks follow each other in the fork; on the volume they may be apart, and each extent
    /// of them is read as one buffer.
    pub(super) fn read_remote(&self, first_block: FileBlock, length_bytes: u32) -> Result<Vec<u8>> {
        let block_size = self.cache.geometry().block_size;
        let length = length_bytes as usize;
        let mut value = Vec::with_capacity(length);
        let mut block = first_block;
        while value.len() < length {
            let left = (length - value.len()) as u32;
            let needed = left.div_ceil(RemoteBlock::capacity(block_size));
            let mapping = self.inode.find(self.cache, ForkKind::Attr, block)?;
            let mapped = match mapping {
                Mapping::Extent(extent) => extent.end().0.saturating_sub(block.0),
                // Reading the one block says that it is missing.
                Mapping::Hole { .. } => 1,
            };
            let count = needed.min(u32::try_from(mapped).unwrap_or(u32::MAX));
            self.read_pieces((block, count), length, &mut value)?;
            block = FileBlock(block.0.saturating_add(count.into()));
        }
        Ok(value)
    }

    /// Appends the pieces in `count` blocks that lie together.
    fn read_pieces(
        &self,
        (first, count): (FileBlock, u32),
        length: usize,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let block_size = self.cache.geometry().block_size;
        let shape = BlockShape { length_blocks: count, kind: BlockKind::AttrRemote };
        let buffer = self.inode.read_fork_block(self.cache, ForkKind::Attr, first, shape)?;
        for (bytes, index) in buffer.bytes().chunks(block_size as usize).zip(0..) {
            let block = FileBlock(first.0.saturating_add(index));
            let place = place(self.inode, ForkKind::Attr, block);
            let piece = RemoteBlock::decode(bytes, place)?;
            verify_owner(Some(piece.owner()), self.inode, Structure::Attr, place)?;
            let wanted = value.len() as u32;
            let expected = (length as u32 - wanted).min(RemoteBlock::capacity(block_size));
            let (offset, found) = (piece.offset(), piece.piece().len() as u32);
            if (offset, found) != (wanted, expected) {
                let check = AttrCheck::RemotePiece { offset, bytes: found, wanted, expected };
                return Err(Corruption::new(Structure::Attr, place, check).into());
            }
            value.extend_from_slice(piece.piece());
        }
        Ok(())
    }
}
