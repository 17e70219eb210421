//! The errors of failed checks of a free-space record.

use thiserror::Error;

/// A failed check of a free-space record, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum FreeSpaceCheck {
    #[error("{count} blocks from block {start} lie outside the allocation group")]
    Range { start: u32, count: u32 },
    #[error("the btrees disagree whether {count} blocks from block {start} are free")]
    Disagree { start: u32, count: u32 },
}
