//! The interface of name changes to the layers below: one fork of one inode, in a transaction.
//!
//! Owns: the trait, and block addresses in messages. Does **not** own transactions and extent maps;
//! [`live`] connects them. Tests use a fork in memory instead, so that every form of a directory is
//! changed and checked without a volume.

pub(crate) mod live;
#[cfg(test)]
pub(crate) mod memory;

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, Check, Corruption, DiskAddr, FileBlock, Geometry, InodeNumber, StructureAddress,
};

use crate::edit::BlockEdit;

/// The location of a fork's contents.
pub(crate) enum Contents {
    /// The fork does not exist.
    Absent,
    /// Bytes in the inode.
    Inline(Arc<[u8]>),
    /// In blocks, of which the fork has none at present.
    NoBlocks,
    /// In blocks of the fork.
    Blocks,
}

/// One fork of an inode that is joined to a transaction.
///
/// A block is identified by its first file block. Directory blocks have the length that the volume
/// defines, blocks of attributes have one filesystem block.
pub(crate) trait ForkStore {
    /// A block in memory.
    type Block: Clone;

    /// Returns the kind of the fork.
    fn fork(&self) -> ForkKind;
    /// Returns the number of the fork's inode.
    fn number(&self) -> InodeNumber;
    /// Returns the sizes of the volume.
    fn geometry(&self) -> &Geometry;
    /// Returns the location of the contents.
    fn contents(&mut self) -> Result<Contents>;
    /// Returns the number of bytes that the fork can hold in the inode.
    fn local_room(&self) -> usize;
    /// Stores `bytes` in the inode. The fork must have no blocks any more.
    fn set_local(&mut self, bytes: &[u8]) -> Result<()>;
    /// Drops the contents in the inode; blocks may follow.
    fn set_empty(&mut self) -> Result<()>;
    /// Creates the fork, if it does not exist, with room for `bytes` bytes in the inode.
    fn make_fork(&mut self, bytes: usize) -> Result<()>;
    /// Removes the fork, which has no blocks.
    fn remove_fork(&mut self) -> Result<()>;
    /// Returns the size of the file.
    fn size(&self) -> u64;
    /// Sets the size of the file.
    fn set_size(&mut self, bytes: u64);
    /// Reads and verifies the block at `at`.
    fn read(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// Allocates a new block of zeros at `at`. Changes nothing if the volume has no space.
    fn grow(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// Frees a block.
    fn shrink(&mut self, at: FileBlock, block: &Self::Block) -> Result<()>;
    /// Returns the lowest hole of `blocks` filesystem blocks from `from` on.
    fn first_unused(&mut self, from: FileBlock, blocks: u32) -> Result<FileBlock>;
    /// Returns the end of the last mapping below `limit`; 0 if there is no mapping.
    fn last_before(&mut self, limit: FileBlock) -> Result<FileBlock>;
    /// Returns the address of a block on the volume.
    fn address(&self, block: &Self::Block) -> DiskAddr;
    /// Passes the contents of a block to `look`.
    fn view<R>(&self, block: &Self::Block, look: impl FnOnce(&[u8]) -> R) -> R;
    /// Changes a block.
    fn edit<R>(&mut self, block: &Self::Block, change: impl FnOnce(&mut BlockEdit<'_>) -> R) -> R;

    /// Returns the address of a block in the fork, for messages.
    fn place(&self, block: FileBlock) -> StructureAddress {
        match self.fork() {
            ForkKind::Data => StructureAddress::Data(self.number(), block),
            ForkKind::Attr => StructureAddress::Attr(self.number(), block),
        }
    }

    /// Returns the address of the inode, for messages.
    fn inode_place(&self) -> StructureAddress {
        StructureAddress::Inode(self.number())
    }

    /// Reads a block and checks its owner (I1 of the crate).
    fn read_owned(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block> {
        let block = self.read(at, kind)?;
        let owner = self.view(&block, |bytes| owner(bytes, kind));
        match owner {
            Some(found) if found != self.number() => {
                let check = Check::ForeignOwner { found: found.0, expected: self.number().0 };
                Err(Corruption::new(kind.structure(), self.place(at), check).into())
            }
            _ => Ok(block),
        }
    }
}

/// The offset of the owner in data blocks and blocks of the free index.
/// [`xfs_format::dabtree::owner`] finds the owner in other blocks.
const DATA_OWNER: usize = std::mem::offset_of!(xfs_format::directory::data::DataHeaderDisk, owner);

fn owner(bytes: &[u8], kind: BlockKind) -> Option<InodeNumber> {
    match kind {
        BlockKind::DirectoryData | BlockKind::DirectoryFree => {
            let field = bytes.get(DATA_OWNER..)?.first_chunk()?;
            Some(InodeNumber(u64::from_be_bytes(*field)))
        }
        _ => xfs_format::dabtree::owner(bytes),
    }
}

/// Returns the number of filesystem blocks in a block of this kind.
pub(crate) fn length_blocks(geometry: &Geometry, kind: BlockKind) -> u32 {
    match kind {
        BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree => {
            1 << geometry.directory_block_log
        }
        _ => 1,
    }
}
