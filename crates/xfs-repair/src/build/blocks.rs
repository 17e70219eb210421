//! Blocks of a directory or of an attribute fork that have no place on disk yet.
//!
//! Owns: the address, LSN and checksum of such a block. Does **not** own: its contents, which the
//! builders of directories and attributes make.

use xfs_format::dabtree::DaHeaderDisk;
use xfs_format::directory::data::DataHeaderDisk;
use xfs_format::{BlockKind, DiskAddr, FileBlock, Lsn};
use zerocopy::FromBytes;

/// A finished block of a fork, except for the fields that depend on its disk address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewBlock {
    /// The first block of the fork that the bytes fill. A directory block may fill several.
    pub(crate) file_block: FileBlock,
    /// The kind of block.
    pub(crate) kind: BlockKind,
    /// The bytes of the block. Its address, LSN and checksum are still missing.
    pub(crate) bytes: Vec<u8>,
}

impl NewBlock {
    /// Returns the bytes as they are written at `at`: with address, LSN and checksum.
    pub(crate) fn sealed(mut self, at: DiskAddr, lsn: Lsn) -> Vec<u8> {
        let own = match self.kind {
            BlockKind::DirectoryData | BlockKind::DirectoryFree => {
                DataHeaderDisk::mut_from_prefix(&mut self.bytes)
                    .ok()
                    .map(|(head, _)| &mut head.block)
            }
            _ => {
                DaHeaderDisk::mut_from_prefix(&mut self.bytes).ok().map(|(head, _)| &mut head.block)
            }
        };
        *own.expect("a block is longer than its header") = at.0.into();
        self.kind.seal(&mut self.bytes, lsn);
        self.bytes
    }
}
