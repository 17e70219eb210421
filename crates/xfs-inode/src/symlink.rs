//! The target of a symbolic link.
//!
//! A target that does not fit in the inode is stored in blocks of its own. Each extent is one
//! buffer, with a header that names the link's inode and the offset of the piece in the target. On
//! a v4 volume there is no header.

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::symlink::{MAX_TARGET_BYTES, SYMLINK_HEADER_BYTES, SymlinkBlock, SymlinkCheck};
use xfs_format::{
    BlockKind, Check, Corruption, DiskAddr, FileBlock, FormatVersion, Structure, StructureAddress,
};

use crate::extent_map::Mapping;
use crate::fork::{Fork, corrupt};
use crate::fork_block::BlockShape;
use crate::inode::Inode;

impl Inode {
    /// Reads the target as it was given when the link was created: at most 1024 bytes, none of them
    /// NUL.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] if this is not a symbolic link; the device's error; the
    /// check that failed.
    #[doc(alias = "readlink")]
    pub fn read_target(&self, cache: &BufferCache) -> Result<Vec<u8>> {
        if self.file_type() != FileType::Symlink {
            return Err(PosixError::InvalidArgument.into());
        }
        let target = match self.fork(ForkKind::Data) {
            Fork::Local(bytes) => bytes.to_vec(),
            _ => self.read_remote_target(cache)?,
        };
        let (found, expected) = (target.len() as u64, self.core().size);
        if found != expected {
            return Err(self.corrupt_target(SymlinkCheck::Length { found, expected }).into());
        }
        match target.iter().position(|byte| *byte == 0) {
            Some(offset) => {
                Err(self.corrupt_target(SymlinkCheck::Nul { offset: offset as u64 }).into())
            }
            None => Ok(target),
        }
    }

    fn read_remote_target(&self, cache: &BufferCache) -> Result<Vec<u8>> {
        let geometry = cache.geometry();
        let size = self.core().size.min(MAX_TARGET_BYTES.into());
        let header_bytes = match geometry.version {
            FormatVersion::V4 => 0,
            FormatVersion::V5 => SYMLINK_HEADER_BYTES,
        };
        let room = u64::from(geometry.block_size) - header_bytes as u64;
        let blocks = size.div_ceil(room);
        let mut target = Vec::new();
        let mut next = 0;
        while next < blocks && (target.len() as u64) < size {
            let file_block = FileBlock(next);
            let mapping = self.find(cache, ForkKind::Data, file_block)?;
            let Mapping::Extent(extent) = mapping else {
                return Err(corrupt(self.core(), ExtentCheck::NotMapped { file_block }).into());
            };
            let count = extent.end().0.saturating_sub(next).min(blocks - next);
            let shape = BlockShape { length_blocks: count as u32, kind: BlockKind::Symlink };
            let buffer = self.read_fork_block(cache, ForkKind::Data, file_block, shape)?;
            let bytes = buffer.bytes();
            next += count;
            if geometry.version == FormatVersion::V4 {
                let left = (size - target.len() as u64) as usize;
                target.extend(bytes.iter().take(left));
                continue;
            }
            let at = geometry.block_disk_addr(extent.start).unwrap_or(DiskAddr::NULL);
            let block = SymlinkBlock::decode(&bytes, at)?;
            self.check_piece(&block, target.len() as u32)?;
            target.extend_from_slice(block.target);
        }
        Ok(target)
    }

    /// Checks that `block` holds a part of this link's target, and that the part starts at offset
    /// `expected` in the target.
    fn check_piece(&self, block: &SymlinkBlock<'_>, expected: u32) -> Result<()> {
        if block.owner != self.number() {
            let (found, expected) = (block.owner.0, self.number().0);
            return Err(self.corrupt_target(Check::ForeignOwner { found, expected }).into());
        }
        let found = block.offset_bytes;
        if found != expected {
            return Err(self.corrupt_target(SymlinkCheck::Offset { found, expected }).into());
        }
        Ok(())
    }

    fn corrupt_target(&self, check: impl Into<Check>) -> Corruption {
        Corruption::new(Structure::Symlink, StructureAddress::Inode(self.number()), check)
    }
}

#[cfg(test)]
mod tests;
