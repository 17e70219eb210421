//! Leases that conflict with an operation.

use std::time::Duration;

use xfs_buffer::{Error, PosixError, Result};
use xfs_locks::{Breaker, LockError, Wait, Waiter};

use crate::kind::CachedInode;

/// Breaks leases, and waits until their holders have returned them or their time is over.
pub(crate) fn break_and_wait(file: &CachedInode, breaker: Breaker, grace: Duration) -> Result<()> {
    let broken = file.locks().break_leases(breaker, Wait::For(&Waiter::new()), grace);
    broken.map_err(lock_error)
}

/// Checks that a file which is about to change has no delegations. They are not broken here, as
/// their holders may call back: see `OpContext::undelegated`.
pub(crate) fn check_undelegated(file: &CachedInode) -> Result<()> {
    match file.locks().is_leased_against(Breaker::Change) {
        true => Err(PosixError::WouldBlock.into()),
        false => Ok(()),
    }
}

/// Returns the POSIX error for a lock that was not taken.
pub fn lock_error(error: LockError) -> Error {
    let posix = match error {
        LockError::WouldBlock => PosixError::WouldBlock,
        LockError::Deadlock => PosixError::Deadlock,
        LockError::Interrupted => PosixError::Interrupted,
        LockError::TimedOut => PosixError::TimedOut,
    };
    posix.into()
}
