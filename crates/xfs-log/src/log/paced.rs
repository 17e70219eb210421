//! Checkpoints whose bytes follow from the commits alone.
//!
//! Owns: the points at which a log that goes by count closes a checkpoint, treats it as durable,
//! and writes items in place, that is, to their home locations on disk. Does **not** own how any of
//! that is done ([`cil`](crate::cil), [`ail`](crate::ail)).
//!
//! In other logs the log's threads make decisions when the scheduler runs them, and the decisions
//! show on the device. They are: where a checkpoint ends, and so the LSNs of all its items; which
//! items are in place, and so how much of an item is logged; the tail in the records; which freed
//! blocks are busy. Here each decision is a step of the committing thread, at a point that follows
//! from the committed bytes. One thread copies and writes records beside it.
//!
//! ```text
//!  commits of n ─► soft limit ─► collect n-1 ─► write in place ─► close n, hand over ─► commits
//!                                     ▲                                    │
//!  writer      records of n-1 ────────┘                                    └─► records of n
//! ```
//!
//! # Invariants
//!
//! - **I1** At most one checkpoint is being written. Until a committing thread collects it, that
//!   is, treats it as durable, no state that a commit reads shows that it is durable: its items are
//!   pinned, its log space stays granted, its freed blocks are busy.
//! - **I2** Items are written in place, and the tail moves, only while no checkpoint is being
//!   written. So all records of a checkpoint name the same tail.
//! - **I3** A thread holds the lock `decision` while it collects or closes a checkpoint, or writes
//!   items in place, by count. If commits come one after another, all these decisions follow from
//!   the commits alone. Commits of several threads are as safe as in other logs.
//!
//! # Crash argument
//!
//! The argument is that of any log: a checkpoint is written by the same steps in the same order,
//! and only one at a time. The checkpoint is treated as durable later than in other logs, never
//! earlier, and so the tail also moves later.
//!
//! Lock order: `decision`, `handoff`; then all locks that a push takes. The caller may hold latches
//! of items: the writer thread takes none.

use std::mem;

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Condvar, Mutex, Ordering, Volume};

use super::LogInner;
use crate::cil::{ClosedCheckpoint, WrittenCheckpoint};

/// The state that committing threads and the writer thread of a by-count log share.
#[derive(Default)]
pub(super) struct Paced {
    /// The lock that a thread holds while it closes or collects a checkpoint, or writes items in
    /// place (I3).
    decision: Mutex<(), Volume>,
    handoff: Mutex<Handoff, Volume>,
    changed: Condvar<Volume>,
    /// Whether the log has a writer thread. Set before the log is used.
    has_writer: AtomicBool<Volume>,
}

/// The state of the one checkpoint that is between being closed and being treated as durable (I1).
#[derive(Default)]
enum Handoff {
    #[default]
    Idle,
    /// The checkpoint is closed, and the writer thread must write it.
    Closed(ClosedCheckpoint),
    Writing,
    /// The checkpoint is durable, and a committing thread must collect it, that is, treat it as
    /// durable from then on.
    Written(WrittenCheckpoint),
    /// The checkpoint could not be written, and its items are aborted. The thread that collects it
    /// returns the error.
    Failed(Error),
}

impl Paced {
    pub(super) fn set_writer(&self) {
        self.has_writer.store(true, Ordering::Release);
    }

    /// Wakes the writer thread, so that it checks whether the log is closed.
    pub(super) fn wake(&self) {
        let _desk = self.handoff.lock();
        self.changed.notify_all();
    }

    fn put(&self, state: Handoff) {
        let before = mem::replace(&mut *self.handoff.lock(), state);
        let is_done = matches!(before, Handoff::Idle | Handoff::Writing);
        assert!(is_done, "a checkpoint was handed over before the last was collected (I1)");
        self.changed.notify_all();
    }

    /// Waits until no checkpoint is being written. Returns the state of the checkpoint that the
    /// writer thread got last, and sets the state to `Idle`.
    fn take_written(&self) -> Handoff {
        let mut handoff = self.handoff.lock();
        while matches!(*handoff, Handoff::Closed(_) | Handoff::Writing) {
            self.changed.wait(&mut handoff);
        }
        mem::take(&mut *handoff)
    }
}

