//! Tickets: reserved log space.

use xfs_buffer::Result;

use crate::health::Health;
use crate::space::{Space, Urgency};

/// Log space of one transaction, or of a chain of them that is rolled.
///
/// `Log::release` gives the space back. A ticket that is dropped keeps its space until the log is
/// closed.
#[derive(Debug)]
#[must_use = "the space stays reserved until the ticket is released"]
pub struct Ticket {
    unit_bytes: u64,
    /// The number of bytes of the current unit that have not been granted to a checkpoint.
    left_bytes: u64,
    /// The number of units promised for later transactions of the chain.
    later: u32,
    /// The largest order number of the chain's commits: the next one comes after it.
    floor: u64,
    /// Whether the ticket belongs to a recovery: see
    /// [`Log::reserve_for_recovery`](crate::Log::reserve_for_recovery).
    is_recovery: bool,
}

/// The log space that a chain of transactions takes at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogUnits {
    /// Bytes of log for each transaction of the chain.
    pub(crate) unit_bytes: u64,
    /// The number of transactions, at least one.
    pub(crate) steps: u32,
}

impl Ticket {
    /// Takes log space, and creates its ticket.
    pub(crate) fn take(
        space: &Space,
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

    /// Creates the ticket of one unit that a recovery has taken.
    pub(crate) const fn of_recovery(unit_bytes: u64) -> Self {
        Self { unit_bytes, left_bytes: unit_bytes, later: 0, floor: 0, is_recovery: true }
    }

    /// Secures a whole unit for the next transaction of the chain, if that needs no waiting.
    /// Returns whether the unit is secured.
    pub(crate) fn secure(&mut self, space: &Space) -> bool {
        if self.later == 0 && space.take_at_once(self.unit_bytes, Urgency::Roll) {
            self.later = 1;
        }
        self.later > 0
    }

    /// Begins the next transaction of the chain with a whole unit: a promised one or, once all are
    /// used up, one that `take` gets. The rest of the last unit goes back first, so that chains
    /// which wait for each other's rests get them.
    pub(crate) fn roll(
        &mut self,
        space: &Space,
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

    /// Gives all space of the ticket back.
    pub(crate) fn release(self, space: &Space) {
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

    /// Moves `bytes` to the checkpoint of a commit with this order number. Returns whether they had
    /// been reserved.
    pub(crate) fn spend(&mut self, order: u64, bytes: u64) -> bool {
        self.floor = order;
        let covered = bytes <= self.left_bytes;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        covered
    }
}
