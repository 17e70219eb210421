//! What a change of names needs from the layers below: one fork of one inode, in a transaction.
//!
//! Owns: the trait, and the names of places in messages. Does **not** own: transactions and extent
//! maps; [`live`] connects them. Tests keep a fork in memory instead, so that every form of a
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

/// Where the contents of a fork are.
pub(crate) enum Contents {
    /// There is no fork.
    Absent,
    /// In the inode.
    Inline(Arc<[u8]>),
    /// In blocks, of which there are none.
    NoBlocks,
    /// In blocks.
    Blocks,
}

/// One fork of an inode that is joined to a transaction.
///
/// Blocks are named by the file block at which they start. Directory blocks are as long as the
/// volume says, blocks of attributes one filesystem block.
pub(crate) trait ForkStore {
    /// A block that was read.
    type Block: Clone;

    /// Which fork it is.
    fn fork(&self) -> ForkKind;
    /// Whose it is.
    fn number(&self) -> InodeNumber;
    /// Sizes of the volume.
    fn geometry(&self) -> &Geometry;
    /// Where the contents are.
    fn contents(&mut self) -> Result<Contents>;
    /// Bytes that may lie in the inode.
    fn local_room(&self) -> usize;
    /// Puts `bytes` into the inode. There are no blocks any more.
    fn set_local(&mut self, bytes: &[u8]) -> Result<()>;
    /// Drops what lies in the inode; blocks may follow.
    fn set_empty(&mut self) -> Result<()>;
    /// Makes the fork, if there is none, with room for some bytes.
    fn make_fork(&mut self, bytes: usize) -> Result<()>;
    /// Removes the fork. It has no blocks.
    fn remove_fork(&mut self) -> Result<()>;
    /// The size of the file.
    fn size(&self) -> u64;
    /// Sets it.
    fn set_size(&mut self, bytes: u64);
    /// The block at `at`, verified.
    fn read(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// A new block at `at`, all zeros. Out of space, nothing has changed.
    fn grow(&mut self, at: FileBlock, kind: BlockKind) -> Result<Self::Block>;
    /// Gives the space of a block back.
    fn shrink(&mut self, at: FileBlock, block: &Self::Block) -> Result<()>;
    /// The lowest hole of `blocks` filesystem blocks from `from` on.
    fn first_unused(&mut self, from: FileBlock, blocks: u32) -> Result<FileBlock>;
    /// The end of the last mapping below `limit`, 0 if there is none.
    fn last_before(&mut self, limit: FileBlock) -> Result<FileBlock>;
    /// Where a block lies on the volume.
    fn address(&self, block: &Self::Block) -> DiskAddr;
    /// Looks at a block.
    fn view<R>(&self, block: &Self::Block, look: impl FnOnce(&[u8]) -> R) -> R;
    /// Changes a block.
    fn edit<R>(&mut self, block: &Self::Block, change: impl FnOnce(&mut BlockEdit<'_>) -> R) -> R;

    /// The place of a block in the fork, for messages.
    fn place(&self, block: FileBlock) -> StructureAddress {
        match self.fork() {
            ForkKind::Data => StructureAddress::Data(self.number(), block),
            ForkKind::Attr => StructureAddress::Attr(self.number(), block),
        }
    }

    /// The place of the inode, for messages.
    fn inode_place(&self) -> StructureAddress {
        StructureAddress::Inode(self.number())
    }

    /// Reads a block and checks whose it is.
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

/// Byte offset of the owner in data and free-index blocks; the others have it where
/// [`xfs_format::dabtree::owner`] finds it.
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

/// Filesystem blocks in a block of this kind.
pub(crate) fn length_blocks(geometry: &Geometry, kind: BlockKind) -> u32 {
    match kind {
        BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree => {
            1 << geometry.directory_block_log
        }
        _ => 1,
    }
}
