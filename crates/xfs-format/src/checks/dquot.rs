//! The errors of failed checks of a dquot.

use thiserror::Error;

/// A failed check of a dquot, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum DquotCheck {
    #[error("dquot of ID {id}: version is {version}, not 1")]
    Version { id: u32, version: u8 },
    #[error("dquot of ID {id}: type {kind:#04x} is not exactly one quota type")]
    Kind { id: u32, kind: u8 },
    #[error("dquot of ID {id}: type is {kind:#04x}, not that of its file, {expected:#04x}")]
    OtherKind { id: u32, kind: u8, expected: u8 },
    #[error("dquot has ID {id}, not {expected}")]
    Id { id: u32, expected: u32 },
    #[error("block {block} of the quota file lies after the dquots of all IDs")]
    Block { block: u64 },
    #[error("dquot of ID {id} is recorded at byte {offset} of its block, which is not its place")]
    Offset { id: u32, offset: u32 },
    #[error("dquot of ID {id} has bigtime timers, but the volume has no bigtime")]
    Bigtime { id: u32 },
    #[error("dquot of ID {id}: {count} {what} exceed the soft limit {limit}, but no timer runs")]
    Timer { id: u32, what: &'static str, count: u64, limit: u64 },
}
