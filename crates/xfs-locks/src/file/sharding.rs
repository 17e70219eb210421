//! Counts the opens of one file in per-CPU slots instead of one counter.
//!
//! Owns: when a file begins to use per-CPU slots, and when it stops. Does **not** own the tallies
//! of the slots ([`opens`](crate::opens)).

use xfs_sync::Ordering;

use super::FileLocks;
use crate::opens::LockWord;

/// Number of opens of a file from another per-CPU slot than the open before, after which the opens
/// are counted per slot.
const SHARD_AFTER: u32 = 16;
/// The bits of `LockState::opener` that hold the per-CPU slot. The other bits hold how often the
/// slot changed from one open to the next.
const SLOT_BITS: u32 = 0xff;

impl FileLocks<'_> {
    /// Records that a thread on per-CPU slot `slot` opens a file whose opens have one common
    /// counter. After the slot has changed `SHARD_AFTER` times, each slot counts its new opens
    /// itself.
    pub fn note_opener(self, slot: usize) {
        let slot = slot as u32 & SLOT_BITS;
        let before = self.state.opener.load(Ordering::Relaxed);
        if before & SLOT_BITS == slot {
            return;
        }
        // Two changes at once may count as one: the number is only a hint.
        let changes = (before >> SLOT_BITS.count_ones()) + 1;
        self.state.opener.store(changes << SLOT_BITS.count_ones() | slot, Ordering::Relaxed);
        if changes >= SHARD_AFTER {
            self.word.set(LockWord::SHARDED);
        }
    }

    /// Returns whether new opens are counted in per-CPU slots. Returns `false` after a call of
    /// `drain`.
    #[must_use]
    pub fn is_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED) && !self.word.has(LockWord::DRAINING)
    }

    /// Returns whether opens were ever counted in per-CPU slots. If so, a thread that has called
    /// `drain` must also remove the file from the slots.
    #[must_use]
    pub fn was_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED)
    }

    /// Stops counting new opens in per-CPU slots, because the file is about to be freed.
    pub fn drain(self) {
        self.word.set(LockWord::DRAINING);
    }
}
