//! The errors of failed checks of a log item: of its regions, of the operations that carry them,
//! and against the volume onto which it is replayed.

use thiserror::Error;

use crate::log_record::byte_order::ByteOrder;

/// A failed check of a log item, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum LogItemCheck {
    #[error("transaction starts with {magic:#x}, which is not its magic number")]
    TransactionMagic { magic: u32 },
    #[error("unknown item kind {raw:#x}")]
    Kind { raw: u16 },
    #[error("{item} with {regions} regions is not possible")]
    RegionCount { item: &'static str, regions: u16 },
    #[error("{item} has {found} regions, but {promised} are expected")]
    Regions { item: &'static str, found: usize, promised: usize },
    #[error("{item}: a region of {bytes} bytes, but {needed} are needed")]
    Short { item: &'static str, bytes: usize, needed: usize },
    #[error("{item} with {count} entries does not fit {bytes} bytes")]
    Entries { item: &'static str, count: u32, bytes: usize },
    #[error("core of the logged inode starts with {magic:#x}, which is not its magic number")]
    CoreMagic { magic: u16 },
    #[error("fields {fields:#x} of an inode do not fit its {regions} regions")]
    InodeFields { fields: u32, regions: usize },
    #[error("bitmap of {words} words does not match a buffer of {blocks} basic blocks")]
    Bitmap { words: u32, blocks: u16 },
    #[error("region of {bytes} bytes, but the bitmap covers {needed}")]
    Piece { bytes: usize, needed: usize },
    #[error("unknown attribute operation {raw:#x}")]
    AttrOperation { raw: u32 },
    #[error("unknown attribute filter {filter:#x}")]
    AttrFilter { filter: u32 },
    #[error("unknown action {flags:#x} on an extent")]
    Action { flags: u32 },
    #[error("unknown flags {flags:#x} of an exchange of extents")]
    ExchangeFlags { flags: u64 },
    #[error("an attribute operation cannot have a name of {name} bytes and a value of {value}")]
    AttrLengths { name: u32, value: u32 },
    #[error("{field} is {value:#x}, which does not exist on the volume")]
    OutOfRange { field: &'static str, value: u64 },
    #[error("lies at {at:#x} with {blocks} basic blocks, outside the volume")]
    OutsideVolume { at: u64, blocks: u64 },
    #[error(
        "cancels {blocks} basic blocks at {at:#x}, and did not when the log was read for the first time"
    )]
    NewCancellation { at: u64, blocks: u32 },
    #[error("fork of {bytes} bytes, but only {room} fit")]
    Fork { bytes: usize, room: usize },
    #[error(
        "the root of a btree of {bytes} bytes with {records} records does not fit a fork of {room}"
    )]
    Root { bytes: usize, records: u16, room: usize },
    #[error("fork format {format} does not match a file of mode {mode:#o}")]
    Format { mode: u16, format: u8 },
    #[error("the contents of the buffer do not match its type {raw}")]
    BufferType { raw: u8 },
    #[error("an unlinked list of the buffer continues at inode 0")]
    NextUnlinked,
    #[error("the superblock would have {found} groups, fewer than {before}")]
    Groups { found: u32, before: u32 },
    #[error("{stored} {what} exceed the limit of {limit}")]
    Counter { what: &'static str, stored: u64, limit: u64 },
    #[error("an operation continues a region that never began")]
    Continuation,
    #[error("an operation of {bytes} bytes, but only {left} are left in the record")]
    OperationLength { bytes: u32, left: usize },
    #[error("transaction {transaction:#x} starts twice")]
    StartsTwice { transaction: u32 },
    #[error("an operation with unknown or conflicting flags {flags:#x}")]
    OperationFlags { flags: u8 },
    #[error("{found} regions, but the header of the transaction announces {promised}")]
    TransactionRegions { found: usize, promised: u32 },
    #[error("the log was written in {order}")]
    ByteOrder { order: ByteOrder },
}
