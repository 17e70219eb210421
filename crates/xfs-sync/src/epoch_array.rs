//! An array of shared values that is read without a lock, under an epoch guard.
//!
//! Owns: a fixed number of slots, each empty or with a shared value, and the time at which a
//! removed value is dropped. By then, every thread that could be reading the value has left its
//! epoch (the period in which it may use loaded pointers). Does **not** own the order of writes to
//! a slot: a lock of the caller does.
//!
//! ```text
//!  put      swap the pointer ──► retire the old one ──► dropped when all guards of that time end
//!  read     guard ──► load the pointer ──► use it ──► drop the guard
//! ```
//!
//! # Invariants
//!
//! - **I1** A slot holds null, or a pointer from `Arc::into_raw` whose reference count the slot
//!   owns.
//! - **I2** Only two places release that count. The writer that swapped the pointer out releases it
//!   once, through the array's collector. Dropping the array releases the counts of all slots, when
//!   no reader can exist any more.
//! - **I3** A reader enters that same collector before it loads the pointer, and leaves it after
//!   the last use. The count of a loaded pointer is therefore not released meanwhile.
//! - **I4** The collector is identified by its address. The collector exists while the array is
//!   used through it, so two threads that use the array at one time have entered the same
//!   collector.
//!
//! The array does not own its collector. A retired value may own the array, and the collector owns
//! the retired value until the collector is dropped.

#![allow(unsafe_code, reason = "pointers that an epoch keeps valid: I1 to I3")]

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

use seize::{Collector, Guard, LocalGuard};

use crate::scope::{CountScope, note_write};

/// The message of a panic if an index is not below the number of slots.
const HAS_SLOT: &str = "the array has the slot";

/// An array of `N` slots, each empty or with a value, that is read without a lock.
pub struct EpochArray<T, S: CountScope, const N: usize> {
    slots: [AtomicPtr<T>; N],
    /// The address of the collector to which the array belongs (I4).
    collector: usize,
    owns: PhantomData<(Arc<T>, S)>,
}

impl<T, S: CountScope, const N: usize> EpochArray<T, S, N> {
    /// Creates an array of empty slots. A value that is removed later is dropped when no thread
    /// that has entered `collector` can still read it.
    #[must_use]
    pub fn new(collector: &Collector) -> Self {
        let slots = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { slots, collector: address(collector), owns: PhantomData }
    }

    /// Calls `reader` with the value of slot `index` and returns its result, or `None` if the slot
    /// is empty.
    ///
    /// # Panics
    ///
    /// Panics if `collector` is not the collector of the array, or if the slot does not exist.
    #[inline]
    pub fn read<R>(
        &self,
        collector: &Collector,
        index: usize,
        reader: impl FnOnce(&Arc<T>) -> R,
    ) -> Option<R> {
        let slot = self.slots.get(index).expect(HAS_SLOT);
        let guard = self.enter(collector);
        let pointer = guard.protect(slot, Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: The pointer is from `Arc::into_raw` (I1). Its count is not released while `guard`
        // is held (I3), and `guard` is held until after the last use of `value`. `ManuallyDrop`
        // keeps `value` from releasing the count itself.
        let value = unsafe { ManuallyDrop::new(Arc::from_raw(pointer.cast_const())) };
        Some(reader(&value))
    }

    #[inline]
    fn enter<'a>(&self, collector: &'a Collector) -> LocalGuard<'a> {
        assert!(address(collector) == self.collector, "an array used with another collector (I4)");
        collector.enter()
    }
}

fn address(collector: &Collector) -> usize {
    ptr::from_ref(collector).addr()
}

impl<T: Send + Sync + 'static, S: CountScope, const N: usize> EpochArray<T, S, N> {
    /// Stores a value in slot `index`, or empties the slot if `value` is `None`. The old value is
    /// dropped when no thread reads it any more.
    ///
    /// # Panics
    ///
    /// Panics if `collector` is not the collector of the array, or if the slot does not exist.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn put(&self, collector: &Collector, index: usize, value: Option<Arc<T>>) {
        let slot = self.slots.get(index).expect(HAS_SLOT);
        note_write::<S>();
        let guard = self.enter(collector);
        let pointer = value.map_or(ptr::null_mut(), |value| Arc::into_raw(value).cast_mut());
        let before = guard.swap(slot, pointer, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: The pointer has just left its slot, so no thread that enters from now on
            // finds it. It is retired here and nowhere else (I2). It is from `Arc::into_raw` (I1),
            // as `release` requires, and `T` may be dropped by any thread at any time.
            unsafe { guard.defer_retire(before, release) };
        }
    }
}

/// Releases the reference count that a slot of the array owned, and so drops the value if that was
/// the last.
///
/// # Safety
///
/// `pointer` is from `Arc::into_raw`, and its count belongs to the caller.
unsafe fn release<T>(pointer: *mut T, _: &Collector) {
    // SAFETY: The caller guarantees that the pointer is from `Arc::into_raw` and owns its count.
    drop(unsafe { Arc::from_raw(pointer.cast_const()) });
}

impl<T, S: CountScope, const N: usize> Drop for EpochArray<T, S, N> {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let pointer = core::mem::replace(slot.get_mut(), ptr::null_mut());
            if !pointer.is_null() {
                // SAFETY: The pointer is from `Arc::into_raw` and the slot owns its count (I1).
                // There is no reader, because a reader would borrow the array.
                drop(unsafe { Arc::from_raw(pointer.cast_const()) });
            }
        }
    }
}

#[cfg(test)]
mod tests;
