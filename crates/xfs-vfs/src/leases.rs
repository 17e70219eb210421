//! Waiting for leases that conflict with an operation, and the check that a file has no such lease.

use std::time::Duration;

use xfs_buffer::{Error, PosixError, Result};
use xfs_icache::{CachedInode, InodeKind};
use xfs_locks::{Breaker, LockError, Wait, Waiter};

/// Breaks the leases on a file that conflict with the operation `breaker`. Waits until the holders
/// have returned these leases. A lease that is not returned within the time `grace` is ended.
pub(crate) fn break_and_wait<K: InodeKind>(
    file: &CachedInode<K>,
    breaker: Breaker,
    grace: Duration,
) -> Result<()> {
    let broken = file.locks().break_leases(breaker, Wait::For(&Waiter::new()), grace);
    broken.map_err(lock_error)
}

/// Checks that a file which is about to change has no delegations. Does not break delegations: a
/// holder may have to use the volume before it can return one, and would wait for latches that the
/// caller holds. `OpContext::undelegated` breaks them when no latch is held.
pub(crate) fn check_undelegated<K: InodeKind>(file: &CachedInode<K>) -> Result<()> {
    match file.locks().is_leased_against(Breaker::Change) {
        true => Err(PosixError::WouldBlock.into()),
        false => Ok(()),
    }
}

/// Returns the POSIX error for a lock that could not be taken.
pub fn lock_error(error: LockError) -> Error {
    let posix = match error {
        LockError::WouldBlock => PosixError::WouldBlock,
        LockError::Deadlock => PosixError::Deadlock,
        LockError::Interrupted => PosixError::Interrupted,
        LockError::TimedOut => PosixError::TimedOut,
    };
    posix.into()
}
