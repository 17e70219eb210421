//! mimalloc as the global allocator of a program, through its shortest calls.
//!
//! Owns: the choice of the call for a size and an alignment. Does **not** own: the options of the
//! allocator, and the choice of an allocator, which each program makes (docs/adr/0005).
//!
//! The crate `mimalloc` calls `mi_malloc_aligned` for every allocation. If the next free block is
//! not at hand, that call allocates more bytes than it needs, so that it can align the block.
//! Nearly all values need an alignment of 8, which each block of mimalloc has.

#![allow(unsafe_code, reason = "an allocator hands out raw memory, and calls one written in C")]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// The alignment in bytes of every block of mimalloc, whatever its size.
const LEAST_ALIGNMENT: usize = 8;

/// The alignment in bytes of every block of mimalloc with at least as many bytes.
#[doc(alias = "MI_MAX_ALIGN_SIZE")]
const USUAL_ALIGNMENT: usize = 16;

// On 32 bits, blocks of mimalloc of up to 4 bytes have an alignment of 4.
const _: () = assert!(size_of::<usize>() == 8);

/// The global allocator of a program.
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

/// Returns whether mimalloc aligns each block of this layout as it must be aligned.
#[inline]
const fn is_aligned_anyway(size: usize, alignment: usize) -> bool {
    alignment <= LEAST_ALIGNMENT || (alignment <= USUAL_ALIGNMENT && size >= USUAL_ALIGNMENT)
}

// SAFETY: Each call returns a block of mimalloc, or null, with at least the asked size, and with
// the asked alignment: blocks of `is_aligned_anyway` have it, and the other calls are told it.
// Blocks of both kinds may be passed to `mi_free`, `mi_realloc` and `mi_realloc_aligned`.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        // SAFETY: Any size may be asked for, and the alignment is a power of two.
        unsafe {
            match is_aligned_anyway(size, alignment) {
                true => mi_malloc(size).cast(),
                false => mi_malloc_aligned(size, alignment).cast(),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        // SAFETY: Any size may be asked for, and the alignment is a power of two.
        unsafe {
            match is_aligned_anyway(size, alignment) {
                true => mi_zalloc(size).cast(),
                false => mi_zalloc_aligned(size, alignment).cast(),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: The caller passes a block that one of these functions has returned.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: The caller passes a block that one of these functions has returned. The alignment
        // is a power of two.
        unsafe {
            match is_aligned_anyway(size, layout.align()) {
                true => mi_realloc(block.cast(), size).cast(),
                false => mi_realloc_aligned(block.cast(), size, layout.align()).cast(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
