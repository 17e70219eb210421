//! What the program allocates with, how long it keeps memory that it has freed, and how the system gets that
//! back (docs/adr/0005).
//!
//! The library leaves both to the program that it is linked into.

#![allow(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Threads that share nothing must not wait for each other to allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, for which the bindings have no name.
const PURGE_DELAY: mi_option_t = 15;

/// How long freed memory waits to be used again before the system may have it back.
const KEPT_MS: std::ffi::c_long = 10_000;

/// `mi_option_purge_decommits`, for which they have none either.
const PURGE_DECOMMITS: mi_option_t = 5;

/// Then the system takes what it may have when it needs it (`MADV_FREE`), and not at once.
const WHEN_NEEDED: std::ffi::c_long = 0;

/// Keeps freed memory for a while, and after that until the system needs it: what a volume needed a moment
/// ago it needs again soon, and memory that comes anew from the system is cleared page by page first.
/// `MIMALLOC_PURGE_DELAY` and `MIMALLOC_PURGE_DECOMMITS` in the environment come before that.
///
/// To be called before there is a second thread.
pub(crate) fn keep_freed_memory() {
    // SAFETY: Options of these numbers exist, any number of milliseconds is a value of the one, and no and yes
    // are those of the other. Options are plain variables of the allocator, and no other thread reads them yet.
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
        mi_option_set_default(PURGE_DECOMMITS, WHEN_NEEDED);
    }
}

#[cfg(test)]
mod tests;
