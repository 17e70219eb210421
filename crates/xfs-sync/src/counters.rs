//! Counters that many threads add to and that are rarely read.

use core::array;

use crate::Ordering;
use crate::atomic::AtomicU64;
use crate::scope::Slot;
use crate::slots::Slots;

/// `KINDS` counters. Each counter is split into one part per slot, and its value is the sum of the
/// parts. Each thread has a slot, which it may share with other threads.
///
/// An addition writes the part in the calling thread's slot; a sum visits all slots. Sums of
/// different counters need not be consistent with each other while other threads add.
pub struct SlotCounters<const KINDS: usize>(Slots<[AtomicU64<Slot>; KINDS]>);

impl<const KINDS: usize> SlotCounters<KINDS> {
    /// Creates counters that are all 0.
    #[must_use]
    pub fn new() -> Self {
        Self(Slots::new(|| array::from_fn(|_| AtomicU64::new(0))))
    }

    /// Adds `count` to counter `kind`. Ignores a `kind` that does not exist.
    #[inline]
    pub fn add(&self, kind: usize, count: u64) {
        if let Some(counter) = self.0.mine().get(kind) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the sum of counter `kind`, or 0 if no such counter exists.
    #[must_use]
    pub fn sum(&self, kind: usize) -> u64 {
        let of = |slot: &[AtomicU64<Slot>; KINDS]| {
            slot.get(kind).map_or(0, |counter| counter.load(Ordering::Relaxed))
        };
        self.0.iter().map(of).sum()
    }
}

impl<const KINDS: usize> Default for SlotCounters<KINDS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
