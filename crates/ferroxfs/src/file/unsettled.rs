//! When files are looked at that have something to write.
//!
//! Owns: how often a thread looks for what is old, and the errors that nobody could be told of. Does
//! **not** own what is written ([`contents`](super::contents)), or which files have something to
//! write: they bear a tag ([`Which::Unsettled`](crate::Which)).

use std::time::Duration;

use xfs_buffer::{Error, Result};
use xfs_sync::{AtomicU64, Condvar, Mutex, Ordering, Volume};

/// Between two looks for what is old.
const TICK: Duration = Duration::from_secs(5);

/// The looks for files that have something to write.
#[derive(Default)]
pub(crate) struct Unsettled {
    tick: AtomicU64<Volume>,
    closed: Mutex<bool, Volume>,
    closing: Condvar<Volume>,
    /// What a handle that was dropped could tell nobody: the first of that.
    failure: Mutex<Option<Error>, Volume>,
}

impl Unsettled {
    /// Counts how often it was looked for what is old.
    pub(crate) fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts one more look, and returns the count.
    pub(crate) fn next_tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits for the next look; `false` once the volume is closed.
    pub(crate) fn wait(&self) -> bool {
        let mut closed = self.closed.lock();
        if !*closed {
            self.closing.wait_for(&mut closed, TICK);
        }
        !*closed
    }

    /// Lets [`wait`](Self::wait) return.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.closing.notify_all();
    }

    /// Keeps an error that nobody was told of.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }

    /// The error of a file whose handle was dropped, once.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}
