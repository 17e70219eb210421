//! Buffers that stop being metadata before the log ends.
//!
//! A freed block may hold file data by now, and the log knows nothing of file data. So a change of
//! a buffer is not replayed if the buffer is cancelled later in the log. A block may become
//! metadata again and be freed again. So cancellations are counted, and each one ends when the
//! second pass reaches it.

use std::collections::BTreeMap;

use xfs_format::DiskAddr;
use xfs_format::log_item::{LogItemCheck, LoggedBuffer};

/// For each buffer, the number of its cancellations that the second pass has not reached yet.
#[doc(alias = "xlog_recover_cancel_table")]
#[derive(Debug, Default)]
pub(super) struct CancelTable {
    left: BTreeMap<(DiskAddr, u32), u32>,
}

impl CancelTable {
    /// Adds a cancellation of a buffer to the table. Does nothing for a buffer item that is no
    /// cancellation. Called in the first pass.
    pub(super) fn note(&mut self, item: &LoggedBuffer<'_>) {
        if item.is_cancel() {
            let key = (item.format.at, item.format.blocks.into());
            let left = self.left.entry(key).or_default();
            *left += 1;
        }
    }

    /// Returns whether the buffer of `blocks` basic blocks at `at` is cancelled later in the log.
    pub(super) fn contains(&self, at: DiskAddr, blocks: u32) -> bool {
        self.left.contains_key(&(at, blocks))
    }

    /// Removes a cancellation from the table, because the second pass has reached it.
    ///
    /// # Errors
    ///
    /// Returns the failed check if the table has no such cancellation: the log on disk has changed
    /// since the first pass, because another host writes to the volume.
    pub(super) fn end(&mut self, item: &LoggedBuffer<'_>) -> Result<(), LogItemCheck> {
        let (at, blocks) = (item.format.at, item.format.blocks.into());
        let Some(left) = self.left.get_mut(&(at, blocks)) else {
            return Err(LogItemCheck::NewCancellation { at: at.0, blocks });
        };
        *left -= 1;
        if *left == 0 {
            self.left.remove(&(at, blocks));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
