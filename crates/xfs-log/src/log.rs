//! A log that is open for writing, put together from its parts.
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
//! A flag says that the log is shut down. The thread that sets the flag empties the CIL and the AIL
//! and wakes all waiters. Each thread whose call fails with the error that caused the shutdown does
//! the same. A checkpoint that is being written is aborted by the thread that writes it.

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
use crate::space::{LogSpace, SpaceUse, Urgency};
use crate::state::LogState;
use crate::ticket::Ticket;
use crate::writer::{Writer, WriterParts};
use paced::Paced;
use threads::{AilWakeup, Threads};

pub use config::{LogConfig, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES};
pub use counts::LogCounts;

/// Number of bytes that the unmount record reserves in the log.
const UNMOUNT_BYTES: u64 = 64;

/// The time to wait before items that were locked or pinned are pushed again.
const BACKOFF: Duration = Duration::from_millis(10);

/// How to shut the log down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// Committed changes are written to the log before it is shut down.
    Flush,
    /// The log is shut down at once: changes that are not durable are lost.
    Now,
}

/// Index, in the counters `LogInner::forces`, of the number of all forces of the log.
const FORCES: usize = 0;
/// Index, in the counters `LogInner::forces`, of the number of forces that made a checkpoint
/// durable.
const FORCES_WAITED: usize = 1;

/// A log that is open for writing.
pub struct Log {
    inner: Arc<LogInner>,
    threads: Threads,
}

/// The part of a log's state that the log's threads use too.
struct LogInner {
    cil: Cil,
    ail: Arc<Ail>,
    space: Arc<LogSpace>,
    writer: Arc<Writer>,
    health: Arc<Health>,
    ail_wakeup: AilWakeup,
    closing: AtomicBool<Volume>,
    /// The sequence number of the last checkpoint that was written to cover the log. Recovery
    /// replays nothing that is older than this checkpoint.
    covered: AtomicU64<Volume>,
    /// Whether the log has threads that write checkpoints, and threads that push items. Set before
    /// the log is used.
    has_threads: AtomicBool<Volume>,
    forces: SlotCounters<2>,
    /// The state of a log that writes checkpoints by count (`LogConfig::by_count`). `None` for
    /// other logs.
    paced: Option<Paced>,
    mutant: ActiveMutant,
}

