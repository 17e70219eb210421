//! The functions for x86-64.
//!
//! A range of up to 128 bytes is loaded whole, from both of its ends to the middle: the two halves
//! overlap, unless the length is that of whole registers. Longer ranges take a loop of 64 bytes,
//! and very long ones the string instructions, which are fast once they have begun.
//!
//! # Invariants
//!
//! - **I1** No function reads or writes a byte outside of the ranges that it was given.
//! - **I2** All bytes that a store may overwrite, and that are still needed, are loaded before the
//!   store. So `copy` is right for ranges that overlap.

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm_storeu_si128,
};

/// The length in bytes from which string instructions are faster than the loop.
const LONG_BYTES: usize = 2048;

/// Bytes of a vector register.
const VECTOR: usize = size_of::<__m128i>();

/// Bytes of a step of the loops.
const STEP: usize = 4 * VECTOR;

/// Four vectors that lie one after the other.
type Step = [__m128i; 4];

/// # Safety
///
/// 16 bytes at `from` must be readable.
#[inline(always)]
unsafe fn load(from: *const u8) -> __m128i {
    // SAFETY: The caller ensures it. The load needs no alignment.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
///
/// 16 bytes at `to` must be writable.
#[inline(always)]
unsafe fn store(to: *mut u8, vector: __m128i) {
    // SAFETY: The caller ensures it. The store needs no alignment.
    unsafe { _mm_storeu_si128(to.cast(), vector) }
}

/// # Safety
///
/// 64 bytes at `from` must be readable.
#[inline(always)]
unsafe fn load_step(from: *const u8) -> Step {
    // SAFETY: The four vectors lie in the 64 bytes.
    unsafe {
        [load(from), load(from.add(VECTOR)), load(from.add(2 * VECTOR)), load(from.add(3 * VECTOR))]
    }
}

/// # Safety
///
/// 64 bytes at `to` must be writable.
#[inline(always)]
unsafe fn store_step(to: *mut u8, [first, second, third, fourth]: Step) {
    // SAFETY: The four vectors lie in the 64 bytes.
    unsafe {
        store(to, first);
        store(to.add(VECTOR), second);
        store(to.add(2 * VECTOR), third);
        store(to.add(3 * VECTOR), fourth);
    }
}

/// Copies `count` bytes. The ranges may overlap.
///
/// # Safety
///
/// `count` bytes must be readable at `source`, and writable at `target`.
#[inline(always)]
pub(crate) unsafe fn copy(target: *mut u8, source: *const u8, count: usize) {
    // SAFETY: Each function is called for the lengths that it is for, with the caller's ranges.
    unsafe {
        match count {
            0..=16 => copy_few(target, source, count),
            17..=128 => copy_some(target, source, count),
            // The distance wraps if the target comes first: then it is large.
            _ if target.addr().wrapping_sub(source.addr()) >= count => {
                copy_forward(target, source, count);
            }
            _ => copy_backward(target, source, count),
        }
    }
}

/// Copies at most 16 bytes: the first and the last half, which may overlap.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_few(target: *mut u8, source: *const u8, count: usize) {
    /// # Safety
    ///
    /// As for [`copy`], and the range must be at least as long as `T`.
    #[inline(always)]
    unsafe fn ends<T: Copy>(target: *mut u8, source: *const u8, count: usize) {
        let last = count - size_of::<T>();
        // SAFETY: Both copies of `T` lie in the range (I1). Both are loaded before either is stored
        // (I2).
        unsafe {
            let first: T = source.cast::<T>().read_unaligned();
            let end: T = source.add(last).cast::<T>().read_unaligned();
            target.cast::<T>().write_unaligned(first);
            target.add(last).cast::<T>().write_unaligned(end);
        }
    }
    // SAFETY: The number in each arm is at least the size of the type.
    unsafe {
        match count {
            8.. => ends::<u64>(target, source, count),
            4..8 => ends::<u32>(target, source, count),
            2..4 => ends::<u16>(target, source, count),
            1 => target.write(source.read()),
            0 => {}
        }
    }
}

/// Copies 17 to 128 bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_some(target: *mut u8, source: *const u8, count: usize) {
    let last = count - VECTOR;
    // SAFETY: A vector at most 16, 32 or 64 bytes from an end lies in the range, which is longer
    // than that (I1). All loads come before all stores (I2).
    unsafe {
        if count <= 2 * VECTOR {
            let (first, end) = (load(source), load(source.add(last)));
            store(target, first);
            store(target.add(last), end);
        } else if count <= STEP {
            let half = last - VECTOR;
            let begin = [load(source), load(source.add(VECTOR))];
            let end = [load(source.add(half)), load(source.add(last))];
            store(target, begin[0]);
            store(target.add(VECTOR), begin[1]);
            store(target.add(half), end[0]);
            store(target.add(last), end[1]);
        } else {
            let half = count - STEP;
            let (begin, end) = (load_step(source), load_step(source.add(half)));
            store_step(target, begin);
            store_step(target.add(half), end);
        }
    }
}

