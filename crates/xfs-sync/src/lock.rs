//! A mutex, a reader-writer lock and a condition variable, each with a scope in its type.
//!
//! A panic poisons none of these locks. The guarded value must therefore be consistent wherever
//! code that can panic runs under the lock.

use core::fmt;
use core::marker::PhantomData;
use std::time::Duration;

use crate::raw;
use crate::scope::{CountScope, note_lock};

/// Exclusive access to the value of a [`Mutex`].
pub type MutexGuard<'a, T> = raw::MutexGuard<'a, T>;
/// Shared access to the value of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = raw::RwLockReadGuard<'a, T>;
/// Exclusive access to the value of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = raw::RwLockWriteGuard<'a, T>;

/// A lock for one thread at a time.
pub struct Mutex<T: ?Sized, S: CountScope> {
    scope: PhantomData<S>,
    raw: raw::Mutex<T>,
}

impl<T, S: CountScope> Mutex<T, S> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { scope: PhantomData, raw: raw::Mutex::new(value) }
    }

    /// Consumes the lock and returns its value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.raw.into_inner()
    }
}

impl<T: ?Sized, S: CountScope> Mutex<T, S> {
    /// Waits until the lock is free and acquires it.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        note_lock::<S>();
        self.raw.lock()
    }

    /// Acquires the lock if it is free. Returns `None` if it is held.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        note_lock::<S>();
        self.raw.try_lock()
    }
}

impl<T: Default, S: CountScope> Default for Mutex<T, S> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug, S: CountScope> fmt::Debug for Mutex<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// A lock for many readers or one writer.
///
/// A waiting writer holds back new readers. A thread that holds a read guard must therefore not ask
/// for a second read guard of the same lock.
pub struct RwLock<T: ?Sized, S: CountScope> {
    scope: PhantomData<S>,
    raw: raw::RwLock<T>,
}

impl<T, S: CountScope> RwLock<T, S> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { scope: PhantomData, raw: raw::RwLock::new(value) }
    }

    /// Consumes the lock and returns its value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.raw.into_inner()
    }
}

impl<T: ?Sized, S: CountScope> RwLock<T, S> {
    /// Waits until no writer holds the lock and acquires it for reading.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        note_lock::<S>();
        self.raw.read()
    }

    /// Waits until the lock is free and acquires it for writing.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        note_lock::<S>();
        self.raw.write()
    }

    /// Acquires the lock for reading. Returns `None` if a writer holds the lock or waits for it.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        note_lock::<S>();
        self.raw.try_read()
    }

    /// Acquires the lock for writing if it is free. Returns `None` if it is held.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        note_lock::<S>();
        self.raw.try_write()
    }
}

impl<T: Default, S: CountScope> Default for RwLock<T, S> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug, S: CountScope> fmt::Debug for RwLock<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// The reason why a wait with a time limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTimeout {
    /// Another thread notified the condition variable.
    Notified,
    /// The time limit passed.
    TimedOut,
}

/// A queue of threads that wait for a change of the value of a [`Mutex`].
pub struct Condvar<S: CountScope> {
    raw: raw::Condvar,
    scope: PhantomData<S>,
}

impl<S: CountScope> Condvar<S> {
    /// Creates a condition variable on which no thread waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { raw: raw::Condvar::new(), scope: PhantomData }
    }

    /// Releases the lock, waits to be notified, and acquires the lock again. The wait can also end
    /// without a notification: check the condition in a loop.
    #[cfg_attr(feature = "count", track_caller)]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        note_lock::<S>();
        self.raw.wait(guard);
    }

    /// Like [`wait`](Self::wait), for at most `timeout`. Returns why the wait ended.
    #[cfg_attr(feature = "count", track_caller)]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeout {
        note_lock::<S>();
        if self.raw.wait_for(guard, timeout).timed_out() {
            WaitTimeout::TimedOut
        } else {
            WaitTimeout::Notified
        }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }
}

impl<S: CountScope> Default for Condvar<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: CountScope> fmt::Debug for Condvar<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
