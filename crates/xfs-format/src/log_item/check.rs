//! What can be wrong with an item: in its own regions, in how operations bring them, or against the
//! volume onto which it is replayed.

use thiserror::Error;

use crate::log_record::ByteOrder;

/// A check of a log item that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum LogItemCheck {
    #[error("transaction starts with {magic:#x}")]
    TransactionMagic { magic: u32 },
    #[error("the kind {raw:#x} is not known")]
    Kind { raw: u16 },
    #[error("{item} of {regions} regions")]
    RegionCount { item: &'static str, regions: u16 },
    #[error("{item} has {found} regions, where {promised} belong to it")]
    Regions { item: &'static str, found: usize, promised: usize },
    #[error("{item}: a region of {bytes} bytes, where {needed} are needed")]
    Short { item: &'static str, bytes: usize, needed: usize },
    #[error("{item} of {count} entries in {bytes} bytes")]
    Entries { item: &'static str, count: u32, bytes: usize },
    #[error("core of the logged inode starts with {magic:#x}")]
    CoreMagic { magic: u16 },
    #[error("fields {fields:#x} of an inode do not fit its {regions} regions")]
    InodeFields { fields: u32, regions: usize },
    #[error("bitmap of {words} words for a buffer of {blocks} basic blocks")]
    Bitmap { words: u32, blocks: u16 },
    #[error("piece of {bytes} bytes where the bitmap has {needed}")]
    Piece { bytes: usize, needed: usize },
    #[error("attribute operation {raw:#x} is not known")]
    AttrOperation { raw: u32 },
    #[error("attribute filter {filter:#x}")]
    AttrFilter { filter: u32 },
    #[error("the action {flags:#x} on an extent is not known")]
    Action { flags: u32 },
    #[error("name of {name} bytes and value of {value} in an attribute operation")]
    AttrLengths { name: u32, value: u32 },
    #[error("{field} is {value:#x}, which the volume does not have")]
    OutOfRange { field: &'static str, value: u64 },
    #[error("lies at {at:#x} with {blocks} basic blocks, outside the volume")]
    OutsideVolume { at: u64, blocks: u64 },
    #[error("fork of {bytes} bytes where {room} fit")]
    Fork { bytes: usize, room: usize },
    #[error(
        "the root of a btree of {bytes} bytes with {records} records does not fit a fork of {room}"
    )]
    Root { bytes: usize, records: u16, room: usize },
    #[error("format {format} does not suit a file of mode {mode:#o}")]
    Format { mode: u16, format: u8 },
    #[error("buffer of the type {raw} holds something else")]
    BufferType { raw: u8 },
    #[error("an unlinked list of the buffer would go on at inode 0")]
    NextUnlinked,
    #[error("the superblock would have {found} groups, fewer than {before}")]
    Groups { found: u32, before: u32 },
    #[error("{stored} {what} are more than {limit}")]
    Counter { what: &'static str, stored: u64, limit: u64 },
    #[error("an operation continues a region that never began")]
    Continuation,
    #[error("an operation of {bytes} bytes, where {left} are left in the record")]
    OperationLength { bytes: u32, left: usize },
    #[error("transaction {transaction:#x} starts twice")]
    StartsTwice { transaction: u32 },
    #[error("an operation with the flags {flags:#x}")]
    OperationFlags { flags: u8 },
    #[error("{found} regions, where the header of the transaction has {promised}")]
    TransactionRegions { found: usize, promised: u32 },
    #[error("the log was written in {order}")]
    ByteOrder { order: ByteOrder },
}
