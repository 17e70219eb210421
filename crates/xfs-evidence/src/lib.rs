//! Reads a damaged XFS volume, and returns everything that can still be read.
//!
//! Owns: reading inodes, forks, directories, attributes and parent pointers without stopping at the
//! first damage; the sweep, which finds blocks and inodes that state their own address. Also owns:
//! the geometry of a volume without a usable superblock; inodes and metadata blocks in old records
//! of the log, and whether those are their newest contents. Does **not** own: the replay of the
//! log, or the decision which results to use, which `xfs-repair` and `xfs-salvage` make.
//!
//! Every result has three parts: what could be read, the damages that were met, and the ranges that
//! are missing. A part of a result that comes from a block with a wrong checksum is marked as
//! [`Trust::Doubtful`].
//!
//! # Invariants
//!
//! - **E1** Nothing is written.
//! - **E2** A damage never ends a read: the rest of the structure is read and returned.
//! - **E3** Every loop over pointers has a budget. A budget that is used up is reported as a
//!   damage. All useless reads of fork blocks, such as reads of blocks that belong to another fork,
//!   share one budget of the [`Evidence`].
//! - **E4** Memory for a result grows only with blocks that were read.

mod attributes;
mod directory;
mod division;
mod fork;
mod group_tree;
mod inode;
mod log_runs;
mod logged;
mod logged_blocks;
mod quota;
mod read_around;
mod realtime;
mod records;
mod restored;
mod superblock;
mod sweep;
mod symlink;
mod volume;
mod waste;

pub use attributes::{AttributeDoubt, AttributeEvidence, FoundAttribute, FoundParent, FoundValue};
pub use directory::{DirectoryEvidence, FoundName};
pub use fork::{FileRange, ForkEvidence, FoundLeaf, MOST_EXTENTS};
pub use group_tree::{TreeBlock, TreePointer, TreeVisitor};
pub use inode::{Absence, InodeEvidence, InodeState};
pub use logged::LoggedInode;
pub use logged_blocks::{BlockProof, LoggedBlock};
pub use quota::RecognisedDquots;
pub use realtime::{RealtimeTreeBlocks, RealtimeTreeEvidence};
pub use records::GroupRecords;
pub use restored::{MappedForks, RestoredInode};
pub use superblock::{
    SuperblockDoubt, SuperblockEvidence, SuperblockSource, complete_by_log, find_by_headers,
    find_superblock,
};
pub use sweep::{FoundBlock, Sighting, Sweep, SweepProgress, sweep};
pub use symlink::{LinkEvidence, is_block_of_symlink};
pub use volume::{ByteRange, Damage, Evidence, Trust};