impl Log {
    /// Opens a log for writing, from its head on. The caller has replayed the changes between tail
    /// and head. They stay in the log until the first new record, with its new tail, is durable.
    /// `data` is the device that is flushed together with the log's device. It stands for the
    /// device of metadata and file data if the log has a device of its own, and for the realtime
    /// device if there is one.
    ///
    /// # Panics
    ///
    /// Panics if a setting in `config` is outside the limits that its documentation names.
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
        let inner = Arc::new(LogInner::new(log, data, state, config, mutant));
        let threads = Threads::start(&inner, config.threads, &threads::spawn);
        Self { inner, threads }
    }

    /// Adds to the AIL the intents that recovery has left open, each with the LSN at which the
    /// intent was logged. These intents hold the tail until they are finished. All other changes up
    /// to the head are at their home locations on disk, so their log space is released. Called
    /// once, before any commit.
    ///
    /// # Panics
    ///
    /// Panics if an item's LSN does not lie between tail and head, or if the log is already in use.
    pub fn adopt(&self, items: impl IntoIterator<Item = (Arc<dyn LogItem>, Lsn)>) {
        assert!(
            self.inner.cil.current() == 1 && self.inner.cil.is_idle(),
            "adopt() was called on a log in use"
        );
        self.inner.ail.adopt(items);
    }

    /// Adds a transaction's changes to the open checkpoint. The caller holds the locks of `items`.
    /// After this call, the caller unlocks the items and then calls [`settle`](Self::settle).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Shutdown`](xfs_buffer::Error::Shutdown) if the log is shut down; nothing
    /// was added then.
    pub fn commit(&self, ticket: &mut Ticket, items: &[Arc<dyn LogItem>]) -> Result<Committed> {
        let committed = self.inner.cil.commit(ticket, items)?;
        // The checkpoint has been granted less than writing it takes (I3 of `xfs_log::cil`).
        if committed.pressure == Pressure::Overrun {
            self.inner.shut_down();
            return Err(xfs_buffer::Error::Shutdown);
        }
        Ok(committed)
    }

    /// Does the work that a commit has made necessary, after its items have been unlocked. If the
    /// open checkpoint is large, it is written. If it is too large, this call waits.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
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

    /// Begins the next transaction of a chain. The call may wait for log space, unless
    /// [`relog_before`](Self::relog_before) has reserved the space of that transaction already.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Shutdown`](xfs_buffer::Error::Shutdown) if the log is shut down.
    pub fn roll(&self, ticket: &mut Ticket) -> Result<()> {
        let LogInner { space, health, .. } = &*self.inner;
        let is_recovery = ticket.is_recovery();
        ticket.roll(space, |bytes| {
            if is_recovery {
                return self.take_for_recovery(bytes);
            }
            space.take(bytes, Urgency::Roll, health, &|| self.inner.make_space())
        })
    }

    /// Tries to reserve the space of a chain's next transaction. Returns the LSN up to which the
    /// chain must log its open intents again, in the transaction that the chain is about to commit.
    /// Returns `None` if the chain need not log any intent again.
    ///
    /// If the space is reserved now, the chain logs only those intents again that lie where the
    /// tail will soon have to move. If the space cannot be reserved now, the chain will wait for
    /// the tail to pass its own intents, so it logs all of them again. This must be decided before
    /// the transaction is committed: other threads may use up the log in between.
    pub fn relog_before(&self, ticket: &mut Ticket) -> Option<Lsn> {
        let LogInner { space, ail, .. } = &*self.inner;
        let is_secure = ticket.secure(space);
        let is_secure = mutate!(self.inner.mutant, Mutant::RelogByGuess, is_secure, true);
        if is_secure { ail.target() } else { Some(Lsn(u64::MAX)) }
    }

    /// Gives back the log space that a ticket has not used.
    pub fn release(&self, ticket: Ticket) {
        ticket.release(&self.inner.space);
    }

    /// Makes all checkpoints up to `sequence` durable. The caller gets `sequence` from
    /// [`ItemState::sequence`](crate::ItemState::sequence) or [`Committed`].
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn force(&self, sequence: u64) -> Result<()> {
        self.inner.force(sequence)
    }

    /// Returns whether the same commits always give the same bytes in the log: see
    /// [`LogConfig::by_count`].
    #[must_use]
    pub fn is_by_count(&self) -> bool {
        self.inner.paced.is_some()
    }

    /// Returns the sequence number up to which every checkpoint is durable. More checkpoints may be
    /// durable by the time the caller uses the result.
    #[must_use]
    pub fn durable_sequence(&self) -> u64 {
        self.inner.cil.durable()
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log.
    pub fn force_all(&self) -> Result<()> {
        self.inner.force(self.inner.cil.current())
    }

    /// Flushes the device of metadata and file data, without forcing the log.
    ///
    /// # Errors
    ///
    /// Returns the error of the flush, and shuts the log down: the flush may have lost items that
    /// were written to their home locations on disk, which then exist only in the log.
    pub fn flush_device(&self) -> Result<()> {
        self.inner.health.check()?;
        self.inner.writer.flush_device().inspect_err(|_| self.inner.shut_down())?;
        // A concurrent flush that failed may have lost the writes that this flush was to cover.
        self.inner.health.check()
    }

    /// Returns the active item list: the items that are not yet written to their home locations on
    /// disk.
    #[must_use]
    pub fn ail(&self) -> &Ail {
        &self.inner.ail
    }

    /// Returns the used and granted bytes of the log. Bytes in the caches of slots count as
    /// granted.
    #[must_use]
    pub fn space(&self) -> SpaceUse {
        self.inner.space.in_use()
    }

    /// Empties the caches of all slots, so that a test sees how many bytes tickets and checkpoints
    /// hold.
    #[cfg(test)]
    pub(crate) fn drain_caches(&self) {
        self.inner.space.drain();
    }

    /// Returns whether a thread waits for log space, or log space is closed to new transactions.
    #[cfg(test)]
    pub(crate) fn is_contended(&self) -> bool {
        self.inner.space.is_contended()
    }

    /// Returns whether the log has been shut down. After a shutdown, no item may be written to its
    /// home location on disk.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.inner.health.is_down()
    }

    /// Shuts the log down. Every later operation fails.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the writing of committed changes. The log is shut down
    /// anyway.
    pub fn shut_down(&self, how: Shutdown) -> Result<()> {
        let flushed = if how == Shutdown::Flush { self.force_all() } else { Ok(()) };
        self.inner.shut_down();
        flushed
    }

    /// Writes every item to its home location on disk. Then writes the unmount record, so that
    /// recovery has nothing to do. No other thread may use the log meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the error that stopped the log. The log then has to be recovered.
    pub fn unmount(mut self) -> Result<()> {
        self.quiesce()?;
        let ticket = self.reserve(UNMOUNT_BYTES, 1)?;
        let written = self.inner.writer.write_unmount();
        self.release(ticket);
        self.close();
        written.map(drop)
    }

    /// Stops the log's threads and waits until they have ended.
    fn close(&mut self) {
        self.inner.stop();
        self.threads.join();
        self.inner.finish_handoff();
    }
}

