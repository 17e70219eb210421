//! Runs the same work in several threads.

use std::thread::{self, ScopedJoinHandle};

/// Runs `work` in `threads` threads. Each thread gets its index as argument. Returns the results in
/// the order of the indexes.
///
/// # Errors
///
/// The error of the thread with the lowest index.
pub fn in_parallel<T: Send, E: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads).map(|one| scope.spawn(move || work(one))).collect();
        join(handles)
    })
}

/// Waits for threads and returns their results. Panics if a thread has panicked, because
/// `std::thread::scope` does not do so for threads that were joined explicitly.
pub(crate) fn join<T, E>(handles: Vec<ScopedJoinHandle<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let outcomes = handles.into_iter().map(|handle| match handle.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    outcomes.collect()
}
