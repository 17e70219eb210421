//! The errors of failed checks of a parent pointer.

use thiserror::Error;

/// A failed check of a parent pointer, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum ParentCheck {
    #[error("the value is {length} bytes long, not 12")]
    Length { length: u32 },
    #[error("the name of {length} bytes is not valid for a directory entry")]
    Name { length: usize },
}
