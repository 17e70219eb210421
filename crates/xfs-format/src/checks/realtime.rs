//! The errors of failed checks of the free space of a realtime section.

use thiserror::Error;

/// A failed check of the bitmap or the summary of a realtime section, with the values that failed
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum RealtimeSpaceCheck {
    #[error("{count} realtime extents from extent {start} lie outside the section")]
    Range { start: u64, count: u64 },
    #[error("realtime extent {extent} is to be freed, and is free already")]
    Free { extent: u64 },
    #[error("realtime extent {extent} is to be allocated, and is in use")]
    InUse { extent: u64 },
    #[error("the summary miscounts the free runs of 2^{level} extents in bitmap block {block}")]
    Counter { level: u32, block: u64 },
    #[error("the bitmap has {found} free extents where the superblock has {counted}")]
    FreeCount { counted: u64, found: u64 },
    #[error("{blocks} blocks of a zone are to be freed, and {used} are counted as used")]
    ZoneUsed { blocks: u32, used: u32 },
    #[error("the reverse map of a zone ends at block {end}, and {used} blocks are counted as used")]
    ZoneRecords { end: u64, used: u32 },
    #[error("blocks {start} to {end} of a realtime file are not whole realtime extents")]
    Unaligned { start: u64, end: u64 },
    #[error("the file has no block {block} of the {needed} that the section needs")]
    Hole { block: u64, needed: u64 },
}
