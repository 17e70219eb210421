//! Counts the opens of a file, so that no lease is granted that conflicts with an open.
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
//! Without the fences each thread may read before its own write becomes visible. Then neither
//! thread would see the other one's write ("store buffering"). Release and acquire order do not
//! forbid that. The same holds for two threads that close a file open for writing and then check
//! whether a writer is left.
//!
//! # Invariants
//!
//! - **I1** If an open and a request for a lease overlap in time, at least one of the two threads
//!   sees the other thread's write.
//! - **I2** An open is subtracted from the tally to which it was added. So no tally is ever
//!   negative, and every sum contains each open that has begun before and ends after the summation.
//! - **I3** Of the threads that close a file open for writing, at least one finds that no writer is
//!   left.

use crate::sync::{AtomicU32, AtomicU64, Object, Ordering, fence};

/// The mode in which a file is open.
///
/// Not `#[non_exhaustive]`, because locks and leases distinguish no other modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Open for reading.
    Read,
    /// Open for writing, and perhaps for reading.
    Write,
}

impl OpenMode {
    /// Returns the number that one open of this mode adds to `OpenTally::word`.
    const fn unit(self) -> u64 {
        match self {
            Self::Read => 1,
            Self::Write => 1 << 32,
        }
    }
}

/// The number of opens of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opens {
    /// The number of opens for reading only.
    pub reads: u64,
    /// The number of opens for writing.
    pub writes: u64,
}

/// Counts opens of a file: those that belong to one per-CPU slot, or those that belong to no slot.
#[derive(Debug, Default)]
pub struct OpenTally {
    /// The number of opens for writing in the upper 32 bits, and of opens for reading only in the
    /// lower 32 bits.
    word: AtomicU64<Object>,
}

impl OpenTally {
    /// Creates a tally without opens.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Subtracts one open of this mode.
    pub fn leave(&self, mode: OpenMode) {
        let before = self.word.fetch_sub(mode.unit(), Ordering::Release);
        debug_assert!(before >= mode.unit(), "a tally counts every open that leaves it (I2)");
    }

    /// Returns the number of opens for reading and for writing. An open that is being counted at
    /// this moment may be missing (I1).
    #[must_use]
    pub fn opens(&self) -> Opens {
        let word = self.word.load(Ordering::Acquire);
        Opens { reads: word & u64::from(u32::MAX), writes: word >> 32 }
    }
}

/// The bits that announce the rare features of a file, such as locks and leases. Every open and
/// close reads them, and few threads write them. The word should lie on a cache line with other
/// data that is read often and written seldom.
#[derive(Debug, Default)]
pub struct LockWord {
    bits: AtomicU32<Object>,
}

impl LockWord {
    /// Flag: a record lock or a `flock` was taken at some time. A thread that closes the file must
    /// release its own locks.
    pub(crate) const LOCKED: u32 = 1;
    /// Flag: there may be leases. A thread that opens the file must check the leases.
    pub(crate) const LEASED: u32 = 1 << 1;
    /// Flag: the opens of the file are counted in per-CPU slots.
    pub(crate) const SHARDED: u32 = 1 << 2;
    /// Flag: the file is about to be freed. New opens are not counted in per-CPU slots.
    pub(crate) const DRAINING: u32 = 1 << 3;

    /// Creates a word with no bit set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether any of `bits` is set. A thread that sees a bit also sees all writes that
    /// precede the setting of the bit.
    pub(crate) fn has(&self, bits: u32) -> bool {
        self.bits.load(Ordering::Acquire) & bits != 0
    }

    /// Sets `bits`. The locks, leases or counts that these bits announce must exist before the
    /// call.
    pub(crate) fn set(&self, bits: u32) {
        if self.bits.load(Ordering::Relaxed) & bits != bits {
            self.bits.fetch_or(bits, Ordering::Release);
        }
    }

    pub(crate) fn clear(&self, bits: u32) {
        self.bits.fetch_and(!bits, Ordering::Release);
    }
}

/// Makes the writes before this call visible to all threads before any read after the call. A model
/// in `tests/weak` leaves this fence out, to show the failure without it.
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Counts an open, calls the fence `barrier`, and reads the file's `word`. Returns whether the file
/// may have leases, which the caller must then check.
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

/// Subtracts an open of this mode, then calls the fence `barrier`. After an open for writing, the
/// caller may then check whether a writer is left (I3: the last thread to close finds none).
pub(crate) fn leave_before_look(tally: &OpenTally, mode: OpenMode, barrier: impl Fn()) {
    tally.leave(mode);
    if mode == OpenMode::Write {
        barrier();
    }
}

/// Announces a lease in `word`, calls the fence `barrier`, and returns the result of `sum`, which
/// reads the tallies.
pub(crate) fn announce_then_sum<T>(
    word: &LockWord,
    barrier: impl Fn(),
    sum: impl FnOnce() -> T,
) -> T {
    word.set(LockWord::LEASED);
    barrier();
    sum()
}
