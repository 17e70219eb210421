//! Tickets: reserved log space.

use xfs_buffer::Result;

use crate::health::Health;
use crate::space::{LogSpace, Urgency};

/// The log space reserved for one transaction, or for a chain of transactions that is rolled.
///
/// `Log::release` gives the space back. A ticket that is dropped keeps its space until the log is
/// closed.
#[derive(Debug)]
#[must_use = "the space stays reserved until the ticket is released"]
pub struct Ticket {
    unit_bytes: u64,
    /// Number of bytes reserved for the current transaction that have not been granted to a
    /// checkpoint.
    left_bytes: u64,
    /// Number of the chain's later transactions whose space is reserved already.
    later: u32,
    /// The largest order number of the chain's commits. The chain's next commit must get a larger
    /// order number.
    floor: u64,
    /// Whether the ticket belongs to a recovery: see
    /// [`Log::reserve_for_recovery`](crate::Log::reserve_for_recovery).
    is_recovery: bool,
}

/// The log space that a chain of transactions reserves when it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogUnits {
    /// Number of bytes of log for each transaction of the chain.
    pub(crate) unit_bytes: u64,
    /// Number of transactions of the chain, at least one.
    pub(crate) steps: u32,
}

impl Ticket {
    /// Reserves log space, and returns the ticket for it. If the caller has to wait as the head
    /// waiter, this function calls `on_wait` to have the tail pushed.
    pub(crate) fn take(
        space: &LogSpace,
        LogUnits { unit_bytes, steps }: LogUnits,
        urgency: Urgency,
        health: &Health,
        on_wait: &dyn Fn(),
    ) -> Result<Self> {
        let bytes = unit_bytes * u64::from(steps);
        space.take(bytes, urgency, health, on_wait)?;
        let later = steps - 1;
        Ok(Self { unit_bytes, left_bytes: unit_bytes, later, floor: 0, is_recovery: false })
    }

    /// Creates a ticket for one transaction. A recovery has already taken `unit_bytes` bytes of log
    /// space for it.
    pub(crate) const fn of_recovery(unit_bytes: u64) -> Self {
        Self { unit_bytes, left_bytes: unit_bytes, later: 0, floor: 0, is_recovery: true }
    }

    /// Reserves the space of the next transaction of the chain, if that needs no waiting. Returns
    /// whether the space is reserved.
    pub(crate) fn secure(&mut self, space: &LogSpace) -> bool {
        if self.later == 0 && space.take_at_once(self.unit_bytes, Urgency::Roll) {
            self.later = 1;
        }
        self.later > 0
    }

    /// Begins the next transaction of the chain. First gives back the space that the last
    /// transaction did not use, because other chains may wait for it. The next transaction gets its
    /// part of the space that the ticket holds for later transactions. If the ticket holds none,
    /// this function calls `take` to reserve the space.
    pub(crate) fn roll(
        &mut self,
        space: &LogSpace,
        take: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        space.give_back(std::mem::take(&mut self.left_bytes));
        match self.later.checked_sub(1) {
            Some(later) => self.later = later,
            None => take(self.unit_bytes)?,
        }
        self.left_bytes = self.unit_bytes;
        Ok(())
    }

    pub(crate) const fn is_recovery(&self) -> bool {
        self.is_recovery
    }

    /// Gives back all space that the ticket still holds.
    pub(crate) fn release(self, space: &LogSpace) {
        space.give_back(self.left_bytes + u64::from(self.later) * self.unit_bytes);
    }

    /// Returns the number of bytes that the current transaction may still log.
    #[must_use]
    pub const fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    pub(crate) const fn floor(&self) -> u64 {
        self.floor
    }

    /// Moves `bytes` from the ticket to the checkpoint of the commit with this order number.
    /// Returns `false` if the ticket had fewer bytes; it is then empty.
    pub(crate) fn spend(&mut self, order: u64, bytes: u64) -> bool {
        self.floor = order;
        let covered = bytes <= self.left_bytes;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        covered
    }
}
