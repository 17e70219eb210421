//! Transactions.
//!
//! Owns: the life of one transaction, from its reservations to its commit, and rolling it. Does
//! **not** own: joining buffers and inodes ([`buffers`], [`inodes`]), the order of deferred work
//! ([`deferred`]), or checkpoints (`xfs-log`).
//!
//! ```text
//!  begin ─→ step ─┬─ commit ─→ done                        no deferred work, or none left
//!    ▲            ├─ roll ───→ next step of the chain      held items stay latched
//!    │            ├─ cancel ─→ clean: no effect; dirty: the volume is shut down
//!  waits for      └─ error ──→ failed: the owner cancels it
//!  log space
//! ```
//!
//! # Invariants
//!
//! - **I1** A transaction waits for log space before it latches anything. A roll is the exception:
//!   it waits with latches held. It therefore first logs again every latched item that is in the
//!   log, so that the tail can pass (I4 in docs/internals/log.md).
//! - **I2** Every changed object is joined, and stays latched until its change is in the log. So no
//!   thread sees a change before the changes that it depends on are in the log.
//! - **I3** A dirty transaction is committed, or the volume is shut down. Its changes are in memory
//!   already, where every other operation would see them.
//!
//! Lock order: docs/internals/transactions.md.

mod buffers;
mod deferred;
mod headers;
mod inodes;
mod kept;
mod quota;
mod space;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::Geometry;
use xfs_format::reservation::Reservation;
use xfs_log::{LogItem, Shutdown, Ticket};

use crate::journal::{EMPTY, Journal, SYNCHRONOUS, unencodable};
use buffers::JoinedBuffers;
use deferred::DeferredWork;
use inodes::JoinedInodes;
use kept::TransactionLists;
use quota::TransactionQuota;
use space::CounterChanges;

pub use deferred::{Captured, Deferred, Finish};
pub use headers::GroupHeader;
pub(crate) use quota::Ledger;
pub use quota::{OwnerDquots, QuotaLedger, QuotaOwners, QuotaReservation};

/// A function that is called when a transaction of the chain has been committed.
type OnCommit = Box<dyn FnOnce(&CommittedChain) + Send>;

/// The result of committing a chain of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedChain {
    /// The sequence number of the checkpoint with the chain's last step that logged anything, or 0
    /// if no step did. Forcing the log up to this checkpoint makes the whole chain durable.
    pub sequence: u64,
}

/// A transaction, or a chain of transactions. Each transaction of a chain is called a step. The
/// diagram at the start of the module shows its life.
#[doc(alias = "xfs_trans")]
#[must_use = "a transaction is committed or cancelled"]
pub struct Transaction<'journal> {
    journal: &'journal Arc<Journal>,
    /// The log space of the transaction. `None` once the transaction has ended.
    ticket: Option<Ticket>,
    buffers: JoinedBuffers,
    inodes: JoinedInodes,
    /// The log items of the current transaction of the chain, except those of buffers and inodes.
    items: Vec<Arc<dyn LogItem>>,
    space: CounterChanges,
    deferred: DeferredWork,
    quota: TransactionQuota,
    on_commit: Vec<OnCommit>,
    /// The highest group header, in the order of `GroupHeader`, that this step of the chain keeps
    /// latched.
    highest_header: Option<GroupHeader>,
    /// Number of rolls in this chain so far, which is the number of the current step.
    step: u64,
    /// Whether the final commit forces the log before it returns.
    synchronous: bool,
    /// The result of the last step that logged anything.
    committed: CommittedChain,
}

