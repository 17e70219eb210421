//! The errors of failed checks of an inode chunk record.

use thiserror::Error;

/// A failed check of an inode chunk record, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum InodeChunkCheck {
    #[error("first inode {start} is not at the start of a block or chunk")]
    Alignment { start: u32 },
    #[error("inodes of the chunk at {start} lie outside the allocation group")]
    Range { start: u32 },
    #[error("{count} inodes with hole mask {holes:#06x}")]
    Count { count: u8, holes: u16 },
    #[error("{free_count} free inodes counted, but the free mask has {counted}")]
    FreeCount { free_count: u32, counted: u32 },
    #[error("chunk at {start} has no free inode, but is in the free-inode btree")]
    NoneFree { start: u32 },
}
