//! How opens are counted, so that no lease is given beside one unseen.
//!
//! Who opens a file counts itself and then looks whether there are leases; who sets a lease announces
//! it and then adds up the counts:
//!
//! ```text
//!   open                              lease
//!   tally += 1                        word |= LEASED
//!   full fence                        full fence
//!   look at the word                  sum the tallies
//! ```
//!
//! Without the fences each of the two may read before its own write is seen, and both go on as if
//! they were alone ("store buffering"). Release and acquire order do not forbid that. It is the same with two who
//! close a file that is written to, and look after that whether they were the last.
//!
//! # Invariants
//!
//! - **I1** Of an open and a lease that do not know of each other's end, at least one sees the other.
//! - **I2** An open leaves the tally that it entered, so each tally by itself is never negative, and
//!   an open that lasts is in every sum.
//! - **I3** Of those who close a file that is written to, one at least finds that nobody is left.

use crate::sync::{AtomicU32, AtomicU64, Object, Ordering, fence};

/// What a file is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Reading.
    Read,
    /// Writing, and reading perhaps.
    Write,
}

impl OpenMode {
    /// One open of this kind in a tally's word.
    const fn unit(self) -> u64 {
        match self {
            Self::Read => 1,
            Self::Write => 1 << 32,
        }
    }
}

/// How often a file is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opens {
    /// For reading only.
    pub reads: u64,
    /// For writing.
    pub writes: u64,
}

/// A part of the opens of a file: those that go through one slot, or those that go through none.
#[derive(Debug, Default)]
pub struct OpenTally {
    /// Opens for writing in the upper half, others in the lower.
    word: AtomicU64<Object>,
}

impl OpenTally {
    /// A tally of no opens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes back what an open of this kind has counted here.
    pub fn leave(&self, mode: OpenMode) {
        let before = self.word.fetch_sub(mode.unit(), Ordering::Release);
        debug_assert!(before >= mode.unit(), "closed more often than opened");
    }

    /// How many there are. An open that comes meanwhile may be missing (I1).
    #[must_use]
    pub fn opens(&self) -> Opens {
        let word = self.word.load(Ordering::Acquire);
        Opens { reads: word & u64::from(u32::MAX), writes: word >> 32 }
    }
}

/// What everybody who opens or closes a file reads and hardly anybody writes: which of the rarer
/// things the file has. It belongs on a cache line with others of that kind.
#[derive(Debug, Default)]
pub struct LockWord {
    bits: AtomicU32<Object>,
}

impl LockWord {
    /// Somebody has set a record lock or a `flock`: who closes has to look for its own.
    pub(crate) const LOCKED: u32 = 1;
    /// There may be leases: who opens has to look.
    pub(crate) const LEASED: u32 = 1 << 1;
    /// Its users are counted by slot.
    pub(crate) const SHARDED: u32 = 1 << 2;
    /// It is on its way out: its users are not counted by slot any more.
    pub(crate) const DRAINING: u32 = 1 << 3;

    /// The word of a file that has nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether any of these bits is set. Who sees one sees what was written before it was set.
    pub(crate) fn has(&self, bits: u32) -> bool {
        self.bits.load(Ordering::Acquire) & bits != 0
    }

    /// Sets bits, after what they announce is in place.
    pub(crate) fn set(&self, bits: u32) {
        if self.bits.load(Ordering::Relaxed) & bits != bits {
            self.bits.fetch_or(bits, Ordering::Release);
        }
    }

    pub(crate) fn clear(&self, bits: u32) {
        self.bits.fetch_and(!bits, Ordering::Release);
    }
}

/// What stands between the write and the look of either side: [`full_fence`], but for a model that
/// shows what happens without.
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Counts an open. Returns whether there may be leases.
pub(crate) fn count_then_look(
    tally: &OpenTally,
    word: &LockWord,
    mode: OpenMode,
    barrier: impl Fn(),
) -> bool {
    tally.word.fetch_add(mode.unit(), Ordering::Relaxed);
    barrier();
    word.has(LockWord::LEASED)
}

/// Takes back what an open of this kind has counted. Where it was for writing, the caller may look after that
/// whether it was the last (I3).
pub(crate) fn leave_before_look(tally: &OpenTally, mode: OpenMode, barrier: impl Fn()) {
    tally.leave(mode);
    if mode == OpenMode::Write {
        barrier();
    }
}

/// Announces a lease. Returns what `sum` makes of the tallies after that.
pub(crate) fn announce_then_sum<T>(
    word: &LockWord,
    barrier: impl Fn(),
    sum: impl FnOnce() -> T,
) -> T {
    word.set(LockWord::LEASED);
    barrier();
    sum()
}
