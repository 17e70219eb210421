//! The reasons for which a volume is not recovered.

use thiserror::Error;
use xfs_buffer::Error;
use xfs_format::log_item::ItemKind;
use xfs_format::{AgNumber, Corruption, DiskAddr, InodeNumber, Lsn};

/// Something in the log, or left by it on the volume, that is not recovered here. Nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Work was promised and not done.
    #[error("{count} unfinished intents in the log, the first ({}) at {lsn}", kind.name())]
    UnfinishedIntents {
        /// The number of intents.
        count: usize,
        /// The kind of the first one.
        kind: ItemKind,
        /// The LSN at which it was logged.
        lsn: Lsn,
    },
    /// A file without a name was open.
    #[error("{inode}, in {group}, was deleted while it was open and waits to be freed")]
    UnlinkedInode {
        /// The group whose unlinked list holds it.
        group: AgNumber,
        /// The first inode of the list.
        inode: InodeNumber,
    },
    /// Blocks of a btree change their owner, as old defragmentation programs logged it.
    #[error("the blocks of {inode} change their owner")]
    BlockOwner {
        /// The new owner.
        inode: InodeNumber,
    },
    /// A directory block in several pieces. The log has some of them, and no inode in the log says
    /// where the others are, so its checksum cannot be computed.
    #[error("a directory block in several pieces, one at {at}, whose directory is not found")]
    DirectoryBlockInPieces {
        /// The piece.
        at: DiskAddr,
    },
    /// Blocks were set aside for copies of shared blocks that were never made.
    #[error("blocks in {group} are set aside for copies on write that were never finished")]
    CopyOnWriteLeftovers {
        /// The group.
        group: AgNumber,
    },
}

/// The reason for which a log could not be replayed.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The log holds something that is not recovered here.
    #[error("the log cannot be replayed here: {0}")]
    Refused(#[from] Refusal),
    /// The log or the volume could not be read, is damaged, or is refused by name.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<Corruption> for RecoveryError {
    fn from(corruption: Corruption) -> Self {
        Self::Failed(corruption.into())
    }
}
