//! The reasons why a repair stops.

use std::io;

use xfs_check::Unsupported;
use xfs_evidence::SuperblockDoubt;

/// The reason why a volume is not repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The device could not be read, or the overlay could not store a change.
    #[error("cannot read or change byte {offset}: {error}")]
    Io {
        /// The offset on the device at which the request began, in bytes.
        offset: u64,
        /// The error of the device.
        error: io::Error,
    },
    /// The volume has a feature that the checker does not know.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A structure has to be rebuilt, and the volume has too few free blocks for it.
    #[error("{count} blocks are needed to rebuild metadata, and too few are free")]
    NoSpace {
        /// The number of blocks that are needed.
        count: u64,
    },
    /// No superblock was found, so nothing about the volume is known.
    #[error("no superblock of an XFS v5 volume was found")]
    NoSuperblock,
    /// Neither the superblock nor a copy of it is left. It can be written again without the fields
    /// that no other structure repeats, but losses are not allowed.
    #[error(
        "no superblock is left; with --allow-loss, one is written from the headers of groups \
         without the label, the stripe sizes and features that nothing uses"
    )]
    OnlyGroupHeaders,
    /// A superblock was found, and it may belong to another volume or lack a field without which a
    /// repair could destroy the volume.
    #[error("the superblock that was found is not certain: {0}; copy the files with salvage")]
    DoubtfulSuperblock(SuperblockDoubt),
    /// The realtime section of the volume is on a device of its own, which was not named.
    #[error("the realtime section of the volume is on a device of its own, which was not named")]
    NoRealtimeDevice,
    /// The log is external. Its device would need an undo file of its own.
    #[error("a volume with an external log is not repaired yet")]
    ExternalLog,
    /// The log is dirty or damaged, and could not be replayed.
    #[error("the log cannot be replayed: {0}")]
    Log(String),
    /// The device could not be flushed.
    #[error("cannot flush the device: {0}")]
    Flush(io::Error),
    /// The undo file could not be written or read.
    #[error("cannot use the undo file: {0}")]
    UndoFile(io::Error),
    /// The quarantine could not be written.
    #[error("cannot write the quarantine: {0}")]
    Quarantine(io::Error),
    /// The caller stopped the repair before it wrote anything.
    #[error("the repair was stopped before it wrote anything")]
    Stopped,
    /// A plan or an undo file is damaged, or does not belong to the volume.
    #[error("{0}")]
    Refused(String),
}

/// The result of an operation of a repair.
pub type Result<T> = std::result::Result<T, RepairError>;
