//! A journal in which nothing is under way.
//!
//! Owns: the order in which that comes about. Does **not** own who may ask for it, or what waits before it
//! begins a transaction (`ferroxfs`).
//!
//! # What a copy of the device holds then
//!
//! Everything is in place, and the log is covered: nothing stands between its tail and its head but the
//! superblock, with the present numbers. It does not end in an unmount record, so whoever opens the copy
//! recovers it, and frees the files that had lost their last name and were still in use.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::reservation::TransactionKind;

use super::Journal;
use crate::transaction::Transaction;

impl Journal {
    /// Lets no new transaction begin, waits for those that have begun, writes everything in place and covers
    /// the log. Until [`thaw`](Self::thaw) nothing is written, and who begins a transaction waits. By one
    /// caller at a time.
    ///
    /// # Errors
    ///
    /// What stopped the log; it goes on as before then.
    #[doc(alias = "xfs_fs_freeze")]
    pub fn freeze(self: &Arc<Self>) -> Result<()> {
        let frozen = self.log.suspend().and_then(|()| self.cover_suspended());
        frozen.inspect_err(|_| self.thaw())
    }

    /// Ends what [`freeze`](Self::freeze) has begun.
    #[doc(alias = "xfs_fs_unfreeze")]
    pub fn thaw(&self) {
        self.log.resume();
    }

    /// Begins a transaction of who has frozen the journal.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn begin_while_frozen(self: &Arc<Self>, kind: TransactionKind) -> Result<Transaction<'_>> {
        Transaction::begin_while_suspended(self, self.reservation(kind))
    }

    /// Writes everything in place and covers the log, in which nobody else has anything to do. What is read
    /// just then can keep an item from its place for a moment.
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
