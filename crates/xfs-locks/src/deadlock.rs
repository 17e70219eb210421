//! The wait graph: which process waits for which.
//!
//! Two processes that wait for each other's record locks would wait for ever. The graph detects
//! such cycles. It has processes only, as on Linux. An open file description can belong to several
//! processes. The graph therefore ignores the locks and the waits of descriptions.
//!
//! # Invariants
//!
//! - **I1** An edge is added, changed and, when its waiter is woken, removed under the internal
//!   lock of the file on which the process waits. So each edge stands for a present wait.
//! - **I2** Searching for a cycle and adding an edge are one step under the lock of the graph. So
//!   the process whose wait would close a cycle finds the cycle.

use std::fmt;
use std::sync::Arc;

use xfs_sync::{Mutex, SlotCounters, Volume};

use crate::LockError;
use crate::waiter::Waiter;

/// Index of the counter of record locks and `flock`s that were taken.
const TAKEN: usize = 0;
/// Index of the counter of record locks and `flock`s that were released.
const RELEASED: usize = 1;

/// The waits of all processes of a volume, and the number of locks held. Only a process that must
/// wait writes to the list of waits.
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
    /// Creates a graph without waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the wait of `process` for the processes in `holders`.
    ///
    /// # Errors
    ///
    /// [`LockError::Deadlock`] if one of `holders` waits for `process`, directly or through others.
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

    /// Replaces the processes for which a waiter waits by those in `holders`. Does nothing if the
    /// waiter is not in the graph.
    pub(crate) fn correct(&self, waiter: &Arc<Waiter>, holders: Vec<u64>) {
        let mut edges = self.edges.lock();
        if let Some(edge) = edges.iter_mut().find(|edge| Arc::ptr_eq(&edge.waiter, waiter)) {
            edge.holders = holders;
        }
    }

    /// Removes the wait of a waiter. Does nothing if the waiter is not in the graph.
    pub(crate) fn leave(&self, waiter: &Arc<Waiter>) {
        self.edges.lock().retain(|edge| !Arc::ptr_eq(&edge.waiter, waiter));
    }

    /// Updates the number of locks held, after the number of a file's locks has changed from
    /// `before` to `after`.
    pub(crate) fn note_locks(&self, before: usize, after: usize) {
        let counter = if after > before { TAKEN } else { RELEASED };
        let difference = after.abs_diff(before) as u64;
        if difference > 0 {
            self.locks.add(counter, difference);
        }
    }

    /// Returns the number of locks held on all files. Each separate range and each `flock` counts
    /// as one.
    #[must_use]
    pub fn locks(&self) -> u64 {
        // The released locks are summed first, so that the difference is not negative.
        let released = self.locks.sum(RELEASED);
        self.locks.sum(TAKEN).saturating_sub(released)
    }

    /// Returns the number of waits in the graph.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.edges.lock().len()
    }
}

/// Returns whether, by the waits in `edges`, one of the processes in `from` waits for `process`,
/// directly or through others.
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
