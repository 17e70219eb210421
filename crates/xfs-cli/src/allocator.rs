//! The allocator of the program, and when freed memory goes back to the system (docs/adr/0005).
//!
//! The library leaves this choice to the program that links it.

#![allow(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// Threads that share no data must not wait for each other to allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the bindings do not name.
const PURGE_DELAY: mi_option_t = 15;

/// How long freed memory stays available for reuse before it may go back to the system.
const KEPT_MS: std::ffi::c_long = 10_000;

/// `mi_option_purge_decommits`, which the bindings do not name either.
const PURGE_DECOMMITS: mi_option_t = 5;

/// The system takes purged memory when it needs it (`MADV_FREE`), and not at once.
const WHEN_NEEDED: std::ffi::c_long = 0;

/// Keeps freed memory for a while, and then offers it to the system (`MADV_FREE`). A volume soon
/// needs the memory again that it has just freed, and memory that comes from the system is cleared
/// page by page first. `MIMALLOC_PURGE_DELAY` and `MIMALLOC_PURGE_DECOMMITS` in the environment
/// take precedence.
///
/// Must be called before a second thread exists.
pub(crate) fn keep_freed_memory() {
    // SAFETY: Options with these numbers exist. Any number of milliseconds is a value of the first,
    // and 0 and 1 are the values of the second. Options are plain variables of the allocator, and
    // no other thread reads them yet.
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
        mi_option_set_default(PURGE_DECOMMITS, WHEN_NEEDED);
    }
}

#[cfg(test)]
mod tests;
