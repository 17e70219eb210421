//! Transactions.
//!
//! Owns: the life of one transaction, from its reservations to its commit, and rolling it. Does
//! **not** own: how buffers and inodes are joined ([`buffers`], [`inodes`]), the order of deferred
//! work ([`deferred`]), or checkpoints (`xfs-log`).
//!
//! ```text
//!  begin ─→ step ─┬─ commit ─→ done                        nothing is deferred, or nothing any more
//!    ▲            ├─ roll ───→ step of the same chain      items that are kept stay latched
//!    │            ├─ cancel ─→ clean: as if it had not been; dirty: the volume is shut down
//!  waits for      └─ error ──→ failed: cancelled by its owner
//!  log space
//! ```
//!
//! # Invariants
//!
//! - **I1** Log space is waited for before anything is latched, except by a roll; a roll first logs
//!   again whatever stays latched and stands in the log, so that the tail can pass (I4 of the log).
//! - **I2** Everything that is changed is joined, and stays latched until the log has it. So nobody
//!   sees a change that is not in the log before what it depends on.
//! - **I3** A dirty transaction is committed, or the volume is shut down: its changes are in memory
//!   already, where everybody would see them.
//!
//! Lock order: docs/internals/transactions.md.

mod buffers;
mod deferred;
mod inodes;
mod kept;
mod space;

use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::reservation::Reservation;
use xfs_format::{AgNumber, Geometry};
use xfs_log::{LogItem, Shutdown, Ticket};

use crate::journal::{EMPTY, Journal, SYNCHRONOUS, unencodable};
use buffers::JoinedBuffers;
use deferred::DeferredWork;
use inodes::JoinedInodes;
use kept::TransactionLists;
use space::SpaceUse;

pub use deferred::{Captured, Deferred, Finish};

/// What is called once a step has been committed.
type OnCommit = Box<dyn FnOnce(&Committed) + Send>;

/// A commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The checkpoint of the chain's last step that had anything to log; forcing the log up to it
    /// makes the whole chain durable. 0 if there was none.
    pub sequence: u64,
}

/// A transaction, or a chain of them: see the module.
#[doc(alias = "xfs_trans")]
#[must_use = "a transaction is committed or cancelled"]
pub struct Transaction<'journal> {
    journal: &'journal Arc<Journal>,
    /// `None` once the transaction has ended or failed.
    ticket: Option<Ticket>,
    buffers: JoinedBuffers,
    inodes: JoinedInodes,
    /// What is logged in this step besides buffers and inodes.
    items: Vec<Arc<dyn LogItem>>,
    space: SpaceUse,
    deferred: DeferredWork,
    on_commit: Vec<OnCommit>,
    group_mark: Option<AgNumber>,
    /// How often it was rolled.
    step: u64,
    /// It is durable when it has been committed.
    synchronous: bool,
    /// The last step that was logged.
    committed: Committed,
}

/// How a step ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepEnd {
    /// The next one of the chain begins.
    Roll,
    /// It was the last one.
    Last,
}

impl<'journal> Transaction<'journal> {
    pub(crate) fn begin(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
        blocks: u64,
    ) -> Result<Self> {
        journal.counters.take(blocks)?;
        Self::start(journal, reservation, blocks)
    }

    /// As [`begin`](Self::begin), with blocks from the pool if there are no others.
    pub(crate) fn begin_from_pool(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
        blocks: u64,
    ) -> Result<Self> {
        journal.counters.take_from_pool(blocks)?;
        Self::start(journal, reservation, blocks)
    }

    /// Begins a chain of recovery, which may have the last blocks and the last of the log.
    pub(crate) fn begin_for_recovery(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
        blocks: u64,
    ) -> Result<Self> {
        journal.counters.take_from_pool(blocks)?;
        let ticket = journal
            .log
            .reserve_for_recovery(reservation.bytes)
            .inspect_err(|_| journal.counters.give(blocks))?;
        Ok(Self::new(journal, ticket, blocks))
    }

    /// Begins one of who has suspended the log.
    pub(crate) fn begin_while_suspended(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
    ) -> Result<Self> {
        let ticket = journal.log.reserve_while_suspended(reservation.bytes)?;
        Ok(Self::new(journal, ticket, 0))
    }

    /// Begins with blocks that were taken.
    pub(crate) fn start(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
        blocks: u64,
    ) -> Result<Self> {
        let ticket = journal
            .log
            .reserve(reservation.bytes, reservation.steps)
            .inspect_err(|_| journal.counters.give(blocks))?;
        Ok(Self::new(journal, ticket, blocks))
    }

    fn new(journal: &'journal Arc<Journal>, ticket: Ticket, blocks: u64) -> Self {
        let TransactionLists { buffers, inodes, items } = TransactionLists::take();
        Self {
            journal,
            ticket: Some(ticket),
            buffers,
            inodes,
            items,
            space: SpaceUse::new(blocks),
            deferred: DeferredWork::default(),
            on_commit: Vec::new(),
            group_mark: None,
            step: 0,
            synchronous: false,
            committed: Committed { sequence: 0 },
        }
    }

