//! Holding new transactions back, so that nothing is under way.
//!
//! Whoever begins a transaction asks for log space, so this is where he waits; and whatever is under way
//! has been granted some. It costs who does not wait nothing: see [`space`](crate::space).

use xfs_buffer::Result;

use super::{BACKOFF, Inner, Log};
use crate::space::Urgency;
use crate::ticket::Ticket;

impl Log {
    /// Lets no new transaction begin, waits until those that have begun are at their end, and makes them
    /// durable. Once by one caller, until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// What stopped the log. It is to be resumed then too.
    pub fn suspend(&self) -> Result<()> {
        self.inner.space.close();
        loop {
            // What a checkpoint has been given counts as granted until it is durable.
            self.force_all()?;
            if self.inner.space.is_idle_within(BACKOFF) {
                return self.inner.health.check();
            }
        }
    }

    /// Lets new transactions begin again.
    pub fn resume(&self) {
        self.inner.space.open();
    }

    /// As [`reserve`](Self::reserve) for one transaction of who has suspended the log.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_while_suspended(&self, bytes: u64) -> Result<Ticket> {
        let Inner { space, health, .. } = &*self.inner;
        let unit_bytes = self.unit_bytes(bytes)?;
        Ticket::take(space, (unit_bytes, 1), Urgency::Roll, health, &|| self.inner.make_space())
    }
}
