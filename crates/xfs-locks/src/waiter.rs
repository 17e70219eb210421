//! One wait, which another thread can end.
//!
//! # Invariants
//!
//! - **I1** No wakeup is lost. If a wakeup comes before the sleep, [`Waiter::sleep`] returns at
//!   once. A thread calls [`Waiter::reset`] while it still holds the lock under which other threads
//!   find the waiter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xfs_sync::{Condvar, Mutex, Object};

use crate::LockError;

/// The object on which a call waits for a lock, or for the break of a lease. Another thread that
/// may have to end the wait keeps a reference to it. A waiter can serve many waits, but only one at
/// a time.
#[derive(Debug)]
pub struct Waiter {
    state: Mutex<WakeState, Object>,
    changed: Condvar<Object>,
    deadline: Option<Instant>,
}

#[derive(Debug, Default)]
struct WakeState {
    woken: bool,
    cancelled: bool,
}

impl Waiter {
    /// Creates a waiter without a deadline.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::until(None)
    }

    /// Creates a waiter whose waits end with [`LockError::TimedOut`] after `timeout` from now.
    #[must_use]
    pub fn with_timeout(timeout: Duration) -> Arc<Self> {
        Self::until(Instant::now().checked_add(timeout))
    }

    fn until(deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), deadline })
    }

    /// Ends the present wait, and every later wait of this waiter, with [`LockError::Interrupted`].
    pub fn cancel(&self) {
        self.state.lock().cancelled = true;
        self.changed.notify_all();
    }

    /// Forgets an earlier wakeup.
    pub(crate) fn reset(&self) {
        self.state.lock().woken = false;
    }

    /// Wakes the waiter, because the locks or leases for which it waits have changed.
    pub(crate) fn wake(&self) {
        self.state.lock().woken = true;
        self.changed.notify_all();
    }

    /// Waits for a wakeup, but not beyond `limit`. Reaching `limit` is not an error.
    pub(crate) fn sleep(&self, limit: Option<Instant>) -> Result<(), LockError> {
        let until = [self.deadline, limit].into_iter().flatten().min();
        let mut state = self.state.lock();
        loop {
            if state.cancelled {
                return Err(LockError::Interrupted);
            }
            if state.woken {
                return Ok(());
            }
            let Some(until) = until else {
                self.changed.wait(&mut state);
                continue;
            };
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return Err(LockError::TimedOut);
            }
            if until <= now {
                return Ok(());
            }
            self.changed.wait_for(&mut state, until - now);
        }
    }
}

#[cfg(test)]
mod tests;
