//! The facts of realtime groups that the passes over inodes need.
//!
//! Owns: the types of the summaries alone. The check of realtime groups makes the summaries, and
//! itself uses the code that reads inodes. Without this module, each of the two would import the
//! other.

use std::collections::BTreeMap;

use xfs_format::InodeNumber;

/// The facts of a realtime group that the next passes need.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealtimeSummary {
    /// Extents that are recorded as shared, in order: first block and the block after the last.
    pub(crate) shared: Vec<(u32, u32)>,
    /// Whether `shared` has all shared extents of the group.
    pub(crate) knows_shared: bool,
    /// The number of free realtime extents, if the whole bitmap is known.
    pub(crate) free_extents: Option<u64>,
    /// For each btree that could be read completely, its inode and its number of blocks outside of
    /// the inode.
    pub(crate) trees: Vec<(InodeNumber, u64)>,
}

/// The summaries of the realtime groups, by their numbers.
pub(crate) type RealtimeSummaries = BTreeMap<u32, RealtimeSummary>;
