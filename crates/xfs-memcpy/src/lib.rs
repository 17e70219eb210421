//! memcpy, memmove, memset, memcmp and bcmp for programs that are linked with musl.
//!
//! Owns: these functions for x86-64. Does **not** own: a program's decision to link them, which is
//! one line: `extern crate xfs_memcpy as _`.
//!
//! The compiler calls these functions for every value of more than 128 bytes that moves. Those of
//! musl copy by `rep movsq`, which takes tens of cycles to start, and compare byte by byte. These
//! use the vector registers that every x86-64 processor has (docs/adr/0020). With another C
//! library, or another processor, the crate is empty, and the functions are those of the library.

#![no_std]
// The compiler must not replace the loops below by calls of the functions that they are.
#![no_builtins]
#![allow(unsafe_code, reason = "functions of C over raw memory, for which there is no library")]

#[cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]
mod x86;

/// The functions under the names by which compilers call them.
#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
mod exported {
    use crate::x86;

    /// Copies `count` bytes between ranges that do not overlap.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(target: *mut u8, source: *const u8, count: usize) -> *mut u8 {
        // SAFETY: The caller passes ranges of `count` bytes.
        unsafe { x86::copy(target, source, count) }
        target
    }

    /// Copies `count` bytes between ranges that may overlap.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(target: *mut u8, source: *const u8, count: usize) -> *mut u8 {
        // SAFETY: The caller passes ranges of `count` bytes.
        unsafe { x86::copy(target, source, count) }
        target
    }

    /// Sets `count` bytes to the low byte of `value`.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(target: *mut u8, value: i32, count: usize) -> *mut u8 {
        // SAFETY: The caller passes a range of `count` bytes.
        unsafe { x86::fill(target, value as u8, count) }
        target
    }

    /// Compares ranges of `count` bytes.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: The caller passes ranges of `count` bytes.
        unsafe { x86::compare(one, other, count) }
    }

    /// Returns 0 if ranges of `count` bytes are equal.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: The caller passes ranges of `count` bytes.
        unsafe { x86::compare(one, other, count) }
    }
}
