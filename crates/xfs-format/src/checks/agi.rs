//! The errors of failed checks of the AGI.

use thiserror::Error;

/// A failed check of the AGI, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AgiCheck {
    #[error("version {version} is not known")]
    Version { version: u32 },
    #[error("belongs to group {found}, not to group {expected}")]
    GroupNumber { found: u32, expected: u32 },
    #[error("group of {found} blocks, but by the superblock it has {expected}")]
    Length { found: u32, expected: u32 },
    #[error("btree of {tree}: root block {block:#x} is outside the group")]
    Root { tree: &'static str, block: u32 },
    #[error("btree of {tree}: {levels} levels, outside 1..={max}")]
    Levels { tree: &'static str, levels: u32, max: u32 },
    #[error("{free} free of {count} inodes, but the group has room for {max}")]
    Inodes { free: u32, count: u32, max: u64 },
    #[error("the btree of {tree} takes {blocks} blocks, but the group has {length}")]
    Blocks { tree: &'static str, blocks: u32, length: u32 },
    #[error("unlinked list {bucket} starts at inode {inode:#x}, which cannot exist")]
    Unlinked { bucket: usize, inode: u32 },
    #[error("inode {inode:#x} is in no chunk of the inode btree")]
    NoChunk { inode: u32 },
    #[error("the inode btrees disagree about the chunk at {start:#x}")]
    ChunksDiffer { start: u32 },
    #[error("{free} free inodes counted, but the inode btrees have none")]
    NoneFree { free: u32 },
    #[error("inode {inode:#x} is free in the inode btree but in use on disk")]
    InUse { inode: u32 },
    #[error("inode {inode:#x} is already free")]
    NotInUse { inode: u32 },
    #[error("{stored} {what}, but the btrees have {counted}")]
    Counted { what: &'static str, stored: u32, counted: u64 },
}
