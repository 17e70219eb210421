//! The reasons why recovery of a volume is refused.

use thiserror::Error;
use xfs_buffer::{Error, IoError};
use xfs_format::log_item::ItemKind;
use xfs_format::{AgNumber, Corruption, DiskAddr, InodeNumber, Lsn};

/// The reason why recovery refuses a volume: something in the log, or on the volume after the
/// replay, that this recovery does not handle. Nothing on the volume was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The log holds intents without completions: their work was perhaps not done before the crash.
    #[error("{count} unfinished intents in the log, the first ({}) at {lsn}", kind.name())]
    UnfinishedIntents {
        /// Number of intents without a completion.
        count: usize,
        /// The kind of the first intent without a completion.
        kind: ItemKind,
        /// The LSN at which the first intent without a completion was logged.
        lsn: Lsn,
    },
    /// A file was open when its last name was removed, so its inode is in an unlinked list.
    #[error("{inode}, in {group}, was deleted while it was open and waits to be freed")]
    UnlinkedInode {
        /// The number of the group whose unlinked list holds the inode.
        group: AgNumber,
        /// The inode number of the first inode in the unlinked list.
        inode: InodeNumber,
    },
    /// The log changes the owner of a btree's blocks. Old kernels logged this when a
    /// defragmentation program swapped extents.
    #[error("the blocks of {inode} change their owner")]
    BlockOwner {
        /// The inode number of the new owner.
        inode: InodeNumber,
    },
    /// A directory block lies in several pieces, and the log has only some of them. No inode in the
    /// log says where the other pieces are, so the block's checksum cannot be computed.
    #[error("a directory block in several pieces, one at {at}, whose directory is not found")]
    DirectoryBlockInPieces {
        /// The address of one piece of the block that the log does have.
        at: DiskAddr,
    },
    /// Blocks were reserved for copy-on-write of shared blocks, and the copies were never made.
    #[error("blocks in {group} are set aside for copies on write that were never finished")]
    CopyOnWriteLeftovers {
        /// The number of the allocation group that contains the blocks reserved for copy-on-write.
        group: AgNumber,
    },
}

/// The reason why a log could not be replayed.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The log holds something that this recovery does not handle.
    #[error("the log cannot be replayed here: {0}")]
    Refused(#[from] Refusal),
    /// The log or the volume could not be read, is damaged, or has a feature that is not supported.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl RecoveryError {
    /// Returns whether the replay failed because a request to a device has failed. In that case
    /// nothing is known about the log. A replay that needs more memory than
    /// [`MAX_REPLAY_BYTES`](super::MAX_REPLAY_BYTES) is such a failure too, of the kind
    /// [`StorageFull`](std::io::ErrorKind::StorageFull): the log may be sound.
    #[must_use]
    pub const fn is_device_failure(&self) -> bool {
        matches!(self, Self::Failed(Error::Io(_)))
    }

    /// Returns the failed request, if a device has failed
    /// ([`is_device_failure`](Self::is_device_failure)).
    ///
    /// # Errors
    ///
    /// Returns the error itself if no device has failed.
    pub fn into_device_failure(self) -> Result<IoError, Self> {
        match self {
            Self::Failed(Error::Io(error)) => Ok(error),
            other => Err(other),
        }
    }
}

impl From<Corruption> for RecoveryError {
    fn from(corruption: Corruption) -> Self {
        Self::Failed(corruption.into())
    }
}
