//! Which process waits for which.
//!
//! A process that holds record locks and waits for another's may be what that one waits for. Only
//! processes are looked at: an open file description belongs to nobody in particular, so that its
//! holder cannot be said to wait, as on Linux.
//!
//! # Invariants
//!
//! - **I1** An edge is put in, corrected, and taken out when its waiter is woken under the lock of the
//!   file whose lock is waited for. So an edge that is there stands for a wait.
//! - **I2** Looking for a circle and putting in an edge are one step, so of the waits of a circle the
//!   last one finds it.

use std::fmt;
use std::sync::Arc;

use xfs_sync::{Mutex, SlotCounters, Volume};

use crate::LockError;
use crate::waiter::Waiter;

/// Counter of locks that came.
const TAKEN: usize = 0;
/// Counter of those that went.
const RELEASED: usize = 1;

/// The waits of all processes of a volume, in which only who has to wait writes; and how many locks are held.
#[derive(Default)]
pub struct WaitGraph {
    edges: Mutex<Vec<WaitEdge>, Volume>,
    locks: SlotCounters<2>,
}

impl fmt::Debug for WaitGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGraph").field("edges", &self.edges).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct WaitEdge {
    process: u64,
    holders: Vec<u64>,
    waiter: Arc<Waiter>,
}

impl WaitGraph {
    /// A graph in which nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a process waits for others.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`] if one of them waits for it.
    pub(crate) fn enter(
        &self,
        process: u64,
        holders: Vec<u64>,
        waiter: &Arc<Waiter>,
    ) -> Result<(), LockError> {
        let mut edges = self.edges.lock();
        if leads_to(&edges, &holders, process) {
            return Err(LockError::Deadlock);
        }
        edges.push(WaitEdge { process, holders, waiter: Arc::clone(waiter) });
        Ok(())
    }

    /// Says anew whom a waiter waits for, if it is there.
    pub(crate) fn correct(&self, waiter: &Arc<Waiter>, holders: Vec<u64>) {
        let mut edges = self.edges.lock();
        if let Some(edge) = edges.iter_mut().find(|edge| Arc::ptr_eq(&edge.waiter, waiter)) {
            edge.holders = holders;
        }
    }

    /// Takes out a wait, if it is there.
    pub(crate) fn leave(&self, waiter: &Arc<Waiter>) {
        self.edges.lock().retain(|edge| !Arc::ptr_eq(&edge.waiter, waiter));
    }

    /// Notes how many locks a file had, and has now.
    pub(crate) fn note_locks(&self, before: usize, after: usize) {
        let counter = if after > before { TAKEN } else { RELEASED };
        let difference = after.abs_diff(before) as u64;
        if difference > 0 {
            self.locks.add(counter, difference);
        }
    }

    /// How many locks are held on all files: ranges that lie apart, and files that are locked as a whole.
    #[must_use]
    pub fn locks(&self) -> u64 {
        // What went is read before what came, so that the difference is not negative.
        let released = self.locks.sum(RELEASED);
        self.locks.sum(TAKEN).saturating_sub(released)
    }

    /// How many waits it knows.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.edges.lock().len()
    }
}

/// Whether one of `from` waits for `process`, at however many removes.
fn leads_to(edges: &[WaitEdge], from: &[u64], process: u64) -> bool {
    let mut pending = from.to_vec();
    let mut seen = Vec::new();
    while let Some(next) = pending.pop() {
        if next == process {
            return true;
        }
        if seen.contains(&next) {
            continue;
        }
        seen.push(next);
        let waits = edges.iter().filter(|edge| edge.process == next);
        pending.extend(waits.flat_map(|edge| edge.holders.iter().copied()));
    }
    false
}

#[cfg(test)]
mod tests;
