//! A log that is written to: its parts put together.
//!
//! Owns: opening and closing, the threads, and what happens on a shutdown. Does **not** own
//! decisions that one part can make by itself.
//!
//! # A commit, as its caller sees it
//!
//! ```text
//!  let mut ticket = log.reserve(bytes, steps)?;      may wait for log space: nothing locked yet
//!  lock items, change them
//!  let committed = log.commit(&mut ticket, &items)?; never waits
//!  unlock items
//!  log.settle(committed)?;                           may wait: the checkpoint is too large
//!  log.release(ticket);
//!  log.force(committed.sequence)?;                   if it has to be durable
//! ```
//!
//! # Shutdown
//!
//! One word says that the log is shut down. The thread that sets it, or that meets an error which
//! did, then empties the CIL and the AIL and wakes all waiters. A checkpoint that is being written
//! is aborted by the thread that writes it.

mod change_uuid;
mod config;
mod counts;
mod cover;
mod paced;
mod reserve;
mod suspend;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use xfs_buffer::Result;
use xfs_device::SharedDevice;
use xfs_format::{BASIC_BLOCK_BYTES, Lsn};
use xfs_sync::{AtomicBool, AtomicU64, Ordering, SlotCounters, Volume};

use crate::ail::{Ail, PushReport};
use crate::cil::{Cil, CilParts, Committed, Pressure};
use crate::device::LogDevice;
use crate::health::Health;
use crate::item::LogItem;
use crate::mutant::{ActiveMutant, mutate};
use crate::space::{Space, SpaceUse, Urgency};
use crate::state::LogState;
use crate::ticket::Ticket;
use crate::writer::{Writer, WriterParts};
use paced::Paced;
use threads::{AilWakeup, Threads};

pub use config::{LogConfig, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES};
pub use counts::LogCounts;

/// The number of bytes that the unmount record logs.
const UNMOUNT_BYTES: u64 = 64;

/// The time to wait before items that were locked or pinned are pushed again.
const BACKOFF: Duration = Duration::from_millis(10);

/// The way in which the log is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Committed changes are written before the shutdown.
    Flush,
    /// The log is shut down at once: changes that are not durable are lost.
    Now,
}

/// Index of the counter of forces.
const FORCES: usize = 0;
/// Index of the counter of forces that waited.
const FORCES_WAITED: usize = 1;

/// A log that is written to.
pub struct Log {
    inner: Arc<Inner>,
    threads: Threads,
}

/// State that the log's threads share with it.
struct Inner {
    cil: Cil,
    ail: Arc<Ail>,
    space: Arc<Space>,
    writer: Arc<Writer>,
    health: Arc<Health>,
    ail_wakeup: AilWakeup,
    closing: AtomicBool<Volume>,
    /// The sequence of the checkpoint up to which the log is covered.
    covered: AtomicU64<Volume>,
    /// Whether threads write checkpoints, and items in place. Set before the log is used.
    has_threads: AtomicBool<Volume>,
    forces: SlotCounters<2>,
    /// The state of a log that goes by count. `None` for other logs.
    paced: Option<Paced>,
    mutant: ActiveMutant,
}

impl Log {
    /// Opens a log for writing, from its head on. The changes between tail and head have been
    /// replayed, and stay in the log until something newer is durable. `data` is the device of
    /// metadata and file data, if the log has a device of its own.
    ///
    /// # Panics
    ///
    /// Panics if the configuration is outside the limits that it names.
    #[must_use]
    pub fn open(
        log: LogDevice,
        data: Option<SharedDevice>,
        state: &LogState,
        config: &LogConfig,
    ) -> Self {
        Self::open_with(log, data, state, config, ActiveMutant::default())
    }

    fn open_with(
        log: LogDevice,
        data: Option<SharedDevice>,
        state: &LogState,
        config: &LogConfig,
        mutant: ActiveMutant,
    ) -> Self {
        let inner = Arc::new(Inner::new(log, data, state, config, mutant));
        let threads = Threads::start(&inner, config.threads, &threads::spawn);
        Self { inner, threads }
    }

    /// Takes over the intents that recovery has left open, each with the LSN at which it was
    /// logged. They hold the tail until they are finished. Everything else up to the head is in
    /// place and is released. Called once, before any commit.
    ///
    /// # Panics
    ///
    /// Panics if an item does not lie between tail and head.
    pub fn adopt(&self, items: impl IntoIterator<Item = (Arc<dyn LogItem>, Lsn)>) {
        assert!(
            self.inner.cil.current() == 1 && self.inner.cil.is_idle(),
            "adopt() was called on a log in use"
        );
        self.inner.ail.adopt(items);
    }

