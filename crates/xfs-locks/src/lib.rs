//! Locks that programs take on files, and the opens of files: record locks (POSIX and of open file
//! descriptions), `flock`, leases, delegations and layouts.
//!
//! Owns: which locks may be held together, waiting and cancelling, deadlocks between processes,
//! breaking of leases, and counting opens so that no lease misses an open. Does **not** own:
//! inodes, permissions, errno, or which operation breaks which lease. This crate does no I/O.
//!
//! # Parts
//!
//! - [`RecordLocks`]: ranges of one file and their owners; a plain value.
//! - [`LeaseTable`]: the leases of one file; a plain value. The caller passes the time.
//! - [`OpenTally`], [`LockWord`]: the count of opens, and the announcement of leases.
//! - [`FileLocks`]: all of these for one file, for many threads, with waiting.
//! - [`WaitGraph`]: which process waits for which other process, over all files of a volume.
//! - [`Waiter`]: one wait, which another thread can end.
//!
//! # Lock order
//!
//! The mutexes are locked in this order: the record locks or `flock`s of a file, the wait graph, a
//! waiter. The leases of a file come before a waiter. A thread never locks the leases and the
//! record locks of a file at the same time.

mod deadlock;
mod file;
mod leases;
mod opens;
mod range;
mod records;
mod waiter;

use thiserror::Error;

pub use deadlock::WaitGraph;
pub use file::{FileLocks, LockState, SlotTally, Wait};
pub use leases::{Break, Breaker, LeaseKind, LeaseMode, LeaseRequest, LeaseTable, Notify};
pub use opens::{LockWord, OpenMode, OpenTally, Opens};
pub use range::LockRange;
pub use records::{HeldLock, LockMode, Owner, RecordLocks};
pub use waiter::Waiter;

/// The atomics of `xfs-sync`. The model of the open counts in `tests/weak` uses loom's atomics in
/// their place.
mod sync {
    pub(crate) use xfs_sync::{AtomicU32, AtomicU64, Object, Ordering, fence};
}

/// The reason why a lock was not taken, or a lease was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// Another owner holds a conflicting lock, and the request does not wait.
    #[error("held by another owner")]
    WouldBlock,
    /// The wait would never end, because a holder of the lock waits for the caller.
    #[error("a deadlock would result")]
    Deadlock,
    /// [`Waiter::cancel`] ended the wait.
    #[error("the wait was interrupted")]
    Interrupted,
    /// The timeout of the [`Waiter`] has expired.
    #[error("the wait timed out")]
    TimedOut,
}
