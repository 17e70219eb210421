//! One wait, which another thread can end.
//!
//! # Invariants
//!
//! - **I1** A wakeup that comes before the sleep is kept: [`Waiter::sleep`] returns at once. Who wants
//!   to wait calls [`Waiter::reset`] while it still holds the lock under which it is found by others,
//!   so no wakeup is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xfs_sync::{Condvar, Mutex, Object};

use crate::LockError;

/// A wait for a lock, or for the breaking of a lease: given to the call that waits, and kept by who
/// may have to end it. It may be used for one wait after another, not for two at once.
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
    /// A wait for as long as it takes.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::until(None)
    }

    /// A wait that ends with [`LockError::TimedOut`] so long from now.
    #[must_use]
    pub fn with_timeout(timeout: Duration) -> Arc<Self> {
        Self::until(Instant::now().checked_add(timeout))
    }

    fn until(deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), deadline })
    }

    /// Ends the wait, and every later one of this waiter, with [`LockError::Interrupted`].
    pub fn cancel(&self) {
        self.state.lock().cancelled = true;
        self.changed.notify_all();
    }

    /// Forgets an earlier wakeup.
    pub(crate) fn reset(&self) {
        self.state.lock().woken = false;
    }

    /// Something that the waiter waits for has changed.
    pub(crate) fn wake(&self) {
        self.state.lock().woken = true;
        self.changed.notify_all();
    }

    /// Waits to be woken, at most until `limit`, which is no error.
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
