//! A contended value that is split into one part per slot, so that threads rarely touch the same
//! part.
//!
//! A slot is not a processor. A user thread can be moved to another processor between any two
//! instructions, so a thread keeps the same slot for its whole life. Two threads may have the same
//! slot, so the value in a slot must be an atomic or have a lock of its own.

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::raw::thread_number;

/// Limit on the number of slots. With more slots, the longer sum over all of them would cost more
/// than the additional slots save.
const MAX_SLOTS: usize = 64;

/// A value that is split by slot: one `T` per slot, each on its own cache lines.
pub struct Slots<T> {
    slots: Box<[CachePadded<T>]>,
}

impl<T> Slots<T> {
    /// Creates slots for the processors of this machine, filled by `make`.
    #[must_use]
    pub fn new(make: impl FnMut() -> T) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_count(processors.saturating_mul(2), make)
    }

    /// Creates `count` slots, rounded up to a power of two and at most `MAX_SLOTS`, filled by
    /// `make`.
    #[must_use]
    pub fn with_count(count: usize, mut make: impl FnMut() -> T) -> Self {
        let count = count.clamp(1, MAX_SLOTS).next_power_of_two();
        Self { slots: (0..count).map(|_| CachePadded::new(make())).collect() }
    }

    /// Returns the part of the value that is in the calling thread's slot.
    #[inline]
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "masked by a length that is a power of two")]
    pub fn mine(&self) -> &T {
        &self.slots[self.my_number()]
    }

    /// Returns the index of the calling thread's slot, which is less than the number of slots.
    #[inline]
    #[must_use]
    pub fn my_number(&self) -> usize {
        thread_number() & (self.slots.len() - 1)
    }

    /// Consumes the slots and returns their values.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().map(CachePadded::into_inner)
    }

    /// Iterates over all slots. Code that locks all slots locks them in this order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.slots.iter().map(|slot| &**slot)
    }
}

impl<T: fmt::Debug> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
