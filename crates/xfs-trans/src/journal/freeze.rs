//! Freezing: stops all transactions and brings everything to disk, so that the device can be
//! copied.
//!
//! Owns: the order of the steps. Does **not** own the right to freeze, or the threads that wait
//! before they begin a transaction (`ferroxfs`).
//!
//! # State of a copy of the device
//!
//! Everything is at its home location on disk, and the log is covered: only a change of the
//! superblock, with the current counts, lies between the tail and the head of the log. The log does
//! not end in an unmount record. So opening the copy recovers it, and frees files that had no name
//! but were still open.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;

use super::Journal;
use crate::transaction::Transaction;

impl Journal {
    /// Stops new transactions, waits for those in progress, writes everything to its home location
    /// on disk and covers the log. Until [`thaw`](Self::thaw) nothing is written, and a thread that
    /// begins a transaction waits. Only one caller at a time may freeze.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. The journal is not frozen then.
    #[doc(alias = "xfs_fs_freeze")]
    pub fn freeze(self: &Arc<Self>) -> Result<()> {
        let frozen = self.log.suspend().and_then(|()| self.cover_suspended());
        frozen.inspect_err(|_| self.thaw())
    }

    /// Lets transactions begin again, after [`freeze`](Self::freeze).
    #[doc(alias = "xfs_fs_unfreeze")]
    pub fn thaw(&self) {
        self.log.resume();
    }

    /// Begins a transaction for the thread that has frozen the journal.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn begin_while_frozen(self: &Arc<Self>, kind: TransactionKind) -> Result<Transaction<'_>> {
        Transaction::begin_while_suspended(self, self.reservation(kind))
    }

    /// Writes everything to its home location on disk and covers the log, while no other thread
    /// uses the log. The attempt is repeated: another thread may latch an inode or a buffer for a
    /// moment to read it, and a latched inode or buffer cannot be written.
    fn cover_suspended(self: &Arc<Self>) -> Result<()> {
        let begin = || self.begin_while_frozen(TransactionKind::Superblock);
        loop {
            self.log.quiesce()?;
            if !self.log.needs_cover() {
                return Ok(());
            }
            self.log.cover_with(|| self.log_superblock(begin))?;
        }
    }
}

#[cfg(test)]
mod tests;
