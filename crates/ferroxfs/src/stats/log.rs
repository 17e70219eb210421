//! The statistics of transactions, log space and checkpoints.

use xfs_log::{LogCounts, PushCounts, SpaceUse};
use xfs_trans::TransactionCounts;

/// Counters of transactions, as in the line `trans` of /proc/fs/xfs/stat. A long operation commits
/// a chain of transactions, each of which is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// Number of transactions that were durable when their commit returned: those that change the
    /// label or the UUID, or grow the volume.
    #[doc(alias = "xs_trans_sync")]
    pub synchronous: u64,
    /// Number of transactions that became durable after their commit returned.
    #[doc(alias = "xs_trans_async")]
    pub asynchronous: u64,
    /// Number of transactions that changed nothing.
    #[doc(alias = "xs_trans_empty")]
    pub empty: u64,
}

/// Counters of checkpoints. A checkpoint is a group of commits that are gathered in memory and
/// written to the log together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Number of checkpoints that were written or are being written.
    pub written: u64,
    /// Number of transactions that were added to checkpoints.
    pub commits: u64,
    /// Number of bytes that checkpoints have written for their items. An item that changes several
    /// times in one checkpoint counts once.
    pub bytes: u64,
    /// Number of items of the checkpoint that is being gathered.
    pub gathered_items: u64,
    /// Number of bytes of the items of the checkpoint that is being gathered.
    pub gathered_bytes: u64,
}

/// Counters of writes and forces of the log, as in the line `log` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Number of committed transactions. A long operation commits a chain of transactions, each of
    /// which is counted.
    pub commits: u64,
    /// Number of log records that were written.
    #[doc(alias = "xs_log_writes")]
    pub writes: u64,
    /// Number of bytes of the written records, in whole blocks of 512 bytes.
    #[doc(alias = "xs_log_blocks")]
    pub written_bytes: u64,
    /// Number of times that a thread waited for an in-core log buffer, because all of them were in
    /// use.
    #[doc(alias = "xs_log_noiclogs")]
    pub buffer_waits: u64,
    /// Number of requests to make commits durable.
    #[doc(alias = "xs_log_force")]
    pub forces: u64,
    /// Number of requests to make commits durable that waited for a checkpoint.
    #[doc(alias = "xs_log_force_sleep")]
    pub forces_waited: u64,
}

/// Counters of the space in the log: waits for space, and its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSpaceStats {
    /// Number of times that a transaction waited for log space.
    #[doc(alias = "xs_sleep_logspace")]
    pub waits: u64,
    /// Number of bytes of log space that are reserved now: by transactions, by commits that are not
    /// written yet, and for later transactions.
    #[doc(alias = "write_grant_head_bytes")]
    pub reserved_bytes: u64,
    /// Number of bytes of the log that are in use now. A recovery would replay them.
    pub used_bytes: u64,
}

/// Counters of writing logged changes in place, as in the line `push_ail` of /proc/fs/xfs/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteBackStats {
    /// Number of walks over the list of logged items that are not written in place yet.
    #[doc(alias = "xs_push_ail")]
    pub walks: u64,
    /// Number of logged items whose write in place was started.
    #[doc(alias = "xs_push_ail_success")]
    pub started: u64,
    /// Number of logged items that could not be written in place, because their last change was not
    /// in the log yet.
    #[doc(alias = "xs_push_ail_pinned")]
    pub pinned: u64,
    /// Number of logged items that could not be written in place, because another thread was
    /// changing them.
    #[doc(alias = "xs_push_ail_locked")]
    pub locked: u64,
    /// Number of logged items that were already being written in place when a walk found them in
    /// the list.
    #[doc(alias = "xs_push_ail_flushing")]
    pub flushing: u64,
    /// Number of logged items that are not written in place yet.
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
