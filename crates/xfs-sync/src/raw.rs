//! The primitives under the types of this crate. They come from the system or, in a build for model
//! tests, from a schedule explorer.
//!
//! A build with `--cfg shuttle` runs every lock and every atomic through
//! [shuttle](https://docs.rs/shuttle), which decides at each use which thread continues. The code
//! under test is the production code. That code runs only inside `shuttle::check_random` and
//! similar functions.

#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod system;

#[cfg(shuttle)]
pub(crate) use model::{
    Condvar, Mutex, MutexGuard, RecursiveReadGuard, RecursiveRwLock, RecursiveWriteGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard, SPINS_BEFORE_SLEEP, atomic, thread_number, yield_now,
};
#[cfg(not(shuttle))]
pub(crate) use system::{
    Condvar, Mutex, MutexGuard, RecursiveReadGuard, RecursiveRwLock, RecursiveWriteGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard, SPINS_BEFORE_SLEEP, atomic, thread_number, yield_now,
};
