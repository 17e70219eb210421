//! Checkpoints whose bytes follow from the commits alone.
//!
//! Owns: at which points a log that goes by count closes a checkpoint, takes it for durable, and writes items in
//! place. Does **not** own how any of that is done ([`cil`](crate::cil), [`ail`](crate::ail)).
//!
//! Elsewhere the threads of the log decide when they get their turn, and what they decide stands on the device: where
//! a checkpoint ends, so the LSNs of all that is in it; what is in place already, so how much of an item is logged;
//! the tail in the records; which freed blocks are busy. Here each decision is a step of the thread that commits,
//! at a place that follows from the bytes that were committed. One thread copies and writes records beside it.
//!
//! ```text
//!  commits of n ─► soft limit ─► collect n-1 ─► write in place ─► close n, hand it over ─► commits of n+1
//!                                     ▲                                    │
//!  writer      records of n-1 ────────┘                                    └─► records of n
//! ```
//!
//! # Invariants
//!
//! - **I1** At most one checkpoint is being written. Until it is collected nothing that a commit looks at knows that
//!   it is durable: its items are pinned, its grant is granted, its frees are busy.
//! - **I2** Items are written in place, and the tail moves, only while no checkpoint is being written. So all records of a
//!   checkpoint name the same tail.
//! - **I3** A thread holds `decision` while it collects, closes or writes in place by count. If commits come one after the
//!   other, everything follows from them alone. Commits of several threads are as safe as elsewhere.
//!
//! # Crash argument
//!
//! That of any log: a checkpoint is written by the same steps in the same order, and only one at a time. It is taken for
//! durable later than elsewhere, never earlier, and so is the tail.
//!
//! Lock order: `decision`, `handoff`; then all that a push takes. The caller may hold latches of items: the writer thread
//! takes none.

use std::mem;

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicBool, Condvar, Mutex, Ordering, Volume};

use super::Inner;
use crate::cil::{ClosedCheckpoint, WrittenCheckpoint};

/// What the threads that commit and the one that writes hand to each other.
#[derive(Default)]
pub(super) struct Paced {
    /// Held over each decision (I3).
    decision: Mutex<(), Volume>,
    handoff: Mutex<Handoff, Volume>,
    changed: Condvar<Volume>,
    /// There is a thread that writes. Set before the log is used.
    has_writer: AtomicBool<Volume>,
}

/// The checkpoint that is on its way (I1).
#[derive(Default)]
enum Handoff {
    #[default]
    Idle,
    /// Closed, for the thread to write.
    Closed(ClosedCheckpoint),
    Writing,
    /// Durable, to be collected.
    Written(WrittenCheckpoint),
    /// Lost, and its items aborted: the thread that collects it returns the error.
    Failed(Error),
}

impl Paced {
    pub(super) fn set_writer(&self) {
        self.has_writer.store(true, Ordering::Release);
    }

    /// Lets the thread that writes look whether it has to end.
    pub(super) fn wake(&self) {
        let _desk = self.handoff.lock();
        self.changed.notify_all();
    }

    fn put(&self, state: Handoff) {
        *self.handoff.lock() = state;
        self.changed.notify_all();
    }

    /// Waits until nothing is being written, and takes what was.
    fn take_written(&self) -> Handoff {
        let mut handoff = self.handoff.lock();
        while matches!(*handoff, Handoff::Closed(_) | Handoff::Writing) {
            self.changed.wait(&mut handoff);
        }
        mem::take(&mut *handoff)
    }
}

impl Inner {
    /// This checkpoint has reached its soft limit: closes it, unless another thread has, and has it written.
    pub(super) fn pace(&self, paced: &Paced, sequence: u64) -> Result<()> {
        let _decision = paced.decision.lock();
        if self.cil.current() <= sequence {
            self.collect(paced)?;
            if let Some(target) = self.ail.target() {
                self.push_items(target);
            }
            if let Some(closed) = self.cil.close_checkpoint(sequence) {
                self.hand_over(paced, closed);
            }
        }
        self.health.check()
    }

    /// As [`Cil::force`](crate::cil::Cil::force).
    pub(super) fn force_paced(&self, paced: &Paced, sequence: u64) -> Result<()> {
        if self.cil.durable() >= sequence {
            return Ok(());
        }
        let _decision = paced.decision.lock();
        self.collect(paced)?;
        if self.cil.durable() < sequence {
            self.cil.push(sequence)?;
        }
        // What has not been closed by now was empty, unless the log is shut down.
        if self.cil.durable() >= sequence { Ok(()) } else { self.health.check() }
    }

    /// Takes the checkpoint that was handed over last for durable, once it is.
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

    /// Has a checkpoint written. Without a thread for that it is written here, and collected no earlier for it.
    fn hand_over(&self, paced: &Paced, closed: ClosedCheckpoint) {
        match paced.has_writer.load(Ordering::Acquire) {
            true => paced.put(Handoff::Closed(closed)),
            false => paced.put(self.write_for(closed)),
        }
    }

    fn write_for(&self, closed: ClosedCheckpoint) -> Handoff {
        self.cil.write_closed(closed).map_or_else(Handoff::Failed, Handoff::Written)
    }

    /// The work of the thread: writes what is handed over, until the log is closed.
    pub(super) fn write_handed(&self) {
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

    /// The log is closed and its thread has ended: what is still on its way is completed, or aborted.
    pub(super) fn end_pace(&self) {
        let Some(paced) = &self.paced else { return };
        match mem::take(&mut *paced.handoff.lock()) {
            Handoff::Written(written) => self.cil.complete(written),
            Handoff::Closed(closed) => self.cil.abandon_closed(closed),
            Handoff::Idle | Handoff::Writing | Handoff::Failed(_) => {}
        }
    }
}
