//! Writes the superblock's counts, covers an idle log, and unmounts.
//!
//! The counts are not logged with each change. They are written when the log is covered, and at
//! unmount. A covered log records that recovery need not replay anything in it.
//! [`upkeep`](super::upkeep) checks periodically whether the log is idle.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{BlockKind, DiskAddr};
use zerocopy::FromBytes;

use super::Journal;
use crate::transaction::Transaction;

impl Journal {
    /// Covers the log if it is idle: a covered log records that recovery need not replay anything
    /// in it. Returns whether the log was covered. The log is not covered if it is not idle, if it
    /// is covered already, or if other threads have begun to commit.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn cover_if_idle(self: &Arc<Self>) -> Result<bool> {
        if self.is_shut_down() || !self.log.needs_cover() {
            return Ok(false);
        }
        self.log.cover_with(|| self.log_superblock(|| self.begin_superblock()))
    }

    /// Writes everything to its home location on disk, including the superblock's counts, and ends
    /// the log with an unmount record.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. The log then needs recovery.
    ///
    /// # Panics
    ///
    /// Panics if the volume is still in use.
    pub fn unmount(self: Arc<Self>) -> Result<()> {
        self.stop_upkeep();
        self.log.quiesce()?;
        self.log_superblock(|| self.begin_superblock())?;
        let journal = Arc::into_inner(self);
        let Some(Self { log, .. }) = journal else { unreachable!("a volume is unmounted in use") };
        log.unmount()
    }

    fn begin_superblock(self: &Arc<Self>) -> Result<Transaction<'_>> {
        self.begin(TransactionKind::Superblock, 0)
    }

    /// Logs the superblock with the current counts. `begin` begins the transaction that does so.
    pub(super) fn log_superblock<'a>(
        self: &'a Arc<Self>,
        begin: impl FnOnce() -> Result<Transaction<'a>>,
    ) -> Result<()> {
        let counts = self.counts_for_disk()?;
        let realtime = self.realtime_count.value().map(|count| count());
        let length_bytes = self.geometry().sector_size;
        begin()?.commit_or_cancel(|tx| {
            let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
            tx.change(&buffer, 0..size_of::<SuperblockDisk>(), |bytes| {
                let (disk, _) = SuperblockDisk::mut_from_prefix(bytes)
                    .expect("the changed range holds the superblock");
                disk.inode_count = counts.inodes.into();
                disk.free_inodes = counts.free_inodes.into();
                disk.free_blocks = counts.free_blocks.into();
                if let Some(extents) = realtime {
                    disk.free_realtime_extents = extents.into();
                }
                // Nothing in the log will need a feature any more.
                disk.log_incompat = 0.into();
            });
            Ok(())
        })
    }
}