/// Copies more than 128 bytes from the first to the last.
///
/// # Safety
///
/// As for [`copy`]. If the ranges overlap, the target must come first.
#[inline(always)]
unsafe fn copy_forward(target: *mut u8, source: *const u8, count: usize) {
    // SAFETY: The caller passes ranges of `count` bytes, which is more than a step (I1). The string
    // instruction copies byte by byte, as if by a loop. The end is loaded before the loop may
    // overwrite it, and each step is loaded before it is stored (I2).
    unsafe {
        if count >= LONG_BYTES {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") target => _,
                inout("rsi") source => _, options(nostack, preserves_flags));
            return;
        }
        let last = count - STEP;
        let end = load_step(source.add(last));
        let mut at = 0;
        while at < last {
            let step = load_step(source.add(at));
            store_step(target.add(at), step);
            at += STEP;
        }
        store_step(target.add(last), end);
    }
}

/// Copies more than 128 bytes from the last to the first, for a target that begins inside of the
/// source.
///
/// # Safety
///
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_backward(target: *mut u8, source: *const u8, count: usize) {
    // SAFETY: `at` counts down to the last whole step after the begin of the range (I1). The begin
    // is loaded before the loop may overwrite it, and each step is loaded before it is stored (I2).
    unsafe {
        let begin = load_step(source);
        let mut at = count;
        while at > STEP {
            at -= STEP;
            let step = load_step(source.add(at));
            store_step(target.add(at), step);
        }
        store_step(target, begin);
    }
}

/// Sets `count` bytes to `value`.
///
/// # Safety
///
/// `count` bytes must be writable at `target`.
#[inline(always)]
pub(crate) unsafe fn fill(target: *mut u8, value: u8, count: usize) {
    const EACH_BYTE: u64 = u64::MAX / 0xFF;
    let word = u64::from(value) * EACH_BYTE;
    // SAFETY: Each store is at most as long as the range, and begins or ends with it (I1).
    unsafe {
        let vector = _mm_set1_epi8(value.cast_signed());
        match count {
            0 => {}
            1 => target.write(value),
            2..4 => fill_ends(target, word as u16, count),
            4..8 => fill_ends(target, word as u32, count),
            8..16 => fill_ends(target, word, count),
            16..=32 => fill_ends(target, vector, count),
            33..=64 => fill_ends(target, [vector; 2], count),
            65..=128 => fill_ends(target, [vector; 4], count),
            LONG_BYTES.. => asm!("rep stosb", inout("rcx") count => _, inout("rdi") target => _,
                in("al") value, options(nostack, preserves_flags)),
            _ => {
                let last = count - STEP;
                let mut at = 0;
                while at < last {
                    store_step(target.add(at), [vector; 4]);
                    at += STEP;
                }
                store_step(target.add(last), [vector; 4]);
            }
        }
    }
}

/// Stores `value` at both ends of a range.
///
/// # Safety
///
/// `count` bytes must be writable at `target`, at least as many as `T` has.
#[inline(always)]
unsafe fn fill_ends<T: Copy>(target: *mut u8, value: T, count: usize) {
    // SAFETY: Both stores lie in the range (I1).
    unsafe {
        target.cast::<T>().write_unaligned(value);
        target.add(count - size_of::<T>()).cast::<T>().write_unaligned(value);
    }
}

/// Compares ranges of `count` bytes. Returns 0 if they are equal, or else a negative number if the
/// first byte that differs is smaller in `one`, and a positive number if it is larger.
///
/// # Safety
///
/// `count` bytes must be readable at both pointers.
#[inline(always)]
pub(crate) unsafe fn compare(one: *const u8, other: *const u8, count: usize) -> i32 {
    let difference = |at: usize| {
        // SAFETY: `at` is below `count`.
        let (one, other) = unsafe { (one.add(at).read(), other.add(at).read()) };
        i32::from(one) - i32::from(other)
    };
    let mut at = 0;
    while count - at >= VECTOR {
        // SAFETY: A vector at `at` lies in the ranges (I1).
        let differing = unsafe { differing(one.add(at), other.add(at)) };
        if differing != 0 {
            return difference(at + differing.trailing_zeros() as usize);
        }
        at += VECTOR;
    }
    if count >= VECTOR && at < count {
        // The last vector begins in the one before, whose bytes are equal.
        at = count - VECTOR;
        // SAFETY: The ranges end with this vector (I1).
        let differing = unsafe { differing(one.add(at), other.add(at)) };
        return match differing {
            0 => 0,
            _ => difference(at + differing.trailing_zeros() as usize),
        };
    }
    while at < count {
        match difference(at) {
            0 => at += 1,
            difference => return difference,
        }
    }
    0
}

/// Returns the bytes in which two vectors differ, one bit each.
///
/// # Safety
///
/// 16 bytes must be readable at both pointers.
#[inline(always)]
unsafe fn differing(one: *const u8, other: *const u8) -> u32 {
    // SAFETY: The caller ensures it.
    unsafe { !_mm_movemask_epi8(_mm_cmpeq_epi8(load(one), load(other))).cast_unsigned() & 0xFFFF }
}

#[cfg(test)]
mod tests;
