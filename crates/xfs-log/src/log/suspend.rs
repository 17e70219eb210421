//! Holding back new transactions until no transaction is running.
//!
//! Every new transaction requests log space, so it waits at this request while the log is
//! suspended. Every running transaction has been granted log space. A log that is not suspended
//! pays nothing for this: see [`space`](crate::space).

use xfs_buffer::Result;

use super::{BACKOFF, Log, LogInner};
use crate::space::Urgency;
use crate::ticket::{LogUnits, Ticket};

impl Log {
    /// Stops new transactions, waits until the running transactions have ended, and makes them
    /// durable. Only one caller at a time may suspend the log, and it must call
    /// [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. The log must be resumed then too.
    pub fn suspend(&self) -> Result<()> {
        self.inner.space.close();
        loop {
            // The grant of a checkpoint stays granted until the checkpoint is durable.
            self.force_all()?;
            if self.inner.space.is_idle_within(BACKOFF) {
                return self.inner.health.check();
            }
        }
    }

    /// Lets new transactions begin again, after `suspend`.
    pub fn resume(&self) {
        self.inner.space.open();
    }

    /// Reserves log space as [`reserve`](Self::reserve) does, for one transaction of the caller
    /// that has suspended the log.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve).
    pub fn reserve_while_suspended(&self, bytes: u64) -> Result<Ticket> {
        let LogInner { space, health, .. } = &*self.inner;
        let unit_bytes = self.unit_bytes(bytes)?;
        let units = LogUnits { unit_bytes, steps: 1 };
        Ticket::take(space, units, Urgency::Roll, health, &|| self.inner.make_space())
    }
}
