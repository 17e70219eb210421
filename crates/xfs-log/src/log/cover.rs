//! Writing all items to their home locations on disk ("in place"), and covering an idle log.
//!
//! A log with nothing left to replay still has a tail: recovery would replay the changes between
//! tail and head over objects that have long been in place. Covering writes two checkpoints that
//! are harmless to replay, after which only these checkpoints lie between tail and head.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_sync::Ordering;

use super::{BACKOFF, Log, LogInner};
use crate::item::LogItem;

/// Number of times that covering tries to get the items of a checkpoint to their home locations on
/// disk, [`BACKOFF`] apart. If these attempts do not suffice, a commit has made the log busy again,
/// and the log is covered later.
const COVER_ROUNDS: usize = 20;

impl Log {
    /// Makes all commits durable, and requests once that all items be written to their home
    /// locations on disk. Returns whether all commits are durable and all items are written.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn write_back(&self) -> Result<bool> {
        self.force_all()?;
        let LogInner { cil, ail, health, .. } = &*self.inner;
        self.inner.push_items(ail.head());
        health.check()?;
        Ok(ail.is_empty() && cil.is_idle())
    }

    /// Makes all commits durable and writes all items to their home locations on disk. Repeats this
    /// until no commit and no item is left.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn quiesce(&self) -> Result<()> {
        while !self.write_back()? {
            self.inner.ail.await_empty(BACKOFF);
        }
        Ok(())
    }

    /// Does the same as [`quiesce`](Self::quiesce), but repeats at most `rounds` times. Returns
    /// whether no commit and no item is left.
    fn quiesce_within(&self, rounds: usize) -> Result<bool> {
        for _ in 0..rounds {
            if self.write_back()? {
                return Ok(true);
            }
            self.inner.ail.await_empty(BACKOFF);
        }
        Ok(false)
    }

    /// Returns whether the log is idle but not covered. Recovery would then replay changes of
    /// objects that are already at their home locations on disk.
    #[doc(alias = "xfs_log_need_covered")]
    #[must_use]
    pub fn needs_cover(&self) -> bool {
        let LogInner { cil, ail, covered, .. } = &*self.inner;
        let written = cil.current() - 1;
        written > covered.load(Ordering::Acquire) && cil.is_idle() && ail.is_empty()
    }

    /// Covers an idle log: logs `item` twice. `item` is the superblock, which is harmless to
    /// replay. The first checkpoint records that everything before it is in place. The second
    /// checkpoint records that the first one is in place, so that recovery replays `item` alone.
    /// `bytes` is the item's reservation; the caller has locked the item. Returns `false` if other
    /// threads commit meanwhile, so that the log is not covered.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn cover(&self, item: &Arc<dyn LogItem>, bytes: u64) -> Result<bool> {
        self.cover_with(|| {
            let mut ticket = self.reserve(bytes, 1)?;
            let committed = self.commit(&mut ticket, std::slice::from_ref(item));
            self.release(ticket);
            self.settle(committed?)
        })
    }

    /// Covers an idle log as [`cover`](Self::cover) does. `log_item` logs the item and then unlocks
    /// it, because the item has to be written to its home location between the two checkpoints.
    /// Returns whether the log is now covered.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn cover_with(&self, mut log_item: impl FnMut() -> Result<()>) -> Result<bool> {
        let LogInner { cil, covered, .. } = &*self.inner;
        let mut last = 0;
        for _ in 0..2 {
            last = cil.current();
            log_item()?;
            if !self.quiesce_within(COVER_ROUNDS)? {
                return Ok(false);
            }
        }
        // Commits of other threads to a later checkpoint are not covered.
        covered.store(last, Ordering::Release);
        Ok(!self.needs_cover())
    }
}
