//! Writing everything in place, and covering a log that is idle.
//!
//! A log in which nothing is left to replay still has a tail: recovery would replay what stands
//! there over what has long been in place. Covering writes two checkpoints that are harmless to replay,
//! so that nothing else stands between tail and head.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_sync::Ordering;

use super::{BACKOFF, Inner, Log};
use crate::item::LogItem;

/// How often covering tries to have a checkpoint in place, [`BACKOFF`] apart. Who goes on committing
/// meanwhile has made the log busy again, and it is covered another time.
const COVER_ROUNDS: usize = 20;

impl Log {
    /// Makes everything durable and asks once for all of it to be written in place. Returns whether
    /// nothing is left to do.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn write_back(&self) -> Result<bool> {
        self.force_all()?;
        let Inner { cil, ail, health, .. } = &*self.inner;
        self.inner.push_items(ail.head());
        health.check()?;
        Ok(ail.is_empty() && cil.is_idle())
    }

    /// Makes everything durable and writes it in place, until nothing is left to do.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn quiesce(&self) -> Result<()> {
        while !self.write_back()? {
            self.inner.ail.await_empty(BACKOFF);
        }
        Ok(())
    }

    /// As [`quiesce`](Self::quiesce), for so many rounds at most. Returns whether nothing is left.
    fn quiesce_within(&self, rounds: usize) -> Result<bool> {
        for _ in 0..rounds {
            if self.write_back()? {
                return Ok(true);
            }
            self.inner.ail.await_empty(BACKOFF);
        }
        Ok(false)
    }

    /// Whether the log is idle and recovery would still replay what is long in place.
    #[doc(alias = "xfs_log_need_covered")]
    #[must_use]
    pub fn needs_cover(&self) -> bool {
        let Inner { cil, ail, covered, .. } = &*self.inner;
        let written = cil.current() - 1;
        written > covered.load(Ordering::Acquire) && cil.is_idle() && ail.is_empty()
    }

    /// Covers an idle log: logs `item`, which is harmless to replay (the superblock), twice. The
    /// first checkpoint records that everything before it is in place; the second one that the first
    /// is, so that recovery replays `item` alone. `bytes` is what the item reserves; the caller has
    /// locked it. Returns whether the log is covered: it is not if others commit meanwhile.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn cover(&self, item: &Arc<dyn LogItem>, bytes: u64) -> Result<bool> {
        self.cover_with(|| {
            let mut ticket = self.reserve(bytes, 1)?;
            let committed = self.commit(&mut ticket, std::slice::from_ref(item));
            self.release(ticket);
            self.settle(committed?)
        })
    }

    /// As [`cover`](Self::cover), with the item logged by `log_item`, which leaves it unlocked: it
    /// has to be written in place in between.
    ///
    /// # Errors
    ///
    /// What stopped the log.
    pub fn cover_with(&self, mut log_item: impl FnMut() -> Result<()>) -> Result<bool> {
        let Inner { cil, covered, .. } = &*self.inner;
        let mut last = 0;
        for _ in 0..2 {
            last = cil.current();
            log_item()?;
            if !self.quiesce_within(COVER_ROUNDS)? {
                return Ok(false);
            }
        }
        // What others have committed to a later checkpoint is not covered.
        covered.store(last, Ordering::Release);
        Ok(!self.needs_cover())
    }
}
