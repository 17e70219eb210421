//! The statistics of transactions, log space and checkpoints.

use xfs_log::{LogCounts, PushCounts, SpaceUse};
use xfs_trans::TransactionCounts;

/// Transactions: the line `trans`. Each step of a chain is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Durable when their commit returned: those of label, UUID and growth.
    #[doc(alias = "xs_trans_sync")]
    pub synchronous: u64,
    /// Durable later.
    #[doc(alias = "xs_trans_async")]
    pub asynchronous: u64,
    /// Without any change.
    #[doc(alias = "xs_trans_empty")]
    pub empty: u64,
}

/// Checkpoints: commits are gathered in memory, and written to the log together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Written, or being written.
    pub written: u64,
    /// Transactions that were added to them.
    pub commits: u64,
    /// Bytes written for their items. An item that changes again before is written once.
    pub bytes: u64,
    /// Items of the checkpoint that is being gathered.
    pub gathered_items: u64,
    /// Bytes of these.
    pub gathered_bytes: u64,
}

/// Writes and forces of the log: the line `log`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Committed transactions. Each step of a chain is one.
    pub commits: u64,
    /// Records written.
    #[doc(alias = "xs_log_writes")]
    pub writes: u64,
    /// Bytes of these, in blocks of 512 bytes.
    #[doc(alias = "xs_log_blocks")]
    pub written_bytes: u64,
    /// How often a record waited for another one to be written, because the largest number of
    /// records was being filled.
    #[doc(alias = "xs_log_noiclogs")]
    pub buffer_waits: u64,
    /// Requests to make commits durable.
    #[doc(alias = "xs_log_force")]
    pub forces: u64,
    /// Of those: requests that waited, while something became durable.
    #[doc(alias = "xs_log_force_sleep")]
    pub forces_waited: u64,
}

/// Space in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSpaceStats {
    /// How often a transaction waited for space.
    #[doc(alias = "xs_sleep_logspace")]
    pub waits: u64,
    /// Bytes that are reserved now: by transactions, by commits that are not written yet, and for
    /// transactions to come.
    #[doc(alias = "write_grant_head_bytes")]
    pub reserved_bytes: u64,
    /// Bytes in use now. A recovery would replay them.
    pub used_bytes: u64,
}

/// Writing logged changes in place: the line `push_ail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteBackStats {
    /// Walks over the list of items that are not in place.
    #[doc(alias = "xs_push_ail")]
    pub walks: u64,
    /// Items whose write was started.
    #[doc(alias = "xs_push_ail_success")]
    pub started: u64,
    /// Items that could not be written before the log has their last change.
    #[doc(alias = "xs_push_ail_pinned")]
    pub pinned: u64,
    /// Items that another thread was changing.
    #[doc(alias = "xs_push_ail_locked")]
    pub locked: u64,
    /// Items that were being written already.
    #[doc(alias = "xs_push_ail_flushing")]
    pub flushing: u64,
    /// Items that are not in place now.
    pub unplaced_items: u64,
}

impl TransactionStats {
    pub(super) fn of(commits: u64, counts: TransactionCounts) -> Self {
        let TransactionCounts { synchronous, empty } = counts;
        Self { synchronous, asynchronous: commits.saturating_sub(synchronous), empty }
    }
}

impl CheckpointStats {
    pub(super) const fn of(log: &LogCounts) -> Self {
        Self {
            written: log.checkpoints,
            commits: log.commits,
            bytes: log.checkpoint_bytes,
            gathered_items: log.gathered_items,
            gathered_bytes: log.gathered_bytes,
        }
    }
}

impl LogStats {
    pub(super) const fn of(log: &LogCounts) -> Self {
        Self {
            commits: log.commits,
            writes: log.records,
            written_bytes: log.written_bytes,
            buffer_waits: log.buffer_waits,
            forces: log.forces,
            forces_waited: log.forces_waited,
        }
    }
}

impl LogSpaceStats {
    pub(super) const fn of(log: &LogCounts, space: SpaceUse) -> Self {
        let SpaceUse { used, granted } = space;
        Self { waits: log.space_waits, reserved_bytes: granted, used_bytes: used }
    }
}

impl WriteBackStats {
    pub(super) const fn of(log: &LogCounts) -> Self {
        let PushCounts { walks, started, pinned, locked, underway } = log.pushes;
        let unplaced_items = log.unplaced_items;
        Self { walks, started, pinned, locked, flushing: underway, unplaced_items }
    }
}
