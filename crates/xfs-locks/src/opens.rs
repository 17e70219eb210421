//! Counting opens, so that no lease is granted beside an open that it has missed.
//!
//! A thread that opens a file counts the open and then checks for leases. A thread that sets a
//! lease announces it and then sums the counts:
//!
//! ```text
//!   open                              lease
//!   tally += 1                        word |= LEASED
//!   full fence                        full fence
//!   check the word                    sum the tallies
//! ```
//!
//! Without the fences each thread may read before its own write becomes visible, and both would
//! continue as if they were alone ("store buffering"). Release and acquire order do not forbid
//! that. The same holds for two threads that close a file open for writing and then check whether
//! they were the last.
//!
//! # Invariants
//!
//! - **I1** Of an open and a lease that overlap in time, at least one sees the other.
//! - **I2** An open leaves the tally that it entered. So no tally is ever negative, and an open
//!   that lasts is in every sum.
//! - **I3** Of the threads that close a file open for writing, at least one finds that no writer is
//!   left.

use crate::sync::{AtomicU32, AtomicU64, Object, Ordering, fence};

/// The mode in which a file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Open for reading.
    Read,
    /// Open for writing, and perhaps for reading.
    Write,
}

impl OpenMode {
    /// Returns the value by which one open of this mode changes the word of a tally.
    const fn unit(self) -> u64 {
        match self {
            Self::Read => 1,
            Self::Write => 1 << 32,
        }
    }
}

/// The number of opens of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opens {
    /// The number of opens for reading only.
    pub reads: u64,
    /// The number of opens for writing.
    pub writes: u64,
}

/// A part of the opens of a file: those of one slot, or those of no slot.
#[derive(Debug, Default)]
pub struct OpenTally {
    /// The number of opens for writing in the upper half, and of other opens in the lower half.
    word: AtomicU64<Object>,
}

impl OpenTally {
    /// Creates a tally without opens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Subtracts an open of this mode.
    pub fn leave(&self, mode: OpenMode) {
        let before = self.word.fetch_sub(mode.unit(), Ordering::Release);
        debug_assert!(before >= mode.unit(), "a tally counts every open that leaves it (I2)");
    }

    /// Returns the number of opens, by mode. A concurrent open may be missing (I1).
    #[must_use]
    pub fn opens(&self) -> Opens {
        let word = self.word.load(Ordering::Acquire);
        Opens { reads: word & u64::from(u32::MAX), writes: word >> 32 }
    }
}

/// The bits that announce the rare features of a file. Every open and close reads them, and few
/// threads write them. The word belongs on a cache line with other such data.
#[derive(Debug, Default)]
pub struct LockWord {
    bits: AtomicU32<Object>,
}

impl LockWord {
    /// Flag: a record lock or a `flock` was set. A thread that closes the file must release its own
    /// locks.
    pub(crate) const LOCKED: u32 = 1;
    /// Flag: there may be leases. A thread that opens the file must check them.
    pub(crate) const LEASED: u32 = 1 << 1;
    /// Flag: the users of the file are counted per slot.
    pub(crate) const SHARDED: u32 = 1 << 2;
    /// Flag: the file is about to be freed. New users are not counted per slot.
    pub(crate) const DRAINING: u32 = 1 << 3;

    /// Creates a word without bits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether any of these bits is set. A thread that sees a bit also sees everything
    /// written before the bit was set.
    pub(crate) fn has(&self, bits: u32) -> bool {
        self.bits.load(Ordering::Acquire) & bits != 0
    }

    /// Sets bits. The state that they announce must be in place.
    pub(crate) fn set(&self, bits: u32) {
        if self.bits.load(Ordering::Relaxed) & bits != bits {
            self.bits.fetch_or(bits, Ordering::Release);
        }
    }

    pub(crate) fn clear(&self, bits: u32) {
        self.bits.fetch_and(!bits, Ordering::Release);
    }
}

/// Performs the barrier between the write and the read on either side: [`full_fence`], except in a
/// model that shows the failure without the fence.
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

/// Subtracts an open of this mode. After an open for writing, the caller may then check whether it
/// was the last writer (I3).
pub(crate) fn leave_before_look(tally: &OpenTally, mode: OpenMode, barrier: impl Fn()) {
    tally.leave(mode);
    if mode == OpenMode::Write {
        barrier();
    }
}

/// Announces a lease, and then calls `sum`, which reads the tallies. Returns the result of `sum`.
pub(crate) fn announce_then_sum<T>(
    word: &LockWord,
    barrier: impl Fn(),
    sum: impl FnOnce() -> T,
) -> T {
    word.set(LockWord::LEASED);
    barrier();
    sum()
}
