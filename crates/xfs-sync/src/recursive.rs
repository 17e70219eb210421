//! A lock for many readers or one writer. Its readers never wait for a waiting writer.
//!
//! Owns: read locks that one thread may nest. Does **not** own fairness: readers that overlap
//! without a pause starve a writer, so read locks must be short.
//!
//! Like the other locks of this crate, the lock is not poisoned by a panic.

use core::fmt;
use core::marker::PhantomData;

use crate::raw;
use crate::scope::{CountScope, note_lock};

/// Shared access to the value of a [`RecursiveRwLock`].
pub type RecursiveReadGuard<'a, T> = raw::RecursiveReadGuard<'a, T>;
/// Exclusive access to the value of a [`RecursiveRwLock`].
pub type RecursiveWriteGuard<'a, T> = raw::RecursiveWriteGuard<'a, T>;

/// A lock for many readers or one writer. A thread that holds a read guard may acquire a second
/// read guard of the same lock.
pub struct RecursiveRwLock<T: ?Sized, S: CountScope> {
    scope: PhantomData<S>,
    raw: raw::RecursiveRwLock<T>,
}

impl<T, S: CountScope> RecursiveRwLock<T, S> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { scope: PhantomData, raw: raw::RecursiveRwLock::new(value) }
    }
}

impl<T: ?Sized, S: CountScope> RecursiveRwLock<T, S> {
    /// Waits until no writer holds the lock and acquires it for reading.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn read(&self) -> RecursiveReadGuard<'_, T> {
        note_lock::<S>();
        self.raw.read()
    }

    /// Waits until the lock is free and acquires it for writing.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn write(&self) -> RecursiveWriteGuard<'_, T> {
        note_lock::<S>();
        self.raw.write()
    }

    /// Acquires the lock for reading. Returns `None` if a writer holds the lock.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn try_read(&self) -> Option<RecursiveReadGuard<'_, T>> {
        note_lock::<S>();
        self.raw.try_read()
    }
}

impl<T: ?Sized + fmt::Debug, S: CountScope> fmt::Debug for RecursiveRwLock<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests;
