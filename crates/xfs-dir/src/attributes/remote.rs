//! Remote attribute values: values that are stored in blocks of their own.

use xfs_buffer::{BufferCache, BufferExtent, Result};
use xfs_format::attr::remote::{self, RemoteIdentity};
use xfs_format::attr::{AttrCheck, RemoteBlock};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, Corruption, DiskAddr, FileBlock, FormatVersion, Lsn, Structure, StructureAddress,
};
use xfs_inode::{BlockShape, LiveInode, Mapping};

use super::Attributes;
use crate::dabtree::{place, verify_owner};

impl Attributes<'_> {
    /// Reads a value of `length_bytes` bytes from file block `first_block` of the attribute fork
    /// on. The caller has read the length from the attribute's entry, whose format limits the
    /// length.
    ///
    /// The blocks are contiguous in the fork, but may be scattered over the volume. Each extent is
    /// read as one buffer.
    pub(super) fn read_remote(&self, first_block: FileBlock, length_bytes: u32) -> Result<Vec<u8>> {
        let length = length_bytes as usize;
        let mut value = Vec::with_capacity(length);
        let mut block = first_block;
        while value.len() < length {
            let left = (length - value.len()) as u32;
            let needed = left.div_ceil(RemoteBlock::capacity(self.cache.geometry()));
            let mapping = self.inode.find(self.cache, ForkKind::Attr, block)?;
            let mapped = match mapping {
                Mapping::Extent(extent) => extent.end().0.saturating_sub(block.0),
                // The read of this one block reports that it is not mapped.
                Mapping::Hole { .. } => 1,
            };
            let count = needed.min(u32::try_from(mapped).unwrap_or(u32::MAX));
            self.read_pieces(block, count, length, &mut value)?;
            block = FileBlock(block.0.saturating_add(count.into()));
        }
        Ok(value)
    }

    /// Reads `count` blocks that are contiguous on disk, from file block `first` on. Appends the
    /// parts of the remote value in these blocks to `value`. `length` is the length of the whole
    /// value in bytes.
    fn read_pieces(
        &self,
        first: FileBlock,
        count: u32,
        length: usize,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let geometry = self.cache.geometry();
        let (block_size, capacity) = (geometry.block_size, RemoteBlock::capacity(geometry));
        let shape = BlockShape { length_blocks: count, kind: BlockKind::AttrRemote };
        let buffer = self.inode.read_fork_block(self.cache, ForkKind::Attr, first, shape)?;
        for (bytes, index) in buffer.bytes().chunks(block_size as usize).zip(0..) {
            let block = FileBlock(first.0.saturating_add(index));
            let place = place(self.inode, ForkKind::Attr, block);
            let wanted = value.len() as u32;
            let expected = (length as u32 - wanted).min(capacity);
            if geometry.version == FormatVersion::V4 {
                let piece = bytes.get(..expected as usize);
                value.extend_from_slice(piece.expect("a block holds its capacity"));
                continue;
            }
            let piece = RemoteBlock::decode(bytes, place)?;
            verify_owner(Some(piece.owner()), self.inode, Structure::Attr, place)?;
            let (offset, found) = (piece.offset(), piece.part().len() as u32);
            if (offset, found) != (wanted, expected) {
                let check = AttrCheck::RemotePiece { offset, bytes: found, wanted, expected };
                return Err(Corruption::new(Structure::Attr, place, check).into());
            }
            value.extend_from_slice(piece.part());
        }
        Ok(())
    }
}

/// Writes a value to blocks of the attribute fork, from file block `first` on. No attribute may
/// name these blocks yet.
///
/// The value goes directly to the device, not through the log. The transaction that names the value
/// is committed after a device flush, which makes the value durable before the name.
#[doc(alias = "xfs_attr_rmtval_set_value")]
pub(super) fn write(
    cache: &BufferCache,
    file: &LiveInode,
    first: FileBlock,
    value: &[u8],
) -> Result<()> {
    let geometry = cache.geometry();
    let capacity = RemoteBlock::capacity(geometry) as usize;
    let mut pieces = value.chunks(capacity).enumerate();
    let mut block = first;
    while pieces.len() != 0 {
        let left = pieces.len() as u64;
        let (extent, next) = run_at(cache, file, block, left)?;
        let buffer = cache.claim(&[extent], BlockKind::AttrRemote)?;
        let written = {
            let mut bytes = buffer.bytes_mut();
            let step = u64::from(geometry.block_basic_blocks());
            let identity = RemoteIdentity { owner: file.number(), uuid: geometry.meta_uuid };
            let blocks = bytes.chunks_mut(geometry.block_size as usize);
            for (index, bytes) in (0..).zip(blocks) {
                let next = pieces.next();
                let (number, piece) = next.expect("no more blocks than pieces are written");
                let at = DiskAddr(extent.at.0 + index * step);
                let offset = (number * capacity) as u32;
                remote::encode(bytes, at, &identity, offset, piece);
            }
            drop(bytes);
            // The block was never logged, so it has no LSN.
            cache.write(&buffer, Lsn(0))
        };
        buffer.unlatch();
        written?;
        block = next;
    }
    Ok(())
}

/// Returns the extent on disk of up to `blocks` blocks from file block `block` on, and the file
/// block after them.
fn run_at(
    cache: &BufferCache,
    file: &LiveInode,
    block: FileBlock,
    blocks: u64,
) -> Result<(BufferExtent, FileBlock)> {
    let geometry = cache.geometry();
    let not_mapped = || {
        let place = StructureAddress::Attr(file.number(), block);
        let check = ExtentCheck::NotMapped { file_block: block };
        Corruption::new(Structure::Extent, place, check)
    };
    let Mapping::Extent(extent) = file.inode().find(cache, ForkKind::Attr, block)? else {
        return Err(not_mapped().into());
    };
    let skipped = block.0 - extent.file_block.0;
    let count = (u64::from(extent.length_blocks) - skipped).min(blocks);
    let start = extent.start.checked_add(skipped).ok_or_else(not_mapped)?;
    let at = geometry.block_disk_addr(start).ok_or_else(not_mapped)?;
    let bytes = geometry.blocks_to_bytes(count).and_then(|bytes| u32::try_from(bytes).ok());
    let length_bytes = bytes.ok_or_else(not_mapped)?;
    Ok((BufferExtent { at, length_bytes }, FileBlock(block.0 + count)))
}
