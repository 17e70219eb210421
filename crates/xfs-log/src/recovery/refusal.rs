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
    /// The log holds intents: work that was promised and not done.
    #[error("{count} unfinished intents in the log, the first ({}) at {lsn}", kind.name())]
    UnfinishedIntents {
        /// The number of intents.
        count: usize,
        /// The kind of the first intent.
        kind: ItemKind,
        /// The LSN at which the first intent was logged.
        lsn: Lsn,
    },
    /// A file without a name was open, so its inode is in an unlinked list.
    #[error("{inode}, in {group}, was deleted while it was open and waits to be freed")]
    UnlinkedInode {
        /// The group number of the unlinked list that holds the inode.
        group: AgNumber,
        /// The first inode of the list.
        inode: InodeNumber,
    },
    /// The log changes the owner of blocks of a btree, as old defragmentation programs logged it.
    #[error("the blocks of {inode} change their owner")]
    BlockOwner {
        /// The inode number of the new owner.
        inode: InodeNumber,
    },
    /// A directory block lies in several pieces, of which the log has some. No inode in the log
    /// says where the others are, so the block's checksum cannot be computed.
    #[error("a directory block in several pieces, one at {at}, whose directory is not found")]
    DirectoryBlockInPieces {
        /// The address of a piece that the log has.
        at: DiskAddr,
    },
    /// Blocks were set aside for copies of shared blocks that were never made.
    #[error("blocks in {group} are set aside for copies on write that were never finished")]
    CopyOnWriteLeftovers {
        /// The group number of the blocks.
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
