//! The memory allocator of the program, the time after which freed memory goes back to the system,
//! and the size of its pages (docs/adr/0005).
//!
//! The library leaves the choice of an allocator to the program that links it.

#![allow(unsafe_code, reason = "options of the allocator and prctl(2) have no safe wrapper")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// The global allocator, chosen so that threads that share no data do not wait for each other when
/// they allocate.
#[global_allocator]
static ALLOCATOR: xfs_mimalloc::Mimalloc = xfs_mimalloc::Mimalloc;

/// The number of the option `mi_option_purge_delay`, for which the bindings have no constant.
const PURGE_DELAY: mi_option_t = 15;

/// How long freed memory stays available for reuse before it may go back to the system, in
/// milliseconds.
const KEPT_MS: std::ffi::c_long = 10_000;

/// The number of the option `mi_option_purge_decommits`, for which the bindings have no constant.
const PURGE_DECOMMITS: mi_option_t = 5;

/// The value of `mi_option_purge_decommits` that offers purged memory to the system (`MADV_FREE`):
/// the system takes this memory only when it needs some.
const WHEN_NEEDED: std::ffi::c_long = 0;

/// Keeps freed memory for a while, and then offers it to the system (`MADV_FREE`). A volume soon
/// needs again the memory that it has just freed. Getting it back from the system would be slow,
/// because the system clears every page first. The environment variables `MIMALLOC_PURGE_DELAY` and
/// `MIMALLOC_PURGE_DECOMMITS` take precedence.
///
/// The program must call this function before it has a second thread.
pub(crate) fn keep_freed_memory() {
    // SAFETY: Options with these numbers exist. Any number of milliseconds is a value of the first,
    // and 0 and 1 are the values of the second. Options are plain variables of the allocator, and
    // no other thread reads them yet.
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
        mi_option_set_default(PURGE_DECOMMITS, WHEN_NEEDED);
    }
}

/// Says whether the system may back the memory of this process with huge pages, from now on. A
/// program that this process starts inherits it.
pub(crate) fn allow_huge_pages(allows: bool) {
    let disabled = std::ffi::c_ulong::from(!allows);
    // SAFETY: The call has five arguments, of which it uses the first two. It touches no memory of
    // this process.
    unsafe {
        // A kernel without the call takes more memory, and does the same otherwise.
        libc::prctl(libc::PR_SET_THP_DISABLE, disabled, 0_u64, 0_u64, 0_u64);
    }
}

#[cfg(test)]
mod tests;