/// Whether a chain continues after a step, or ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepEnd {
    /// The chain continues with its next step.
    Roll,
    /// The chain ends: the step was its last one.
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

    /// Begins a transaction as [`begin`](Self::begin) does. If too few blocks are free, takes all
    /// of the blocks from the pool for operations that must not fail.
    pub(crate) fn begin_from_pool(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
        blocks: u64,
    ) -> Result<Self> {
        journal.counters.take_from_pool(blocks)?;
        Self::start(journal, reservation, blocks)
    }

    /// Begins a transaction of recovery. The transaction may take blocks from the pool for
    /// operations that must not fail, and the log space that other transactions must leave free.
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
        let mut this = Self::new(journal, ticket, blocks);
        this.quota.set_recovery();
        Ok(this)
    }

    /// Begins a transaction for the thread that has suspended the log. All other threads wait until
    /// the log is resumed before they can begin one.
    pub(crate) fn begin_while_suspended(
        journal: &'journal Arc<Journal>,
        reservation: Reservation,
    ) -> Result<Self> {
        let ticket = journal.log.reserve_while_suspended(reservation.bytes)?;
        Ok(Self::new(journal, ticket, 0))
    }

    /// Begins a transaction with `blocks` blocks that the caller has already taken from the
    /// counters. Gives them back if the log refuses the transaction.
    #[inline]
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

    #[inline]
    fn new(journal: &'journal Arc<Journal>, ticket: Ticket, blocks: u64) -> Self {
        let TransactionLists { buffers, inodes, items, quota } = TransactionLists::take();
        debug_assert!(buffers.len() + inodes.len() == 0, "log space comes before latches (I1)");
        Self {
            journal,
            ticket: Some(ticket),
            buffers,
            inodes,
            items,
            space: CounterChanges::new(blocks),
            deferred: DeferredWork::default(),
            quota: TransactionQuota::new(quota),
            on_commit: Vec::new(),
            highest_header: None,
            step: 0,
            synchronous: false,
            committed: CommittedChain { sequence: 0 },
        }
    }

    /// Returns the journal to which the transaction belongs.
    #[must_use]
    pub const fn journal(&self) -> &'journal Arc<Journal> {
        self.journal
    }

    /// Returns the buffer cache of the volume. Its buffers hold the newest bytes, including those
    /// that this transaction has changed.
    #[inline]
    #[must_use]
    pub fn cache(&self) -> &'journal BufferCache {
        self.journal.cache()
    }

    /// Returns the geometry of the volume.
    #[inline]
    #[must_use]
    pub fn geometry(&self) -> &'journal Geometry {
        self.journal.geometry()
    }

    /// Returns whether the current transaction of the chain has changed anything, or whether
    /// deferred work of the chain is left.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.is_step_dirty() || !self.deferred.is_empty()
    }

    fn is_step_dirty(&self) -> bool {
        self.buffers.is_dirty() || self.inodes.is_dirty() || !self.items.is_empty()
    }

    /// Registers a function that is called when the current transaction of the chain has been
    /// committed, before its latches are released.
    pub fn on_commit(&mut self, call: impl FnOnce(&CommittedChain) + Send + 'static) {
        self.on_commit.push(Box::new(call));
    }

    /// Makes the final commit force the log before it returns.
    #[doc(alias = "xfs_trans_set_sync")]
    pub const fn set_synchronous(&mut self) {
        self.synchronous = true;
    }

    /// Returns the number of the current step (transaction) in the chain, counted from 0. A buffer
    /// that a step joins is released at the end of the step, unless `hold` keeps it for the next.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// Commits this step and begins the next step of the chain. Joined inodes and held buffers stay
    /// latched. The intents of deferred work are logged in this step. The work itself waits for
    /// [`finish_deferred`](Self::finish_deferred) or [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. The transaction can then only be cancelled.
    pub fn roll(&mut self) -> Result<()> {
        self.log_intents();
        self.relog_intents();
        self.roll_step()
    }

    /// Finishes deferred work and commits the last step.
    ///
    /// # Errors
    ///
    /// Returns the error of deferred work, or the error that stopped the log. The transaction is
    /// then cancelled. If it was dirty, the volume is shut down.
    pub fn commit(mut self) -> Result<CommittedChain> {
        self.commit_chain()
    }

    /// Commits as [`commit`](Self::commit) does, without moving the transaction, which is large.
    /// The transaction has ended afterwards.
    fn commit_chain(&mut self) -> Result<CommittedChain> {
        let _span = tracing::trace_span!("commit").entered();
        let committed = self.finish_deferred().and_then(|()| self.commit_step(StepEnd::Last));
        match committed {
            Ok(committed) => {
                self.end();
                self.give_up_lost()?;
                self.note_end(committed)?;
                Ok(committed)
            }
            Err(error) => {
                self.cancel_chain();
                Err(error)
            }
        }
    }

    /// Does `work` in the transaction, and commits the transaction if the work succeeds. If the
    /// work fails, cancels the transaction, which shuts the volume down if the transaction is
    /// dirty.
    ///
    /// # Errors
    ///
    /// Returns the error of the work, or that of [`commit`](Self::commit).
    pub fn commit_or_cancel<R>(mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        match work(&mut self) {
            Ok(result) => self.commit_chain().map(|_| result),
            Err(error) => {
                self.cancel_chain();
                Err(error)
            }
        }
    }

    /// Does `work` as [`commit_or_cancel`](Self::commit_or_cancel) does. If the work returns
    /// `Break`, this transaction is cancelled, and the caller repeats the work in another one.
    ///
    /// # Errors
    ///
    /// Returns the error of the work, or that of [`commit`](Self::commit).
    pub fn commit_or_break<R, B>(
        mut self,
        work: impl FnOnce(&mut Self) -> Result<ControlFlow<B, R>>,
    ) -> Result<ControlFlow<B, R>> {
        match work(&mut self) {
            Ok(ControlFlow::Continue(result)) => {
                self.commit_chain().map(|_| ControlFlow::Continue(result))
            }
            ended => {
                self.cancel_chain();
                ended
            }
        }
    }

    /// Does `work`, which only reads, under latches that it acquires in this transaction. Then
    /// cancels the transaction. If the work has made it dirty, the volume is shut down.
    ///
    /// # Errors
    ///
    /// Returns the error of the work.
    pub fn cancel_after<R>(mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let result = work(&mut self);
        self.cancel_chain();
        result
    }

    /// Counts a chain that logged nothing. If the chain is synchronous and logged something, counts
    /// it too, and forces the log.
    fn note_end(&self, committed: CommittedChain) -> Result<()> {
        if committed.sequence == 0 {
            self.journal.transactions.add(EMPTY, 1);
        } else if self.synchronous {
            self.journal.transactions.add(SYNCHRONOUS, 1);
            self.journal.force(committed.sequence)?;
        }
        Ok(())
    }

    /// Ends the transaction without committing its changes. The changes of a dirty transaction
    /// cannot be undone, so the volume is shut down if the transaction is dirty.
    pub fn cancel(mut self) {
        self.cancel_chain();
    }

    /// Cancels as [`cancel`](Self::cancel) does, without moving the transaction.
    fn cancel_chain(&mut self) {
        if self.is_dirty() {
            // An error could only come from a flush, and `Shutdown::Now` does not flush.
            let _ = self.journal.shut_down(Shutdown::Now);
        }
        self.abandon();
        // An earlier step may have lost a change. An error has stopped the log.
        let _ = self.give_up_lost();
    }

    /// Commits the current transaction of the chain and begins the next one, without logging the
    /// intents of deferred work.
    fn roll_step(&mut self) -> Result<()> {
        self.inodes.relog();
        self.buffers.relog();
        self.step += 1;
        self.commit_step(StepEnd::Roll)?;
        let Some(ticket) = &mut self.ticket else { return Err(Error::Shutdown) };
        self.journal.log.roll(ticket)
    }

    /// Commits the current transaction of the chain to the log. Releases the latches that the next
    /// transaction does not need.
    fn commit_step(&mut self, end: StepEnd) -> Result<CommittedChain> {
        if !self.inodes.are_encodable() {
            return Err(unencodable());
        }
        self.space.check()?;
        let mut items = std::mem::take(&mut self.items);
        items.reserve(self.buffers.len() + self.inodes.len());
        self.buffers.collect(&mut items);
        self.inodes.collect(&mut items);
        self.count_quota(&mut items, end)?;
        let Some(ticket) = &mut self.ticket else { return Err(Error::Shutdown) };
        let logged = match items.is_empty() {
            true => None,
            false => Some(self.journal.log.commit(ticket, &items)?),
        };
        if let Some(logged) = logged {
            self.committed.sequence = logged.sequence;
        }
        self.quota.end_step();
        let committed = self.committed;
        if !self.on_commit.is_empty() {
            let calls = std::mem::take(&mut self.on_commit);
            calls.into_iter().for_each(|call| call(&committed));
        }
        self.space.settle(&self.journal.counters);
        self.highest_header = None;
        match end {
            StepEnd::Roll => {
                self.buffers.end_step();
                self.inodes.end_step();
            }
            StepEnd::Last => {
                self.buffers.end_chain();
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

    /// Releases all latches, blocks and log space that the transaction still holds.
    fn end(&mut self) {
        self.buffers.release_all();
        self.inodes.release_all();
        self.quota.end();
        self.space.release(&self.journal.counters);
        if let Some(ticket) = self.ticket.take() {
            self.journal.log.release(ticket);
        }
        let (buffers, inodes) =
            (std::mem::take(&mut self.buffers), std::mem::take(&mut self.inodes));
        let (items, quota) = (std::mem::take(&mut self.items), self.quota.take_lists());
        TransactionLists { buffers, inodes, items, quota }.keep();
    }

    /// Drops the changes of the transaction and releases everything that it holds.
    fn abandon(&mut self) {
        self.inodes.abandon();
        self.quota.abandon();
        self.items.clear();
        self.on_commit.clear();
        self.deferred.clear();
        self.end();
    }
}

/// Ends a transaction that is dropped because of an error in its owner. Only a clean transaction
/// may be dropped: a dirty one must be committed or cancelled (I3).
impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let forgotten = self.is_dirty() && !self.journal.is_shut_down();
        if forgotten {
            // An error could only come from a flush, and `Shutdown::Now` does not flush.
            let _ = self.journal.shut_down(Shutdown::Now);
        }
        self.abandon();
        assert!(
            !forgotten || std::thread::panicking(),
            "a dirty transaction neither committed nor cancelled (I3)"
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
