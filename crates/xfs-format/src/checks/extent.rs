//! The errors of failed checks of an extent record, and of a list of them.

use thiserror::Error;

use crate::addr::{FileBlock, FsBlock};

/// A failed check of an extent record or of a list of them, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum ExtentCheck {
    #[error("the extent at {file_block} has no length")]
    Empty { file_block: FileBlock },
    #[error("the extent at {file_block} starts before {end}, the end of the previous extent")]
    Order { file_block: FileBlock, end: FileBlock },
    #[error("the extent at {file_block} extends past the last block that a file can have")]
    FileLimit { file_block: FileBlock },
    #[error(
        "the extent at {file_block} maps {length_blocks} blocks at {start}, outside the file space"
    )]
    OutsideVolume { file_block: FileBlock, start: FsBlock, length_blocks: u32 },
    #[error("the extent at {file_block} is unwritten in a fork that cannot have such extents")]
    Unwritten { file_block: FileBlock },
    #[error("{count} extents do not fit into {room} bytes")]
    Room { count: u64, room: usize },
    #[error("the map holds {found} extents, but the inode counts {expected}")]
    Count { found: u64, expected: u64 },
    #[error("the btree root in the inode has level {level}, which is not possible")]
    RootLevel { level: u16 },
    #[error("the btree root has {count} entries, but only {limit} fit")]
    RootCount { count: u16, limit: usize },
    #[error("btree keys are not in order at {file_block}")]
    KeyOrder { file_block: FileBlock },
    #[error("btree entry at {file_block} points to {child}, outside the file space")]
    Child { file_block: FileBlock, child: FsBlock },
    #[error("the map has {mapped} blocks, but the volume has only {limit}")]
    MoreThanVolume { mapped: u64, limit: u64 },
    #[error("{file_block} is not mapped")]
    NotMapped { file_block: FileBlock },
}
