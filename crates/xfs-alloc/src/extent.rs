//! Ranges of blocks that are allocated and freed.

use xfs_format::FsBlock;

/// A range of blocks of the volume, inside one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockExtent {
    /// The first block.
    pub start: FsBlock,
    /// Number of blocks.
    pub length_blocks: u32,
}
