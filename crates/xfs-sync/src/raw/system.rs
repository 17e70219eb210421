//! The primitives of the system.

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

/// How often a latch that is taken is looked at before its waiter sleeps: for about as long as it takes to
/// sleep and to be woken.
pub(crate) const LOOKS_BEFORE_SLEEP: u32 = 100;

/// Hands out numbers to threads, once for each.
static NEXT_THREAD: atomic::AtomicUsize = atomic::AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread's number, given in the order in which threads first ask.
pub(crate) fn thread_number() -> usize {
    THREAD.with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT_THREAD.fetch_add(1, atomic::Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}
