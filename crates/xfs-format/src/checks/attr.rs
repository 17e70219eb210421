//! The errors of failed checks of extended attributes.

use thiserror::Error;

/// A failed check of extended attributes, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum AttrCheck {
    #[error("the size of the short form is {size}, but {available} bytes are available")]
    ShortFormSize { size: u16, available: usize },
    #[error("the entry at offset {offset} does not end inside the {end} bytes of the short form")]
    EntryEnd { offset: usize, end: usize },
    #[error("entry {index} has no name")]
    NameEmpty { index: usize },
    #[error("the name of entry {index} holds a NUL")]
    NameBytes { index: usize },
    #[error("entry {index} has unknown or conflicting flags {flags:#04x}")]
    Flags { index: usize, flags: u8 },
    #[error("{count} entries do not fit before the first name, at {first_used}")]
    Count { count: u16, first_used: u32 },
    #[error("the first name is at {first_used} in a block of {block_size}")]
    FirstUsed { first_used: u32, block_size: usize },
    #[error("entry {index} has hash {hash:#010x}, below the previous hash {previous:#010x}")]
    HashOrder { index: usize, hash: u32, previous: u32 },
    #[error("entry {index} has hash {hash:#010x}, but its name has hash {computed:#010x}")]
    Hash { index: usize, hash: u32, computed: u32 },
    #[error("the name of entry {index} at offset {offset} lies outside the area for names")]
    NamePlace { index: usize, offset: u16 },
    #[error("the name of entry {index} at offset {offset} overlaps another")]
    NameOverlap { index: usize, offset: u16 },
    #[error("the names take {found} bytes, but the header counts {used}")]
    UsedBytes { used: u16, found: usize },
    #[error("free range {index} of {size} bytes at {base} does not fit the block")]
    FreeRange { index: usize, base: u16, size: u16 },
    #[error("entry {index} cannot have a value of {length} bytes at fork block {block}")]
    RemoteValue { index: usize, block: u32, length: u32 },
    #[error("the block holds {bytes} bytes of a value from offset {offset}, which is impossible")]
    RemoteRange { offset: u32, bytes: u32 },
    #[error(
        "the block holds {bytes} bytes from offset {offset}, not {expected} bytes from {wanted}"
    )]
    RemotePiece { offset: u32, bytes: u32, wanted: u32, expected: u32 },
}
