//! Locks that programs take on files, and who has a file open: record locks (POSIX and of open file
//! descriptions), `flock`, leases, delegations and layouts.
//!
//! Owns: who may hold what beside whom, waiting and giving up, deadlocks between processes, breaking
//! of leases, and how an open is counted so that a lease is never given beside it unseen. Does
//! **not** own: inodes, permissions, errno, which operation breaks what. It does no I/O.
//!
//! # Parts
//!
//! - [`RecordLocks`]: ranges of one file and who holds them; a plain value.
//! - [`LeaseTable`]: the leases of one file; a plain value, told the time.
//! - [`OpenTally`], [`LockWord`]: opens are counted here and leases are announced there.
//! - [`FileLocks`]: all of it for one file, for many threads, with waiting.
//! - [`WaitGraph`]: which process waits for which, over all files of a volume.
//! - [`Waiter`]: one wait, which another thread can end.
//!
//! # Lock order
//!
//! The locks of a file, the wait graph, a waiter. Leases of a file: before a waiter, never together
//! with the record locks.

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

/// What the model of the open counts is compiled against in place of this; see `tests/weak`.
mod sync {
    pub(crate) use xfs_sync::{AtomicU32, AtomicU64, Object, Ordering, fence};
}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// Somebody holds what is in the way, and the caller did not want to wait.
    #[error("held by somebody else")]
    WouldBlock,
    /// Waiting would never end: the holder waits for the caller.
    #[error("a deadlock would result")]
    Deadlock,
    /// The wait was ended by [`Waiter::cancel`].
    #[error("the wait was interrupted")]
    Interrupted,
    /// The wait lasted as long as its [`Waiter`] allows.
    #[error("the wait timed out")]
    TimedOut,
}
