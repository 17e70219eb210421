//! The errors of failed checks of the AGFL.

use thiserror::Error;

/// A failed check of the AGFL, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AgflCheck {
    #[error("belongs to group {found}, not to group {expected}")]
    GroupNumber { found: u32, expected: u32 },
    #[error("entry {place} holds block {block:#x}, which does not exist")]
    Block { place: usize, block: u32 },
    #[error("the AGF counts {count} entries, but its range goes from {first} to {last}")]
    Range { first: u32, last: u32, count: u32 },
    #[error("entry {place} is in use but empty")]
    Empty { place: usize },
}
