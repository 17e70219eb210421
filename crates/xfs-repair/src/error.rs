//! The reasons why a repair cannot go on.

use std::io;

use xfs_check::Unsupported;

/// The reason why a volume is not repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The device could not be read, or the overlay could not keep a change.
    #[error("cannot read or change byte {offset}: {error}")]
    Io {
        /// The first byte of the request.
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
}