/// Number of checkpoint numbers that are set aside for each block of the log: more than the number
/// of checkpoints that can begin in one block.
const NUMBERS_PER_BLOCK: u32 = 64;

/// Returns the transaction number from which a session counts its checkpoints, if the session
/// begins at the head `head`. A session lasts from opening the log to closing it. A range of
/// numbers belongs to each block in each cycle of the log. A session uses fewer numbers than belong
/// to the blocks that it writes. So a new checkpoint never gets the number of a checkpoint that an
/// earlier session left in the log.
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

impl LogInner {
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
        let space = Arc::new(LogSpace::new(log_bytes, config.slots, largest, mutant));
        let ail = Ail::new(Arc::clone(&space), log_blocks, config.free_bytes(log_bytes), state);
        let ail = Arc::new(ail.with_most_items(config.most_items));
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

    /// Tells the log's threads to end.
    fn stop(&self) {
        self.closing.store(true, Ordering::Release);
        self.cil.wake_all();
        self.ail_wakeup.notify();
        self.paced.iter().for_each(Paced::wake);
    }

    /// Writes all checkpoints up to `sequence`. Shuts the log down if that fails.
    fn push(&self, sequence: u64) -> Result<()> {
        self.cil.push(sequence).inspect_err(|_| self.shut_down())?;
        self.write_excess();
        if self.ail.target().is_some() {
            self.ail_wakeup.notify();
        }
        Ok(())
    }

    /// Writes items in place if the AIL has more of them than it may have. Each thread that has
    /// written a checkpoint or forced the log does this, before it writes another one. No thread
    /// waits for an item: an item that is pinned or locked stays.
    fn write_excess(&self) {
        if let Some(target) = self.ail.excess() {
            self.push_items(target);
        }
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
        self.write_excess();
        if self.ail.target().is_some() {
            self.ail_wakeup.notify();
        }
        Ok(())
    }

    /// Makes log space for a waiter. Pushes the checkpoints, so that committed items reach the AIL,
    /// and has items of the AIL written to their home locations on disk. Does nothing for threads
    /// that wait only because the log is suspended: more space does not help them.
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

    /// Requests that items up to `target` be written to their home locations on disk. A failed
    /// write shuts the log down.
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
