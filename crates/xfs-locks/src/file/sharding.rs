//! Counting the opens of one file per slot.
//!
//! Owns: when a file changes to counting per slot, and when it stops. Does **not** own the tallies
//! of the slots ([`opens`](crate::opens)).

use xfs_sync::Ordering;

use super::FileLocks;
use crate::opens::LockWord;

/// The number of opens of a file by another thread than the last opener, after which the file's
/// opens are counted per slot.
const SHARD_AFTER: u32 = 16;
/// The bits of `LockState::opener` for the slot. The other bits hold the count.
const SLOT_BITS: u32 = 0xff;

impl FileLocks<'_> {
    /// Records that a thread of this slot opens a file whose users are not counted per slot. Once
    /// the slot has changed often enough from one open to the next, users are counted per slot.
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

    /// Returns whether new users are counted per slot. They are not while the file is being
    /// drained.
    #[must_use]
    pub fn is_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED) && !self.word.has(LockWord::DRAINING)
    }

    /// Returns whether users were ever counted per slot. A thread that drains the file then has to
    /// visit the slots.
    #[must_use]
    pub fn was_sharded(self) -> bool {
        self.word.has(LockWord::SHARDED)
    }

    /// Stops counting users per slot, because the file is about to be freed.
    pub fn drain(self) {
        self.word.set(LockWord::DRAINING);
    }
}
