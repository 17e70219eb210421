//! Places that are read without a lock.
//!
//! Owns: a fixed number of places, each with a shared value or none, and when a value that has lost its
//! place may go: once every thread that could be looking at it has looked away. Does **not** own who may
//! fill a place, or in which order: that is for a lock of the caller.
//!
//! ```text
//!  put      swaps the pointer ──► retires what stood there ──► dropped when all guards of then are gone
//!  look     guard ──► loads the pointer ──► looks ──► guard dropped
//! ```
//!
//! # Invariants
//!
//! - **I1** A place holds null, or a pointer of `Arc::into_raw` whose count the place owns.
//! - **I2** That count is given up only by who swapped the pointer out, once, through the collector of the
//!   array; and by the drop of the array, when nobody can look any more.
//! - **I3** Whoever looks has entered that same collector before the pointer is loaded, and leaves it
//!   after the last use. So the count of a pointer that was loaded is not given up meanwhile.
//! - **I4** The collector is known by its address. While a array is used through it, it exists, so that
//!   two who use the array at once have entered the same one.
//!
//! The array does not own its collector: what was retired may own the array, and the collector owns that
//! until it goes.

#![allow(unsafe_code, reason = "pointers that an epoch keeps valid: I1 to I3")]

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

use seize::{Collector, Guard, LocalGuard};

use crate::scope::{Scope, note_write};

/// `N` places, each with a value or none, read without a lock.
pub struct EpochArray<T, S: Scope, const N: usize> {
    places: [AtomicPtr<T>; N],
    /// The address of the collector (I4).
    collector: usize,
    owns: PhantomData<(Arc<T>, S)>,
}

impl<T, S: Scope, const N: usize> EpochArray<T, S, N> {
    /// Empty places. What leaves them goes when nobody is in `collector` any more who might see it.
    #[must_use]
    pub fn new(collector: &Collector) -> Self {
        let places = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { places, collector: address(collector), owns: PhantomData }
    }

    /// Shows what stands at a place; `None` if there is nothing.
    ///
    /// # Panics
    ///
    /// If `collector` is not that of the array.
    #[inline]
    pub fn read<R>(
        &self,
        collector: &Collector,
        index: usize,
        look: impl FnOnce(&Arc<T>) -> R,
    ) -> Option<R> {
        let place = self.places.get(index)?;
        let guard = self.enter(collector);
        let pointer = guard.protect(place, Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: The pointer is of `Arc::into_raw` (I1), and its count is not given up while `guard` is
        // held (I3), which is until after the last use of `value`. That does not give the count up itself.
        let value = unsafe { ManuallyDrop::new(Arc::from_raw(pointer.cast_const())) };
        Some(read(&value))
    }

    #[inline]
    fn enter<'a>(&self, collector: &'a Collector) -> LocalGuard<'a> {
        assert!(address(collector) == self.collector, "a array with another collector (I4)");
        collector.enter()
    }
}

fn address(collector: &Collector) -> usize {
    ptr::from_ref(collector).addr()
}

impl<T: Send + Sync + 'static, S: Scope, const N: usize> EpochArray<T, S, N> {
    /// Puts a value at a place, or empties it. What stood there goes when nobody looks at it any more.
    /// A place that there is not stays empty.
    ///
    /// # Panics
    ///
    /// If `collector` is not that of the array.
    #[inline]
    #[cfg_attr(feature = "count", track_caller)]
    pub fn put(&self, collector: &Collector, index: usize, value: Option<Arc<T>>) {
        let Some(place) = self.places.get(index) else { return };
        note_write::<S>();
        let guard = self.enter(collector);
        let pointer = value.map_or(ptr::null_mut(), |value| Arc::into_raw(value).cast_mut());
        let before = guard.swap(place, pointer, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: The pointer has just left its place, so that nobody who enters from now on finds it;
            // it is retired here and nowhere else (I2). It is of `Arc::into_raw` (I1), as `give_up` wants,
            // and `T` may be dropped by any thread, at any time.
            unsafe { guard.defer_retire(before, give_up) };
        }
    }
}

/// Gives up the count that a place owned.
///
/// # Safety
///
/// `pointer` is of `Arc::into_raw`, and its count belongs to the caller.
unsafe fn give_up<T>(pointer: *mut T, _: &Collector) {
    // SAFETY: As the caller says.
    drop(unsafe { Arc::from_raw(pointer.cast_const()) });
}

impl<T, S: Scope, const N: usize> Drop for EpochArray<T, S, N> {
    fn drop(&mut self) {
        for place in &mut self.places {
            let pointer = core::mem::replace(place.get_mut(), ptr::null_mut());
            if !pointer.is_null() {
                // SAFETY: The pointer is of `Arc::into_raw`, the place owns its count (I1), and nobody
                // looks: that would borrow the array.
                drop(unsafe { Arc::from_raw(pointer.cast_const()) });
            }
        }
    }
}

#[cfg(test)]
mod tests;
