//! The primitives of a normal build: those of `parking_lot`, `core` and the standard library.

use std::cell::Cell;

pub(crate) use core::sync::atomic;
pub(crate) use parking_lot::{
    Condvar, Mutex, MutexGuard, RecursiveRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub(crate) use parking_lot::{
    RecursiveRwLockReadGuard as RecursiveReadGuard,
    RecursiveRwLockWriteGuard as RecursiveWriteGuard,
};
pub(crate) use std::thread::yield_now;

/// Number of times that a waiter retries a held latch before it sleeps. All retries together take
/// about as long as going to sleep and being woken.
pub(crate) const SPINS_BEFORE_SLEEP: u32 = 100;

/// The number that the next thread gets.
static NEXT_THREAD: atomic::AtomicUsize = atomic::AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the calling thread's number. Threads are numbered from 0 in the order in which they
/// first call this function.
#[inline]
pub(crate) fn thread_number() -> usize {
    THREAD.with(|number| number.get().unwrap_or_else(|| take_number(number)))
}

#[cold]
fn take_number(number: &Cell<Option<usize>>) -> usize {
    let next = NEXT_THREAD.fetch_add(1, atomic::Ordering::Relaxed);
    number.set(Some(next));
    next
}
