//! The pins of a log item that has its own count: an inode or a dquot.
//!
//! Owns: how many checkpoints hold the item and are not durable yet, and whether a change of the
//! item never gets into the log. Does **not** own the pins of a buffer, which change together with
//! its other state (`buffer_item`).

use xfs_log::CheckpointEnd;
use xfs_sync::{AtomicBool, AtomicU32, Object, Ordering};

/// The checkpoints that hold a log item and are not durable yet.
pub(crate) struct Pins {
    count: AtomicU32<Object>,
    /// Whether a checkpoint that held the item was lost, or a transaction that had changed the item
    /// was cancelled. The item then has changes that the log never gets.
    lost: AtomicBool<Object>,
}

impl Pins {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU32::new(0), lost: AtomicBool::new(false) }
    }

    /// Adds a checkpoint that holds the item.
    #[inline]
    pub(crate) fn pin(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a checkpoint that held the item.
    ///
    /// # Panics
    ///
    /// Panics if no checkpoint holds the item.
    #[inline]
    pub(crate) fn unpin(&self, end: CheckpointEnd) {
        if end == CheckpointEnd::Aborted {
            self.set_lost();
        }
        let before = self.count.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "an item without a pin is unpinned");
    }

    /// Records that the item has a change that the log never gets.
    #[inline]
    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Returns whether a checkpoint that holds the item is not durable yet.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns whether the log lacks a durable copy of a change of the item: the change is not
    /// written yet, or the log never gets it.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.is_held() || self.lost.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
