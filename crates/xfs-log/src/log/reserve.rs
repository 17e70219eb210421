//! Log space for who begins.
//!
//! Owns: how many bytes a chain asks for, and which chains no log of this size can hold. Does **not** own the
//! space itself, or who waits for it ([`space`](crate::space)).
//!
//! What a caller asks for follows from the geometry of a volume, and how large the log is from its superblock.
//! Both are what an image alleges, so that the one does not fit the other is an error, told before anything
//! has changed.

use xfs_buffer::{PosixError, Result};
use xfs_format::superblock::Unsupported;

use super::{BACKOFF, Inner, Log};
use crate::space::Urgency;
use crate::ticket::Ticket;

/// A log holds this many of the largest transactions that begin, so that one can run while another is
/// written and a third is in place only there.
#[doc(alias = "XFS_MIN_LOG_FACTOR")]
const LARGEST_SHARE: u64 = 3;

/// How often a recovery has items written in place for log space, [`BACKOFF`] apart: it is alone, and
/// what is still held after so long is held by itself.
const RECOVERY_ROUNDS: usize = 100;

impl Log {
    /// Reserves space for a chain of `steps` transactions, each with up to `bytes` of items and
    /// their operation headers. A chain that goes on longer waits for space at each further step. One that
    /// would take more than a third of the log is promised fewer of its steps at once.
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown), and [`Unsupported::LogTooSmall`] if half of the log
    /// does not hold one of the steps.
    pub fn reserve(&self, bytes: u64, steps: u32) -> Result<Ticket> {
        let Inner { space, health, .. } = &*self.inner;
        let unit_bytes = self.unit_bytes(bytes)?;
        let most = space.size_bytes() / LARGEST_SHARE / unit_bytes;
        let steps = u64::from(steps).min(most).max(1) as u32;
        Ticket::take(space, (unit_bytes, steps), Urgency::Begin, health, &|| {
            self.inner.make_space()
        })
    }

    /// What a transaction with up to `bytes` of items takes, if this log can hold it. A checkpoint, which
    /// may hold more than that, never passes half of the log.
    pub(super) fn unit_bytes(&self, bytes: u64) -> Result<u64> {
        let log_bytes = self.inner.space.size_bytes();
        let bytes = self.inner.writer.layout().unit_bytes(bytes);
        match bytes <= log_bytes / 2 {
            true => Ok(bytes),
            false => Err(Unsupported::LogTooSmall { bytes, log_bytes }.into()),
        }
    }

    /// As [`reserve`](Self::reserve) for one transaction of a recovery, of which everything else
    /// waits: it may have the eighth of the log that new transactions leave to others. A log can be
    /// used as far as that behind an intent that only recovery finishes.
    ///
    /// # Errors
    ///
    /// What stopped the log, and [`PosixError::NoSpace`] if there is too little space with all in
    /// place that can be: waiting would not help. The same goes for each [`roll`](Self::roll) of it.
    pub fn reserve_for_recovery(&self, bytes: u64) -> Result<Ticket> {
        let unit_bytes = self.inner.writer.layout().unit_bytes(bytes);
        self.take_for_recovery(unit_bytes)?;
        Ok(Ticket::of_recovery(unit_bytes))
    }

    pub(super) fn take_for_recovery(&self, bytes: u64) -> Result<()> {
        let Inner { space, ail, health, .. } = &*self.inner;
        for _ in 0..RECOVERY_ROUNDS {
            health.check()?;
            if space.try_take(bytes, Urgency::Roll) {
                return Ok(());
            }
            self.force_all()?;
            let report = self.inner.push_items(ail.head());
            if space.try_take(bytes, Urgency::Roll) {
                return Ok(());
            }
            if report.started + report.busy() == 0 {
                break;
            }
            ail.await_empty(BACKOFF);
        }
        health.check()?;
        Err(PosixError::NoSpace.into())
    }
}
