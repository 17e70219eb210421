//! Counters that many threads add to and hardly anybody reads.

use core::array;

use crate::Ordering;
use crate::atomic::AtomicU64;
use crate::scope::Slot;
use crate::slots::Slots;

/// So many counters, each split by slot: adding writes what mostly only the calling thread writes, and a
/// sum visits all slots. Sums that are taken one after the other need not fit each other while others are
/// at work.
pub struct SlotCounters<const KINDS: usize>(Slots<[AtomicU64<Slot>; KINDS]>);

impl<const KINDS: usize> SlotCounters<KINDS> {
    /// Counters that stand at 0.
    #[must_use]
    pub fn new() -> Self {
        Self(Slots::new(|| array::from_fn(|_| AtomicU64::new(0))))
    }

    /// Adds to one of them. There is none of a number that is too large.
    #[inline]
    pub fn add(&self, kind: usize, count: u64) {
        if let Some(counter) = self.0.mine().get(kind) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// What has been added to one of them.
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
