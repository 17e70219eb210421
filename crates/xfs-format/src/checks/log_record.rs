//! The errors of failed checks of the log and its records.

use thiserror::Error;

use crate::addr::Lsn;

/// A failed check of the log, with the values that failed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum LogRecordCheck {
    #[error("format version {version}, but only versions 1 and 2 exist")]
    Version { version: u32 },
    #[error("log buffer size of {size} bytes is not allowed")]
    Size { size: u32 },
    #[error("{length} bytes of payload do not fit the log buffer of {size}")]
    Length { length: u32, size: u32 },
    #[error("its stored position is {lsn}")]
    Misplaced { lsn: Lsn },
    #[error("the tail at {tail} cannot be reached from {lsn}")]
    Tail { tail: Lsn, lsn: Lsn },
    #[error("too many damaged records overlap from here on; the search stopped")]
    Overlap,
    #[error("is longer than the log, which has {log_blocks} blocks")]
    LongerThanLog { log_blocks: u32 },
    #[error("an operation of an unknown client {client:#x}")]
    Client { client: u8 },
    #[error(
        "the log of {log_bytes} bytes at {start} does not fit the device of {device_bytes} bytes"
    )]
    PastDevice { start: u64, log_bytes: u64, device_bytes: u64 },
    #[error("the log was never written: its first block is zero")]
    Zeroed,
    #[error("the log starts in cycle {first} and ends in cycle {last}")]
    Cycles { first: u32, last: u32 },
    #[error("no record starts in the {blocks} blocks before this block")]
    NoRecord { blocks: u32 },
    #[error("the last record has its tail here, but the next record starts {blocks} blocks later")]
    NoTailRecord { blocks: u32 },
    #[error(
        "the record before the head has {recorded} blocks, but {present} blocks have its cycle"
    )]
    TooShort { recorded: u32, present: u32 },
    #[error("cannot be read, but the record at {later} proves that it was durable")]
    Lost { later: Lsn },
    #[error("has no checksum, which every record with changes of a version 5 volume has")]
    NoChecksum,
    #[error("the log is empty between the tail at {tail} and the head at {head}")]
    Order { head: Lsn, tail: Lsn },
}
