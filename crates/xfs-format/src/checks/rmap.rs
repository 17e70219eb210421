//! The errors of failed checks of a reverse map record.

use thiserror::Error;

/// A failed check of a reverse map record, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum RmapCheck {
    #[error("{count} blocks from block {start} lie outside the allocation group")]
    Range { start: u32, count: u32 },
    #[error("blocks from block {start} have the invalid owner {owner:#x}")]
    Owner { start: u32, owner: u64 },
    #[error("offset {offset:#x} of blocks from block {start} does not match their owner")]
    Offset { start: u32, offset: u64 },
    #[error(
        "{count} blocks from block {start} are not mapped by {owner:#x} as the change requires"
    )]
    Missing { start: u32, count: u32, owner: u64 },
}
