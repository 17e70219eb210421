//! The primitives of a build for model tests: those of shuttle, with the interface of
//! `parking_lot`.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use shuttle::sync;
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
pub(crate) use shuttle::thread::yield_now;

/// Stands in for a recursive lock, which shuttle does not have. A task in a model must not hold two
/// read guards.
pub(crate) type RecursiveRwLock<T> = RwLock<T>;
pub(crate) type RecursiveReadGuard<'a, T> = RwLockReadGuard<'a, T>;
pub(crate) type RecursiveWriteGuard<'a, T> = RwLockWriteGuard<'a, T>;

/// Number of times that a waiter retries before it sleeps: none. A retry would only add a point at
/// which shuttle can switch tasks, and so more schedules with the same effect.
pub(crate) const SPINS_BEFORE_SLEEP: u32 = 0;

/// Returns the number of the current shuttle task, in place of a thread number. All tasks share one
/// system thread, so thread-local values cannot distinguish them.
pub(crate) fn thread_number() -> usize {
    shuttle::current::me().into()
}

pub(crate) struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// A mutex guard. Its inner guard is `None` only while the owner waits on a [`Condvar`].
pub struct MutexGuard<'a, T: ?Sized>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the lock is held")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("the lock is held")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(crate) struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(sync::Condvar);

/// The result of a wait on a condition variable with a time limit. Shuttle never ends a wait by its
/// time limit.
pub(crate) struct WaitResult;

impl WaitResult {
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("the lock is held");
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitResult {
        self.wait(guard);
        WaitResult
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