impl LogInner {
    /// Closes the checkpoint `sequence`, which has reached its soft limit. Then gives it to the
    /// writer thread, or writes it if there is no such thread. Does nothing if another thread has
    /// closed the checkpoint already.
    pub(super) fn pace(&self, paced: &Paced, sequence: u64) -> Result<()> {
        let _decision = paced.decision.lock();
        if self.cil.current() <= sequence {
            self.collect(paced)?;
            if let Some(target) = self.ail.target() {
                let is_idle = matches!(*paced.handoff.lock(), Handoff::Idle);
                debug_assert!(is_idle, "items are written beside a checkpoint (I2)");
                self.push_items(target);
            }
            self.write_excess();
            if let Some(closed) = self.cil.close_checkpoint(sequence) {
                self.hand_over(paced, closed);
            }
        }
        self.health.check()
    }

    /// Makes all checkpoints up to `sequence` durable, as [`Cil::force`](crate::cil::Cil::force)
    /// does in other logs.
    pub(super) fn force_paced(&self, paced: &Paced, sequence: u64) -> Result<()> {
        if self.cil.durable() >= sequence {
            return Ok(());
        }
        let _decision = paced.decision.lock();
        self.collect(paced)?;
        if self.cil.durable() < sequence {
            self.cil.push(sequence)?;
        }
        // A checkpoint that has not been closed by now was empty, unless the log is shut down.
        if self.cil.durable() >= sequence { Ok(()) } else { self.health.check() }
    }

    /// Waits until the checkpoint that the writer thread got last is written. From then on, treats
    /// that checkpoint as durable.
    fn collect(&self, paced: &Paced) -> Result<()> {
        match paced.take_written() {
            Handoff::Written(written) => self.cil.complete(written),
            Handoff::Failed(error) => {
                self.shut_down();
                return Err(error);
            }
            Handoff::Idle | Handoff::Closed(_) | Handoff::Writing => {}
        }
        Ok(())
    }

    /// Gives a closed checkpoint to the writer thread or, if there is no writer thread, writes the
    /// checkpoint in the calling thread. In both cases a committing thread collects the checkpoint
    /// (treats it as durable) at the same later point.
    fn hand_over(&self, paced: &Paced, closed: ClosedCheckpoint) {
        match paced.has_writer.load(Ordering::Acquire) {
            true => paced.put(Handoff::Closed(closed)),
            false => paced.put(self.write_for(closed)),
        }
    }

    fn write_for(&self, closed: ClosedCheckpoint) -> Handoff {
        self.cil.write_closed(closed).map_or_else(Handoff::Failed, Handoff::Written)
    }

    /// Runs the writer thread: writes each checkpoint that a committing thread gives to it, until
    /// the log is closed.
    pub(super) fn run_writer(&self) {
        let Some(paced) = &self.paced else { return };
        let mut handoff = paced.handoff.lock();
        loop {
            match mem::take(&mut *handoff) {
                Handoff::Closed(closed) => {
                    *handoff = Handoff::Writing;
                    drop(handoff);
                    let written = self.write_for(closed);
                    if matches!(written, Handoff::Failed(_)) {
                        self.shut_down();
                    }
                    paced.put(written);
                    handoff = paced.handoff.lock();
                }
                other => {
                    *handoff = other;
                    if self.closing.load(Ordering::Acquire) {
                        return;
                    }
                    paced.changed.wait(&mut handoff);
                }
            }
        }
    }

    /// Completes or aborts the checkpoint that the writer thread got last. Called after the log is
    /// closed and the writer thread has ended.
    pub(super) fn finish_handoff(&self) {
        let Some(paced) = &self.paced else { return };
        match mem::take(&mut *paced.handoff.lock()) {
            Handoff::Written(written) => self.cil.complete(written),
            Handoff::Closed(closed) => self.cil.abandon_closed(closed),
            Handoff::Idle | Handoff::Writing | Handoff::Failed(_) => {}
        }
    }
}
