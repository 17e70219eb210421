//! The superblock's numbers, covering an idle log, and the end.
//!
//! The numbers are not logged with each change: they are written when the log is covered or ended.
//! Covering lets an idle log say that nothing in it has to be replayed; [`upkeep`](super::upkeep) looks
//! now and then whether that is due.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockDisk;
use xfs_format::{BlockKind, DiskAddr};
use zerocopy::FromBytes;

use super::Journal;
use crate::transaction::Transaction;

impl Journal {
    /// Has an idle log say that nothing in it has to be replayed. Returns whether it was covered: it
    /// is not if there was nothing to do, or if others have begun to commit meanwhile.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn cover_if_idle(self: &Arc<Self>) -> Result<bool> {
        if self.is_shut_down() || !self.log.needs_cover() {
            return Ok(false);
        }
        self.log.cover_with(|| self.log_superblock(|| self.begin_superblock()))
    }

    /// Writes everything in place, the superblock's numbers too, and ends the log cleanly.
    ///
    /// # Errors
    ///
    /// What stopped the log. It has to be recovered then.
    ///
    /// # Panics
    ///
    /// If somebody still uses the volume.
    pub fn unmount(self: Arc<Self>) -> Result<()> {
        self.stop_upkeep();
        self.log.quiesce()?;
        self.log_superblock(|| self.begin_superblock())?;
        let journal = Arc::into_inner(self);
        let Some(Self { log, .. }) = journal else { unreachable!("a volume unmounted in use") };
        log.unmount()
    }

    fn begin_superblock(self: &Arc<Self>) -> Result<Transaction<'_>> {
        self.begin(TransactionKind::Superblock, 0)
    }

    /// Logs the superblock with the present numbers.
    pub(super) fn log_superblock<'a>(
        self: &'a Arc<Self>,
        begin: impl FnOnce() -> Result<Transaction<'a>>,
    ) -> Result<()> {
        let counts = self.counts_for_disk()?;
        let mut tx = begin()?;
        let length_bytes = self.geometry().sector_size;
        let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
        tx.change(&buffer, 0..size_of::<SuperblockDisk>(), |bytes| {
            if let Ok((disk, _)) = SuperblockDisk::mut_from_prefix(bytes) {
                disk.inode_count = counts.inodes.into();
                disk.free_inodes = counts.free_inodes.into();
                disk.free_blocks = counts.free_blocks.into();
                // Nothing in the log will need a feature any more.
                disk.log_incompat = 0.into();
            }
        });
        tx.commit()?;
        Ok(())
    }
}
