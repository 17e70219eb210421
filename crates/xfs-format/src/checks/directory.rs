//! The errors of failed checks of a directory.

use thiserror::Error;

/// A failed check of a directory, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum DirectoryCheck {
    #[error("the directory lacks a file of a realtime group, or the directory of these files")]
    NoMetadataFile,
    #[error("the directory is its own ancestor")]
    Cycle,
    #[error("the directory has no parent pointer, or more than one")]
    Parents,
    #[error("the record at offset {offset} does not end inside the entries, which end at {end}")]
    RecordEnd { offset: usize, end: usize },
    #[error("the entry at offset {offset} has no name")]
    NameEmpty { offset: usize },
    #[error("the name at offset {offset} holds a slash or a NUL, or is a misplaced dot name")]
    NameBytes { offset: usize },
    #[error("the entry at offset {offset} has unknown type {type_byte}")]
    TypeByte { offset: usize, type_byte: u8 },
    #[error("the entry at offset {offset} names inode {inode}, which cannot exist")]
    EntryInode { offset: usize, inode: u64 },
    #[error("the record at offset {offset} is tagged {tag}")]
    Tag { offset: usize, tag: u16 },
    #[error("the free record at offset {offset} cannot be {length} bytes long")]
    FreeLength { offset: usize, length: u16 },
    #[error("the free record at offset {offset} directly follows another free record")]
    FreeAdjacent { offset: usize },
    #[error(
        "the free record at offset {offset} of {length} bytes is missing in the best free table"
    )]
    FreeNotListed { offset: usize, length: u16 },
    #[error("entry {index} of the best free table has offset {offset} and length {length}")]
    BestFree { index: usize, offset: u16, length: u16 },
    #[error("the first entries are not \".\" and \"..\"")]
    DotEntries,
    #[error("{count} index entries, {stale} of them stale, do not match the block")]
    IndexCount { count: u32, stale: u32 },
    #[error("index entry {index} has hash {hash:#010x}, below the previous hash {previous:#010x}")]
    HashOrder { index: usize, hash: u32, previous: u32 },
    #[error("the entry at offset {offset} is not in the index")]
    NotIndexed { offset: usize },
    #[error("index entry {hash:#010x} points to offset {offset}, where there is no such entry")]
    IndexTarget { hash: u32, offset: u64 },
    #[error("{live} index entries are live, but {expected} are expected")]
    IndexLive { live: u32, expected: u32 },
    #[error("{count} best free lengths do not fit the block")]
    BestCount { count: u32 },
    #[error("first data block {first} and {count} best free lengths, {used} of them in use")]
    FreeIndex { first: u32, count: u32, used: u32 },
    #[error("data block {index} exists, but the free-space index marks it as missing")]
    FreeUnknown { index: u64 },
    #[error("the free-space index has no entry for data block {index}, which exists")]
    FreeMissing { index: u64 },
    #[error("short form of {count} entries, {wide} of them wide, does not fit {size} bytes")]
    ShortForm { count: u8, wide: u8, size: usize },
    #[error("the short form entry at offset {offset} has cookie offset {cookie_offset}")]
    ShortFormOrder { offset: usize, cookie_offset: u16 },
    #[error("size of {size} bytes, but the data blocks end at file block {end}")]
    Size { size: u64, end: u64 },
    #[error("the block does not match the form of the directory")]
    Form,
    #[error("the entry at offset {offset} has the same name as the entry at offset {first}")]
    NameTwice { offset: u64, first: u64 },
    #[error("index ({indexed} entries) and data blocks ({listed}) differ in count, hash or offset")]
    IndexDiffers { indexed: u64, listed: u64 },
}
