//! When files are looked at that have something to write.
//!
//! Owns: how often a thread looks for what is old, how much may wait in all, and the errors that nobody
//! could be told of. Does **not** own what is written ([`contents`](super::contents)), or which files have something to
//! write: they bear a tag ([`Which::Unsettled`](crate::Which)).

use std::time::Duration;

use xfs_buffer::{Error, IoError, Result};
use xfs_sync::{AtomicU64, Condvar, Mutex, Ordering, Volume};

/// Between two looks for what is old.
const TICK: Duration = Duration::from_secs(5);
/// What the buffers of all files together may hold.
const MAX_BYTES: u64 = 64 << 20;
/// What a buffer claims of that at a time.
const CLAIM_BYTES: u64 = 64 << 10;
/// A buffer that is no longer claims nothing, so that small files share no count: the memory of an open
/// file is of that order anyway.
const UNCLAIMED_BYTES: u64 = 4 << 10;

/// The looks for files that have something to write.
#[derive(Default)]
pub(crate) struct Unsettled {
    tick: AtomicU64<Volume>,
    /// What all buffers have claimed.
    claimed_bytes: AtomicU64<Volume>,
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

    /// Claims memory for a buffer of this length that has claimed some already; `false` if others have
    /// all of it.
    pub(crate) fn claim(&self, claimed_bytes: &mut u64, length_bytes: u64) -> bool {
        if length_bytes <= UNCLAIMED_BYTES.max(*claimed_bytes) {
            return true;
        }
        let claim = length_bytes.next_multiple_of(CLAIM_BYTES);
        let more = claim - *claimed_bytes;
        let is_there = self.claimed_bytes.fetch_add(more, Ordering::Relaxed) + more <= MAX_BYTES;
        if is_there {
            *claimed_bytes = claim;
        } else {
            self.unclaim(more);
        }
        is_there
    }

    /// Gives memory back that was claimed.
    pub(crate) fn unclaim(&self, claimed_bytes: u64) {
        if claimed_bytes > 0 {
            self.claimed_bytes.fetch_sub(claimed_bytes, Ordering::Relaxed);
        }
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

/// The same error once more, for somebody else.
pub(super) fn repeat(error: &Error) -> Error {
    match error {
        Error::Io(IoError { operation, at, length_bytes, source }) => {
            let source = match source.raw_os_error() {
                Some(number) => std::io::Error::from_raw_os_error(number),
                None => std::io::Error::new(source.kind(), source.to_string()),
            };
            let (at, length_bytes) = (*at, *length_bytes);
            IoError { operation, at, length_bytes, source }.into()
        }
        Error::Corrupt(corruption) => corruption.clone().into(),
        Error::Unsupported(reason) => (*reason).into(),
        Error::Posix(case) => (*case).into(),
        Error::Shutdown => Error::Shutdown,
    }
}