    /// The journal that the transaction belongs to.
    #[must_use]
    pub const fn journal(&self) -> &'journal Arc<Journal> {
        self.journal
    }

    /// The volume's buffers: they hold the newest bytes, those of this transaction too.
    #[must_use]
    pub fn cache(&self) -> &'journal BufferCache {
        self.journal.cache()
    }

    /// The volume's geometry.
    #[must_use]
    pub fn geometry(&self) -> &'journal Geometry {
        self.journal.geometry()
    }

    /// Whether something was changed in this step, or is still to be done.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.is_step_dirty() || !self.deferred.is_empty()
    }

    fn is_step_dirty(&self) -> bool {
        self.buffers.is_dirty() || self.inodes.is_dirty() || !self.items.is_empty()
    }

    /// Has something done once this step has been committed, before its latches are given back.
    pub fn on_commit(&mut self, call: impl FnOnce(&Committed) + Send + 'static) {
        self.on_commit.push(Box::new(call));
    }

    /// Has the log forced once the chain is committed, before its commit returns.
    #[doc(alias = "xfs_trans_set_sync")]
    pub const fn set_synchronous(&mut self) {
        self.synchronous = true;
    }

    /// Which step of the chain this is. Buffers that are not held are given back with theirs.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// The highest group whose headers this step has latched: those of lower ones are only tried.
    #[doc(alias = "t_highest_agno")]
    #[must_use]
    pub const fn group_mark(&self) -> Option<AgNumber> {
        self.group_mark
    }

    /// Notes that a header of this group was latched.
    pub fn mark_group(&mut self, group: AgNumber) {
        self.group_mark = self.group_mark.max(Some(group));
    }

    /// Commits this step and begins the next one of the chain. Inodes that were joined and buffers
    /// that are held stay so. Deferred work is promised in this step, and waits for
    /// [`finish_deferred`](Self::finish_deferred) or [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// What stopped the log: then the transaction can only be cancelled.
    pub fn roll(&mut self) -> Result<()> {
        self.log_intents();
        self.relog_intents();
        self.roll_step()
    }

    /// Finishes what was deferred and commits.
    ///
    /// # Errors
    ///
    /// What deferred work meets, or what stopped the log. The transaction has been cancelled then,
    /// and the volume is shut down if it was dirty.
    pub fn commit(mut self) -> Result<Committed> {
        let _span = tracing::trace_span!("commit").entered();
        let committed = self.finish_deferred().and_then(|()| self.commit_step(StepEnd::Last));
        match committed {
            Ok(committed) => {
                self.end();
                self.note_end(committed)?;
                Ok(committed)
            }
            Err(error) => {
                self.cancel();
                Err(error)
            }
        }
    }

    /// Counts a chain that was committed, and makes it durable if that was asked for.
    fn note_end(&self, committed: Committed) -> Result<()> {
        if committed.sequence == 0 {
            self.journal.transactions.add(EMPTY, 1);
        } else if self.synchronous {
            self.journal.transactions.add(SYNCHRONOUS, 1);
            self.journal.force(committed.sequence)?;
        }
        Ok(())
    }

    /// Ends the transaction without its changes. If it is dirty that cannot be undone: the volume is
    /// shut down.
    pub fn cancel(mut self) {
        if self.is_dirty() {
            // The error would be that of a flush, which is not asked for.
            let _ = self.journal.shut_down(Shutdown::Now);
        }
        self.abandon();
    }

    /// Commits a step and begins the next.
    fn roll_step(&mut self) -> Result<()> {
        self.inodes.relog();
        self.buffers.relog();
        self.step += 1;
        self.commit_step(StepEnd::Roll)?;
        let Some(ticket) = &mut self.ticket else { return Err(Error::Shutdown) };
        self.journal.log.roll(ticket)
    }

    /// Gives the step to the log, and gives back what it held.
    fn commit_step(&mut self, end: StepEnd) -> Result<Committed> {
        if !self.inodes.encode() {
            return Err(unencodable());
        }
        self.space.check()?;
        let mut items = std::mem::take(&mut self.items);
        items.reserve(self.buffers.len() + self.inodes.len());
        self.buffers.collect(&mut items);
        self.inodes.collect(&mut items);
        let Some(ticket) = &mut self.ticket else { return Err(Error::Shutdown) };
        let logged = match items.is_empty() {
            true => None,
            false => Some(self.journal.log.commit(ticket, &items)?),
        };
        if let Some(logged) = logged {
            self.committed.sequence = logged.sequence;
        }
        let committed = self.committed;
        for call in std::mem::take(&mut self.on_commit) {
            call(&committed);
        }
        self.space.settle(&self.journal.counters);
        self.group_mark = None;
        self.buffers.end_step();
        match end {
            StepEnd::Roll => self.inodes.end_step(),
            StepEnd::Last => {
                self.buffers.release_all();
                self.inodes.release_all();
            }
        }
        items.clear();
        self.items = items;
        if let Some(logged) = logged {
            self.journal.log.settle(logged)?;
        }
        Ok(committed)
    }

    /// The last step has been committed.
    fn end(&mut self) {
        self.buffers.release_all();
        self.inodes.release_all();
        self.space.release(&self.journal.counters);
        if let Some(ticket) = self.ticket.take() {
            self.journal.log.release(ticket);
        }
        let (buffers, inodes) =
            (std::mem::take(&mut self.buffers), std::mem::take(&mut self.inodes));
        TransactionLists { buffers, inodes, items: std::mem::take(&mut self.items) }.keep();
    }

    /// Drops whatever the transaction has.
    fn abandon(&mut self) {
        self.items.clear();
        self.on_commit.clear();
        self.deferred.clear();
        self.end();
    }
}

/// Who leaves a transaction because of an error has changed nothing, or cancels it.
impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let forgotten = self.is_dirty() && !self.journal.is_shut_down();
        if forgotten {
            let _ = self.journal.shut_down(Shutdown::Now);
        }
        self.abandon();
        assert!(
            !forgotten || std::thread::panicking(),
            "a dirty transaction neither committed nor cancelled"
        );
    }
}

impl core::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Transaction")
            .field("is_dirty", &self.is_dirty())
            .field("blocks_left", &self.blocks_left())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
