//! The errors of failed checks of a block of a symbolic link's target.

use thiserror::Error;

/// A failed check of a block of a symbolic link's target, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum SymlinkCheck {
    #[error(
        "{length} bytes at offset {offset} of the target do not fit into a block with room for {room}"
    )]
    Range { offset: u32, length: u32, room: usize },
    #[error("the part starts at offset {found} of the target, not at {expected}")]
    Offset { found: u32, expected: u32 },
    #[error("the blocks hold {found} bytes of the target, but its size is {expected}")]
    Length { found: u64, expected: u64 },
    #[error("the target holds a NUL byte at offset {offset}")]
    Nul { offset: u64 },
}
