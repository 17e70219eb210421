//! Runs units of work in many threads. One thread consumes the results in the order of the units.
//!
//! Owns: the threads, the window (how far workers may be ahead of the consumer), cancellation. Does
//! **not** own: the meaning of a unit.
//!
//! ```text
//!   workers:  take n ──> work ──> pending[n] ──┐
//!   caller:                                    └──> consume 0, 1, 2, ...
//! ```
//!
//! # Invariants
//!
//! - **I1** A worker takes a unit only if it is ahead of the next unit to be consumed by less than
//!   the window. So the number of waiting results is bounded, even if one unit is slow.
//! - **I2** The first failure, a cancellation or a worker's panic ends the run. No thread waits for
//!   a result that will not come.
//! - **I3** Only workers that were started are counted. If the system grants fewer threads than
//!   requested, the started threads do all units. If it grants none, the calling thread does them
//!   all.
//!
//! There is one lock, taken twice per unit of some ten thousand inodes. No other lock is taken
//! while it is held.

use std::collections::BTreeMap;
use std::io;
use std::thread;

use xfs_sync::{Condvar, Mutex, Volume};

use crate::ScanError;

/// Size of the window per worker: how many units a worker may be ahead of the next consumed unit.
const WINDOW_PER_WORKER: usize = 2;

/// The number of worker threads of a scan, and the function that cancels the scan.
pub(crate) struct WorkerPool<'a> {
    /// Number of worker threads.
    pub(crate) threads: usize,
    /// The function that is called before each unit. If it returns `true`, the run is cancelled.
    pub(crate) cancel: Option<&'a (dyn Fn() -> bool + Send + Sync)>,
}

struct State<R> {
    next_taken: usize,
    next_consumed: usize,
    pending: BTreeMap<usize, R>,
    workers: usize,
    failure: Option<ScanError>,
}

struct Shared<R> {
    state: Mutex<State<R>, Volume>,
    room: Condvar<Volume>,
    result: Condvar<Volume>,
}

/// A guard of a running worker. When it is dropped, also because the worker panics, it records that
/// the worker has ended, and wakes all waiting threads (I2).
struct WorkerGuard<'a, R>(&'a Shared<R>);

impl<R> Drop for WorkerGuard<'_, R> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.workers -= 1;
        if thread::panicking() && state.failure.is_none() {
            state.failure = Some(ScanError::WorkerLost);
        }
        drop(state);
        self.0.room.notify_all();
        self.0.result.notify_all();
    }
}

impl WorkerPool<'_> {
    /// Runs the units with the indexes `0..count`. Each worker creates a state with `start` and
    /// calls `work` on it for one unit after the other. The calling thread passes the results to
    /// `consume`, in the order of units.
    ///
    /// # Errors
    ///
    /// The first failure of `work` or `consume`, or `ScanError::Cancelled`.
    pub(crate) fn run<S, R: Send>(
        &self,
        count: usize,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, usize) -> Result<R, ScanError> + Sync,
        mut consume: impl FnMut(usize, R) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        let shared = Shared {
            state: Mutex::new(State {
                next_taken: 0,
                next_consumed: 0,
                pending: BTreeMap::new(),
                workers: 0,
                failure: None,
            }),
            room: Condvar::new(),
            result: Condvar::new(),
        };
        let serve = || {
            let _guard = WorkerGuard(&shared);
            let mut worker = start();
            while let Some(unit) = self.take(&shared, count) {
                let result = work(&mut worker, unit);
                shared.put(unit, result);
            }
        };
        let started = thread::scope(|scope| {
            let started = shared.start(self.threads.min(count), || {
                thread::Builder::new().spawn_scoped(scope, serve)
            });
            while let Some((unit, result)) = shared.next_result(count) {
                let consumed = consume(unit, result);
                shared.consumed(consumed);
            }
            started
        });
        if started == 0 {
            return self.run_alone(count, start(), work, consume);
        }
        shared.state.into_inner().failure.map_or(Ok(()), Err)
    }

    /// Runs all units in the calling thread.
    fn run_alone<S, R>(
        &self,
        count: usize,
        mut worker: S,
        work: impl Fn(&mut S, usize) -> Result<R, ScanError>,
        mut consume: impl FnMut(usize, R) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        for unit in 0..count {
            if self.is_cancelled() {
                return Err(ScanError::Cancelled);
            }
            consume(unit, work(&mut worker, unit)?)?;
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel())
    }

    /// Waits for room in the window (**I1**). Returns the index of the next unit, or `None` if all
    /// units are taken or the run has failed.
    fn take<R>(&self, shared: &Shared<R>, count: usize) -> Option<usize> {
        let is_cancelled = self.is_cancelled();
        let mut state = shared.state.lock();
        if is_cancelled && state.failure.is_none() {
            state.failure = Some(ScanError::Cancelled);
        }
        // I1: no unit is taken beyond the window.
        while state.failure.is_none()
            && state.next_taken < count
            && state.next_taken >= state.next_consumed + state.workers * WINDOW_PER_WORKER
        {
            shared.room.wait(&mut state);
        }
        if state.failure.is_some() || state.next_taken == count {
            return None;
        }
        state.next_taken += 1;
        Some(state.next_taken - 1)
    }
}

impl<R> Shared<R> {
    /// Starts up to `wanted` workers (**I3**) and returns how many were started. Counts a worker
    /// before spawning it, because the worker may end before the spawn call returns.
    fn start<T>(&self, wanted: usize, spawn: impl Fn() -> io::Result<T>) -> usize {
        for started in 0..wanted {
            self.state.lock().workers += 1;
            if spawn().is_err() {
                self.state.lock().workers -= 1;
                return started;
            }
        }
        wanted
    }

    fn put(&self, unit: usize, result: Result<R, ScanError>) {
        let mut state = self.state.lock();
        match result {
            Ok(result) => {
                state.pending.insert(unit, result);
            }
            Err(error) => {
                state.failure.get_or_insert(error);
            }
        }
        drop(state);
        self.result.notify_one();
    }

    fn next_result(&self, count: usize) -> Option<(usize, R)> {
        let mut state = self.state.lock();
        loop {
            let unit = state.next_consumed;
            if state.failure.is_some() || unit == count {
                return None;
            }
            if let Some(result) = state.pending.remove(&unit) {
                return Some((unit, result));
            }
            if state.workers == 0 {
                return None;
            }
            self.result.wait(&mut state);
        }
    }

    fn consumed(&self, result: Result<(), ScanError>) {
        let mut state = self.state.lock();
        state.next_consumed += 1;
        if let Err(error) = result {
            state.failure.get_or_insert(error);
        }
        drop(state);
        self.room.notify_all();
    }
}

#[cfg(test)]
mod tests;
