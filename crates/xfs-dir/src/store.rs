//! The interface between changes of names and the layers below: one fork of one inode, in a
//! transaction.
//!
//! Owns: the trait, and the block addresses in error messages. Does **not** own transactions and
//! extent maps; [`live`] connects them. Tests use a fork in memory instead, so that every form of a
//! directory is changed and checked without a volume.

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

/// Where the contents of a fork are stored.
pub(crate) enum ForkPlacement {
    /// Nowhere: the fork does not exist.
    Absent,
    /// In the inode, as these bytes.
    Inline(Arc<[u8]>),
    /// In blocks, but the fork has no blocks at present.
    NoBlocks,
    /// In blocks of the fork.
    Blocks,
}

/// One fork of an inode that is joined to a transaction.
///
/// A block is identified by its first file block. Directory blocks have the length that the volume
/// defines, blocks of attributes have one filesystem block.
pub(crate) trait ForkStore {
    /// The type of a block in memory.
    type Block: Clone;

    /// Returns which of the inode's forks this is.
    fn fork(&self) -> ForkKind;
    /// Returns the inode number.
    fn number(&self) -> InodeNumber;
    /// Returns the geometry of the volume.
    fn geometry(&self) -> &Geometry;
    /// Returns where the contents of the fork are stored.
    fn contents(&mut self) -> Result<ForkPlacement>;
    /// Returns the number of bytes that the fork can hold in the inode.
    fn local_room(&self) -> usize;
    /// Stores `bytes` as the contents of the fork in the inode. The fork must have no blocks.
    fn set_local(&mut self, bytes: &[u8]) -> Result<()>;
    /// Removes the contents that are stored in the inode, so that blocks can hold contents of the
    /// fork instead.
    fn set_empty(&mut self) -> Result<()>;
    /// Creates the fork if it does not exist, with room for `bytes` bytes in the inode.
    fn make_fork(&mut self, bytes: usize) -> Result<()>;
    /// Removes the fork, which must have no blocks.
    fn remove_fork(&mut self) -> Result<()>;
    /// Returns the size field of the inode in bytes.
    fn size(&self) -> u64;
    /// Sets the size field of the inode to `bytes`.
    fn set_size(&mut self, bytes: u64);
    /// Reads and verifies the block at file block `at`.
    fn read(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// Returns the block at file block `at` if the store knows it without a look at the fork's
    /// mappings. Such a block is mapped.
    fn known(&mut self, _at: FileBlock, _kind: BlockKind) -> Option<Self::Block> {
        None
    }
    /// Allocates a new block of zeros at file block `at`. Changes nothing if the volume has no
    /// space.
    fn grow(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// Frees the block at file block `at`.
    fn shrink(&mut self, at: FileBlock, block: &Self::Block) -> Result<()>;
    /// Returns the lowest file block at or after `from` where a hole of at least `blocks`
    /// filesystem blocks starts.
    fn first_unused(&mut self, from: FileBlock, blocks: u32) -> Result<FileBlock>;
    /// Returns the file block after the last mapped block below `limit`; 0 if no block below
    /// `limit` is mapped.
    fn last_before(&mut self, limit: FileBlock) -> Result<FileBlock>;
    /// Returns the address of a block on disk.
    fn address(&self, block: &Self::Block) -> DiskAddr;
    /// Calls `look` with the contents of a block.
    fn view<R>(&self, block: &Self::Block, look: impl FnOnce(&[u8]) -> R) -> R;
    /// Calls `change` with an edit of a block, and logs the ranges that `change` has changed.
    fn edit<R>(&mut self, block: &Self::Block, change: impl FnOnce(&mut BlockEdit<'_>) -> R) -> R;

    /// Returns the address of a block in the fork, for error messages.
    fn place(&self, block: FileBlock) -> StructureAddress {
        match self.fork() {
            ForkKind::Data => StructureAddress::Data(self.number(), block),
            ForkKind::Attr => StructureAddress::Attr(self.number(), block),
        }
    }

    /// Returns the address of the inode, for error messages.
    fn inode_place(&self) -> StructureAddress {
        StructureAddress::Inode(self.number())
    }

    /// Reads a block and checks I1 of `xfs_dir`: a block of another inode is an error.
    fn read_owned(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block> {
        let block = self.read(at, kind)?;
        self.check_owner(&block, at, kind).map(|()| block)
    }

    /// Checks that a block belongs to this inode (I1 of `xfs_dir`).
    fn check_owner(&self, block: &Self::Block, at: FileBlock, kind: BlockKind) -> Result<()> {
        match self.view(block, |bytes| owner(bytes, kind)) {
            Some(found) if found != self.number() => {
                let check = Check::ForeignOwner { found: found.0, expected: self.number().0 };
                Err(Corruption::new(kind.structure(), self.place(at), check).into())
            }
            _ => Ok(()),
        }
    }
}

/// The offset of the owner in data blocks and blocks of the free-space index.
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