    /// Adds a transaction's changes to the open checkpoint. The caller holds the locks of `items`;
    /// it unlocks them and then calls [`settle`](Self::settle).
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown): nothing was added.
    pub fn commit(&self, ticket: &mut Ticket, items: &[Arc<dyn LogItem>]) -> Result<Committed> {
        let committed = self.inner.cil.commit(ticket, items)?;
        if committed.pressure == Pressure::Overrun {
            // The checkpoint has been granted less than writing it takes (I3 of the CIL).
            self.inner.shut_down();
            return Err(xfs_buffer::Error::Shutdown);
        }
        Ok(committed)
    }

    /// Performs the action that a commit has made necessary, after its items have been unlocked:
    /// has a large checkpoint written, and waits while the checkpoint is too large.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    pub fn settle(&self, committed: Committed) -> Result<()> {
        let Committed { sequence, pressure } = committed;
        if pressure == Pressure::None {
            return Ok(());
        }
        if let Some(paced) = &self.inner.paced {
            return self.inner.pace(paced, sequence);
        }
        if !self.inner.has_threads() {
            return self.inner.push(sequence);
        }
        self.inner.cil.request_push(sequence);
        if pressure == Pressure::Throttle {
            self.inner.cil.await_switch(sequence);
        }
        self.inner.health.check()
    }

    /// Begins the next transaction of a chain. The call may wait for log space, unless the step was
    /// [secured](Self::relog_before).
    ///
    /// # Errors
    ///
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown).
    pub fn roll(&self, ticket: &mut Ticket) -> Result<()> {
        let Inner { space, health, .. } = &*self.inner;
        let is_recovery = ticket.is_recovery();
        ticket.roll(space, |bytes| {
            if is_recovery {
                return self.take_for_recovery(bytes);
            }
            space.take(bytes, Urgency::Roll, health, &|| self.inner.make_space())
        })
    }

    /// Secures the next step of a chain, and returns the LSN up to which the chain must log its
    /// open intents again in the step that it is about to commit.
    ///
    /// If the next step can have its space now, that space is taken, and only intents where the
    /// tail will soon have to move are logged again. Otherwise the chain will wait for a tail that
    /// it holds itself, so all its intents are logged again. This must be decided before the step
    /// is committed: other threads may use up the log in between.
    pub fn relog_before(&self, ticket: &mut Ticket) -> Option<Lsn> {
        let Inner { space, ail, .. } = &*self.inner;
        let is_secure = ticket.secure(space);
        let is_secure = mutate!(self.inner.mutant, Mutant::RelogByGuess, is_secure, true);
        if is_secure { ail.target() } else { Some(Lsn(u64::MAX)) }
    }

    /// Gives back the log space that a transaction has not used.
    pub fn release(&self, ticket: Ticket) {
        ticket.release(&self.inner.space);
    }

    /// Makes everything up to this checkpoint durable: see
    /// [`ItemState::sequence`](crate::ItemState::sequence) and [`Committed`].
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    pub fn force(&self, sequence: u64) -> Result<()> {
        self.inner.force(sequence)
    }

    /// Returns whether the same commits give the same bytes: see [`LogConfig::by_count`].
    #[must_use]
    pub fn is_by_count(&self) -> bool {
        self.inner.paced.is_some()
    }

    /// Returns the sequence up to which every checkpoint is durable. The sequence may have grown by
    /// the time the caller uses it.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.inner.cil.durable()
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    pub fn force_all(&self) -> Result<()> {
        self.inner.force(self.inner.cil.current())
    }

    /// Flushes the device that the log protects, without forcing the log.
    ///
    /// # Errors
    ///
    /// The error of the flush. The flush may have lost items that were written in place, which then
    /// exist only in the log. So the log is shut down.
    pub fn flush_device(&self) -> Result<()> {
        self.inner.health.check()?;
        self.inner.writer.flush_device().inspect_err(|_| self.inner.shut_down())?;
        // A concurrent flush that failed may have lost the writes that this flush was to cover.
        self.inner.health.check()
    }

    /// Returns the list of the items that are not in place.
    #[must_use]
    pub fn ail(&self) -> &Ail {
        &self.inner.ail
    }

    /// Returns the used and granted bytes. The caches of slots count as granted.
    #[must_use]
    pub fn space(&self) -> SpaceUse {
        self.inner.space.in_use()
    }

    /// Empties the caches of all slots, so that a test sees what tickets and checkpoints hold.
    #[cfg(test)]
    pub(crate) fn drain_caches(&self) {
        self.inner.space.drain();
    }

    /// Returns whether a thread waits for log space.
    #[cfg(test)]
    pub(crate) fn is_contended(&self) -> bool {
        self.inner.space.is_contended()
    }

    /// Returns whether the log has been shut down. After that nothing may be written in place.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.inner.health.is_down()
    }

    /// Shuts the log down. Every later operation fails.
    ///
    /// # Errors
    ///
    /// The error that prevented the flush; the log is shut down anyway.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        let flushed = if how == Shutdown::Flush { self.force_all() } else { Ok(()) };
        self.inner.shut_down();
        flushed
    }

    /// Writes everything in place and then the unmount record, so that there is nothing to recover.
    /// No other thread may use the log meanwhile.
    ///
    /// # Errors
    ///
    /// The error that stopped the log. The log then has to be recovered.
    pub fn unmount(mut self) -> Result<()> {
        self.quiesce()?;
        let ticket = self.reserve(UNMOUNT_BYTES, 1)?;
        let written = self.inner.writer.write_unmount();
        self.release(ticket);
        self.close();
        written.map(drop)
    }

    /// Stops the threads and waits for them.
    fn close(&mut self) {
        self.inner.stop();
        self.threads.join();
        self.inner.finish_handoff();
    }
}

