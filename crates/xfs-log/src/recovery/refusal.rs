//! Why a volume was not recovered.

use thiserror::Error;
use xfs_buffer::Error;
use xfs_format::log_item::ItemKind;
use xfs_format::{AgNumber, Corruption, DiskAddr, InodeNumber, Lsn};

/// Something in the log, or left on the volume by it, that is not recovered here. Nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Work was promised and not done.
    #[error("{count} unfinished intents in the log, the first ({}) at {lsn}", kind.name())]
    UnfinishedIntents {
        /// How many.
        count: usize,
        /// What the first is about.
        kind: ItemKind,
        /// Where it was logged.
        lsn: Lsn,
    },
    /// A file without a name was open.
    #[error("{inode}, in {group}, was deleted while it was open and waits to be freed")]
    UnlinkedInode {
        /// The group whose list it is on.
        group: AgNumber,
        /// The first of the list.
        inode: InodeNumber,
    },
    /// Blocks of a btree change their owner, as old programs that defragment had it.
    #[error("the blocks of {inode} change their owner")]
    BlockOwner {
        /// The new owner.
        inode: InodeNumber,
    },
    /// A directory block that does not lie in one piece, of which the log has pieces, and no inode in the
    /// log says where the others are: so its checksum cannot be made.
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

/// Why the log could not be replayed.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// It holds something that is not recovered here.
    #[error("the log cannot be replayed here: {0}")]
    Refused(#[from] Refusal),
    /// It, or the volume, could not be read, or cannot be believed, or is refused by name.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<Corruption> for RecoveryError {
    fn from(corruption: Corruption) -> Self {
        Self::Failed(corruption.into())
    }
}
