//! Log space for a new transaction.
//!
//! Owns: how many bytes a chain reserves, and which chains are too large for a log of the given
//! size. Does **not** own the space itself, or its waiters ([`space`](crate::space)).
//!
//! The size of a reservation follows from the geometry of a volume, and the size of the log is in
//! its superblock. Both come from an image and are not trusted. A reservation that does not fit the
//! log is an error, reported before anything has changed.

use xfs_buffer::{PosixError, Result};
use xfs_format::superblock::Unsupported;

use super::{BACKOFF, Log, LogInner};
use crate::space::Urgency;
use crate::ticket::{LogUnits, Ticket};

/// The log size divided by this number is the most that a new chain of transactions reserves. So
/// the log has room for three of the largest chains: a running chain, a chain that is being written
/// to the log, and a chain whose items are not yet written to their home locations.
#[doc(alias = "XFS_MIN_LOG_FACTOR")]
const LARGEST_SHARE: u64 = 3;

/// Number of attempts of a recovery to get log space by having items written. The attempts are
/// [`BACKOFF`] apart. No other thread uses the log during recovery: if an item is still locked or
/// pinned after that time, recovery itself holds the item.
const RECOVERY_ROUNDS: usize = 100;

impl Log {
    /// Reserves log space for a chain of `steps` transactions, each with up to `bytes` of items and
    /// their operation headers. A chain with more transactions waits for space at each further one.
    /// If the chain would take more than a third of the log, space for fewer transactions is
    /// reserved.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Shutdown`](xfs_buffer::Error::Shutdown) if the log is shut down, and
    /// [`Unsupported::LogTooSmall`] if half of the log cannot hold one of the transactions.
    pub fn reserve(&self, bytes: u64, steps: u32) -> Result<Ticket> {
        let LogInner { space, health, .. } = &*self.inner;
        let unit_bytes = self.unit_bytes(bytes)?;
        let most = space.size_bytes() / LARGEST_SHARE / unit_bytes;
        let steps = u64::from(steps).min(most).max(1) as u32;
        let units = LogUnits { unit_bytes, steps };
        Ticket::take(space, units, Urgency::Begin, health, &|| self.inner.make_space())
    }

    /// Returns the number of bytes of log that a transaction with up to `bytes` of items takes.
    /// Returns an error if that is more than half of the log. A checkpoint may hold more than one
    /// transaction, but never takes more than half of the log.
    pub(super) fn unit_bytes(&self, bytes: u64) -> Result<u64> {
        let log_bytes = self.inner.space.size_bytes();
        let bytes = self.inner.writer.layout().unit_bytes(bytes);
        match bytes <= log_bytes / 2 {
            true => Ok(bytes),
            false => Err(Unsupported::LogTooSmall { bytes, log_bytes }.into()),
        }
    }

    /// Reserves log space as [`reserve`](Self::reserve) does, for one transaction of a recovery.
    /// Everything else waits for recovery, so recovery may use the eighth of the log that new
    /// transactions leave to others. New transactions may have used up the rest of the log after an
    /// intent that only recovery can finish.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. Returns [`PosixError::NoSpace`] if the space does
    /// not suffice although every item that can be written is in place: waiting would not help.
    /// Each [`roll`](Self::roll) fails in the same cases.
    pub fn reserve_for_recovery(&self, bytes: u64) -> Result<Ticket> {
        let unit_bytes = self.inner.writer.layout().unit_bytes(bytes);
        self.take_for_recovery(unit_bytes)?;
        Ok(Ticket::of_recovery(unit_bytes))
    }

    pub(super) fn take_for_recovery(&self, bytes: u64) -> Result<()> {
        let LogInner { space, ail, health, .. } = &*self.inner;
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
