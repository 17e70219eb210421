//! Atomic variables whose type states how widely they are shared.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::raw::atomic;
use crate::scope::{CountScope, note_write};

macro_rules! atomic_base {
    ($name:ident, $raw:ty, $value:ty) => {
        #[doc = concat!("An atomic `", stringify!($value), "` of scope `S`.")]
        pub struct $name<S: CountScope> {
            raw: $raw,
            scope: PhantomData<S>,
        }

        impl<S: CountScope> $name<S> {
            /// Creates an atomic with this value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self { raw: <$raw>::new(value), scope: PhantomData }
            }

            /// Returns the current value.
            #[inline]
            #[must_use]
            pub fn load(&self, order: Ordering) -> $value {
                self.raw.load(order)
            }

            /// Replaces the value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn store(&self, value: $value, order: Ordering) {
                note_write::<S>();
                self.raw.store(value, order);
            }

            /// Replaces the value and returns the previous one.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.swap(value, order)
            }

            /// Replaces the value by `new` if it is `current`. Returns the previous value.
            ///
            /// # Errors
            ///
            /// Returns the actual value if it is not `current`.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note_write::<S>();
                self.raw.compare_exchange(current, new, success, failure)
            }

            /// Like [`compare_exchange`](Self::compare_exchange), but may fail although the value
            /// is `current`. Callers retry in a loop.
            ///
            /// # Errors
            ///
            /// Returns the actual value if nothing was replaced.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note_write::<S>();
                self.raw.compare_exchange_weak(current, new, success, failure)
            }

            /// Sets the bits that are set in `value` and returns the previous value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.fetch_or(value, order)
            }

            /// Clears all bits that are not set in `value` and returns the previous value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.fetch_and(value, order)
            }
        }

        impl<S: CountScope> Default for $name<S> {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }

        impl<S: CountScope> fmt::Debug for $name<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.raw.fmt(f)
            }
        }
    };
}

macro_rules! atomic_number {
    ($name:ident, $raw:ty, $value:ty) => {
        atomic_base!($name, $raw, $value);

        impl<S: CountScope> $name<S> {
            /// Adds `value`, wrapping around, and returns the previous value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.fetch_add(value, order)
            }

            /// Subtracts `value`, wrapping around, and returns the previous value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.fetch_sub(value, order)
            }

            /// Replaces the current value by `value` if `value` is greater. Returns the previous
            /// value.
            #[inline]
            #[cfg_attr(feature = "count", track_caller)]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                note_write::<S>();
                self.raw.fetch_max(value, order)
            }
        }
    };
}

atomic_base!(AtomicBool, atomic::AtomicBool, bool);
atomic_number!(AtomicU32, atomic::AtomicU32, u32);
atomic_number!(AtomicU64, atomic::AtomicU64, u64);
atomic_number!(AtomicUsize, atomic::AtomicUsize, usize);

#[cfg(test)]
mod tests;