/// Checkpoint numbers for each block of the log: more than the checkpoints that can begin in one
/// block.
const NUMBERS_PER_BLOCK: u32 = 64;

/// Returns the number from which a session that begins at this head counts its checkpoints.
/// Checkpoints that an earlier session left in the log have other numbers. That session began as
/// many blocks earlier as it has written, and has not used up the numbers of these blocks. The
/// whole log has fewer checkpoints than there are numbers.
pub(crate) const fn first_number(head: Lsn, log_blocks: u32) -> u32 {
    head.cycle().wrapping_mul(log_blocks).wrapping_add(head.block()).wrapping_mul(NUMBERS_PER_BLOCK)
}

/// A log that is dropped without [`Log::unmount`] is left as a crash would leave it.
impl Drop for Log {
    fn drop(&mut self) {
        self.close();
        self.inner.cil.close();
        self.inner.ail.abandon();
    }
}

impl Inner {
    fn new(
        log: LogDevice,
        data: Option<SharedDevice>,
        state: &LogState,
        config: &LogConfig,
        mutant: ActiveMutant,
    ) -> Self {
        let layout = config.layout(log.geometry(), state);
        let log_blocks = log.length_blocks();
        let log_bytes = u64::from(log_blocks) * u64::from(BASIC_BLOCK_BYTES);
        let health = Arc::<Health>::default();
        let largest = layout.unit_bytes(config.largest_bytes);
        let space = Arc::new(Space::new(log_bytes, config.slots, largest, mutant));
        let ail =
            Arc::new(Ail::new(Arc::clone(&space), log_blocks, config.free_bytes(log_bytes), state));
        let parts = WriterParts {
            log,
            data,
            layout,
            buffers: config.buffers,
            health: Arc::clone(&health),
            ail: Arc::clone(&ail),
            mutant,
        };
        let writer = Arc::new(Writer::new(parts, state.head, state.last_record));
        let cil = Cil::new(CilParts {
            writer: Arc::clone(&writer),
            ail: Arc::clone(&ail),
            health: Arc::clone(&health),
            soft_bytes: config.soft_bytes(log_bytes),
            first_number: first_number(state.head, log_blocks),
            slots: config.slots,
            pushers: config.threads,
            mutant,
        });
        Self {
            cil,
            ail,
            space,
            writer,
            health,
            ail_wakeup: AilWakeup::default(),
            closing: AtomicBool::new(false),
            covered: AtomicU64::new(0),
            has_threads: AtomicBool::new(false),
            forces: SlotCounters::new(),
            paced: config.by_count.then(Paced::default),
            mutant,
        }
    }

    fn has_threads(&self) -> bool {
        self.has_threads.load(Ordering::Acquire)
    }

    /// Requests that the threads end.
    fn stop(&self) {
        self.closing.store(true, Ordering::Release);
        self.cil.wake_all();
        self.ail_wakeup.notify();
        self.paced.iter().for_each(Paced::wake);
    }

    /// Writes all checkpoints up to this one. An error shuts the log down.
    fn push(&self, sequence: u64) -> Result<()> {
        self.cil.push(sequence).inspect_err(|_| self.shut_down())?;
        if self.ail.target().is_some() {
            self.ail_wakeup.notify();
        }
        Ok(())
    }

    fn force(&self, sequence: u64) -> Result<()> {
        let before = self.cil.durable();
        self.forces.add(FORCES, 1);
        let forced = match &self.paced {
            Some(paced) => self.force_paced(paced, sequence),
            None => self.cil.force(sequence),
        };
        forced.inspect_err(|_| self.shut_down())?;
        if self.cil.durable() > before {
            self.forces.add(FORCES_WAITED, 1);
        }
        if self.ail.target().is_some() {
            self.ail_wakeup.notify();
        }
        Ok(())
    }

    /// Makes log space for a waiter: committed items have to reach the AIL, and items in the AIL
    /// have to be written in place. More space does not help a waiter that only waits for the log
    /// to be resumed.
    fn make_space(&self) {
        if !self.space.has_waiters() {
            return;
        }
        if self.has_threads() {
            self.cil.request_push(self.cil.current());
            self.ail_wakeup.notify();
        } else if self.force(self.cil.current()).is_ok() {
            self.push_items(self.ail.head());
        }
    }

    /// Has items up to `target` written in place. A failed write shuts the log down.
    fn push_items(&self, target: Lsn) -> PushReport {
        let report = self.ail.push(target);
        if report.failed > 0 {
            self.shut_down();
        }
        report
    }

    fn shut_down(&self) {
        self.health.set_down();
        self.cil.close();
        self.ail.abandon();
        self.writer.wake_all();
        self.space.wake_all();
        self.ail_wakeup.notify();
    }
}

#[cfg(test)]
mod tests;
