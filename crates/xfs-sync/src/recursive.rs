//! A lock for many readers or one writer whose readers never wait for a writer that waits.
//!
//! Owns: reading that may be nested on one thread. Does **not** own fairness: readers that overlap
//! without a pause keep a writer out, so it is for what is read in short moments.
//!
//! It is not poisoned by a panic, as the other locks here.

use core::fmt;
use core::marker::PhantomData;

use crate::raw;
use crate::scope::{Scope, note_lock};

/// Shared access to what a [`RecursiveRwLock`] guards.
pub type RecursiveReadGuard<'a, T> = raw::RecursiveReadGuard<'a, T>;
/// Exclusive access to what a [`RecursiveRwLock`] guards.
pub type RecursiveWriteGuard<'a, T> = raw::RecursiveWriteGuard<'a, T>;

/// A lock for many readers or one writer. A thread that holds a read guard may ask for another one
/// of the same lock.
pub struct RecursiveRwLock<T: ?Sized, S: Scope> {
    scope: PhantomData<S>,
    raw: raw::RecursiveRwLock<T>,
}

impl<T, S: Scope> RecursiveRwLock<T, S> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { scope: PhantomData, raw: raw::RecursiveRwLock::new(value) }
    }
}

impl<T: ?Sized, S: Scope> RecursiveRwLock<T, S> {
    /// Waits until no writer holds the lock and takes it for reading.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn read(&self) -> RecursiveReadGuard<'_, T> {
        note_lock::<S>();
        self.raw.read()
    }

    /// Waits until nobody holds the lock and takes it for writing.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn write(&self) -> RecursiveWriteGuard<'_, T> {
        note_lock::<S>();
        self.raw.write()
    }

    /// Takes the lock for reading if no writer holds it.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn try_read(&self) -> Option<RecursiveReadGuard<'_, T>> {
        note_lock::<S>();
        self.raw.try_read()
    }
}

impl<T: ?Sized + fmt::Debug, S: Scope> fmt::Debug for RecursiveRwLock<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
