//! The errors of failed checks of the AGF.

use thiserror::Error;

/// A failed check of the AGF, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AgfCheck {
    #[error("version {version} is not known")]
    Version { version: u32 },
    #[error("belongs to group {found}, not to group {expected}")]
    GroupNumber { found: u32, expected: u32 },
    #[error("group of {found} blocks, but by the superblock it has {expected}")]
    Length { found: u32, expected: u32 },
    #[error("free list from {first} to {last} with {count} entries, in a ring of {size}")]
    FreeList { first: u32, last: u32, count: u32, size: u32 },
    #[error("btree of {tree}: root block {block:#x} is outside the group")]
    Root { tree: &'static str, block: u32 },
    #[error("btree of {tree}: {levels} levels, outside 1..={max}")]
    Levels { tree: &'static str, levels: u32, max: u32 },
    #[error("{free} free blocks of {length}, the longest extent has {longest}")]
    FreeBlocks { free: u32, longest: u32, length: u32 },
    #[error("{blocks} blocks in {what} are not possible in a group of {length}")]
    Blocks { what: &'static str, blocks: u32, length: u32 },
    #[error("{stored} {what}, but the btrees have {counted}")]
    Counted { what: &'static str, stored: u32, counted: u64 },
}
