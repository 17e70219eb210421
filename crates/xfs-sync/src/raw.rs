//! What the types of this crate are made of: the primitives of the system or, in a build for model
//! tests, those of a schedule explorer.
//!
//! A build with `--cfg shuttle` runs every lock and every atomic through
//! [shuttle](https://docs.rs/shuttle), which then decides which thread goes on at each of them. The
//! code under test is the real one. It runs inside `shuttle::check_random` and its likes only.

#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod system;

#[cfg(shuttle)]
pub(crate) use model::{
    Condvar, LOOKS_BEFORE_SLEEP, Mutex, MutexGuard, RecursiveReadGuard, RecursiveRwLock,
    RecursiveWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, thread_number,
    yield_now,
};
#[cfg(not(shuttle))]
pub(crate) use system::{
    Condvar, LOOKS_BEFORE_SLEEP, Mutex, MutexGuard, RecursiveReadGuard, RecursiveRwLock,
    RecursiveWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic, thread_number,
    yield_now,
};
