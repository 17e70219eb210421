//! The errors of failed checks of a reference count record.

use thiserror::Error;

/// A failed check of a reference count record, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum RefcountCheck {
    #[error("{count} blocks from block {start} lie outside the allocation group")]
    Range { start: u32, count: u32 },
    #[error("{references} references to shared blocks from block {start} are not possible")]
    Shared { start: u32, references: u32 },
    #[error(
        "{references} references to blocks reserved for copy-on-write from block {start} are not possible"
    )]
    Staging { start: u32, references: u32 },
    #[error("the count of {references} references to block {start} does not allow the change")]
    Change { start: u32, references: u32 },
}
