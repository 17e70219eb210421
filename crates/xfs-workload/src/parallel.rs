//! The same in several threads.

use std::thread::{self, ScopedJoinHandle};

/// Does `work` in so many threads, each of which gets its number; what they return stands in that order.
///
/// # Errors
///
/// The first error by the number of its thread.
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

/// What threads return. Who joins them by hand is not told of a panic by their scope: it goes on here.
pub(crate) fn join<T, E>(handles: Vec<ScopedJoinHandle<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let outcomes = handles.into_iter().map(|handle| match handle.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    outcomes.collect()
}
