//! Errors of planning, applying and undoing a repair.
//!
//! Owns: the reason why a repair stops. Does **not** own: damage of the volume. Damage is a finding
//! of the checker, and a plan lists the findings that no rule answers.

use std::io;

/// The reason why a repair stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The device failed.
    #[error("cannot {operation} {length} bytes at byte {offset}: {source}")]
    Device {
        /// The operation: `read` or `write`.
        operation: &'static str,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The error of the host.
        source: io::Error,
    },
    /// The device could not be flushed.
    #[error("cannot flush the device: {0}")]
    Flush(io::Error),
    /// The spill file of the overlay failed.
    #[error("cannot use the spill file of the repair: {0}")]
    Spill(io::Error),
    /// The undo file failed.
    #[error("cannot use the undo file: {0}")]
    UndoFile(io::Error),
    /// No superblock was found, so nothing about the volume is known.
    #[error("no superblock of an XFS v5 volume was found")]
    NoSuperblock,
    /// The volume has a feature that no rule knows.
    #[error("{0}")]
    Unsupported(String),
    /// The log is dirty and could not be replayed.
    #[error("the log is dirty and cannot be replayed: {0}")]
    Log(String),
    /// The caller stopped the repair.
    #[error("stopped")]
    Stopped,
    /// A plan or an undo file is damaged, or does not belong to the image.
    #[error("{0}")]
    Refused(String),
}

/// The result of an operation of a repair.
pub type Result<T> = std::result::Result<T, RepairError>;
