//! What the program allocates with, and how long it keeps memory that it has freed (docs/adr/0005).
//!
//! The library leaves both to the program that it is linked into.

#![allow(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Threads that share nothing must not wait for each other to allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, for which the bindings have no name.
const PURGE_DELAY: mi_option_t = 15;

/// How long freed memory waits to be used again before the system gets it back.
const KEPT_MS: std::ffi::c_long = 10_000;

/// Keeps freed memory for a while: what a volume needed a moment ago it needs again soon, and memory that
/// comes anew from the system is cleared page by page first. `MIMALLOC_PURGE_DELAY` in the environment
/// comes before that.
///
/// To be called before there is a second thread.
pub(crate) fn keep_freed_memory() {
    // SAFETY: An option of this number exists, and any number of milliseconds is a value of it. Options are
    // plain variables of the allocator, and no other thread reads them yet.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT_MS) };
}

#[cfg(test)]
mod tests;
