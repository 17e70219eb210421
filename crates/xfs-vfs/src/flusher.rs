//! The schedule by which the flusher thread writes buffered bytes in the background.
//!
//! Owns: how often the flusher thread looks for old buffers, when the thread may sleep, how much
//! memory all buffers may use, and errors that could be returned to no caller. Does **not** own the
//! bytes ([`contents`](crate::contents)), or which files have buffered bytes: such files have a tag
//! ([`WalkFilter::NeedsFlush`](xfs_icache::WalkFilter)).
//!
//! ```text
//!            begin, by the writer that wakes it       wait: a pass is due
//!   asleep ─────────────────────────────────► begun ─────────────────────► quiet
//!     ▲                                         ▲                            │
//!     │                                         └────────────────────────────┤
//!     │                                             begin                    │
//!     └──────────────────────────────────────────────────────────────────────┘
//!                  wait, if the last pass has left nothing
//! ```
//!
//! # The five seconds
//!
//! Written bytes are durable within [`Upkeep::durable_within`]. One pass begins in every fifth part
//! of that time. A buffer goes through these passes:
//!
//! 1. The first pass leaves it alone. The buffer is between one and two fifths old when the second
//!    pass comes.
//! 2. The second pass flushes it, and forces the log, unless another thread holds the contents lock
//!    just then.
//! 3. The third pass waits for the lock.
//!
//! Two fifths of the time are left for the device. A thread that flushes a buffer earlier does not
//! force the log. So a pass also forces the log if the previous pass left buffers, or if a file has
//! begun to buffer bytes since the previous pass.
//!
//! # Invariants
//!
//! - **I1** A writer tags its file and then reads the phase. The thread sets the phase to quiet and
//!   then reads tags. Both sides have a full fence in between. So either the thread sees the tag,
//!   or the thread finds that the writer has changed the phase, and does not sleep.

use std::time::{Duration, Instant};

use xfs_buffer::{Error, Result};
use xfs_format::InodeNumber;
use xfs_sync::{
    AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, SetOnce, Volume, fence,
};
use xfs_trans::Upkeep;

/// Number of flusher passes in the time within which written bytes must become durable.
const PASSES: u32 = 5;
/// The number of the pass that flushes a buffer. Passes are counted for each buffer: the first pass
/// after the buffer's first byte has number 1.
pub(crate) const FLUSH_PASSES: u64 = 2;
/// The number of the pass that waits for a file's contents lock, if the pass before it found the
/// lock held. Passes are counted as for `FLUSH_PASSES`. After this pass, enough time is left for
/// the device to make the bytes durable.
pub(crate) const WAIT_PASSES: u64 = FLUSH_PASSES + 1;
const _: () = assert!(WAIT_PASSES < PASSES as u64);
/// The time without a write after which a file loses its preallocated blocks.
#[doc(alias = "speculative_prealloc_lifetime")]
const PREALLOCATION_IDLE: Duration = Duration::from_secs(300);
/// The most bytes of memory that all buffers together may claim.
const MAX_BYTES: u64 = 64 << 20;
/// The unit, in bytes, in which a buffer claims memory.
const CLAIM_BYTES: u64 = 64 << 10;
/// Size in bytes up to which a buffer claims no memory. So writers of small files do not contend
/// for the counter that all buffers share. An open file takes about as much memory in any case.
const UNCLAIMED_BYTES: u64 = 4 << 10;

/// Phase of the flusher: its thread sleeps until some file begins to buffer bytes.
const ASLEEP: u32 = 0;
/// Phase of the flusher: no file has begun to buffer bytes since the last pass began.
const QUIET: u32 = 1;
/// Phase of the flusher: a file has begun to buffer bytes since the last pass began.
const BEGUN: u32 = 2;

/// The schedule of flusher passes, and the first error of a background write, which no caller has
/// got yet.
pub struct Flusher {
    /// Number of passes that have begun so far.
    passes: AtomicU64<Volume>,
    phase: AtomicU32<Volume>,
    /// The lock that a pass holds while it runs, so that `hold_passes` can wait for its end.
    passing: Mutex<(), Volume>,
    between: Duration,
    /// Number of passes without a write to a file after which its preallocated blocks are freed.
    preallocation_passes: u64,
    /// Bytes of memory that buffers have claimed.
    claimed_bytes: AtomicU64<Volume>,
    closed: Mutex<bool, Volume>,
    /// The condition on which the flusher thread sleeps. Notified when the volume is closed, and
    /// when a file begins to buffer bytes.
    changed: Condvar<Volume>,
    /// The first error of a background write, kept because no caller waited for that write.
    failure: Mutex<Option<Error>, Volume>,
    /// The function to call with a file after a background write has changed its metadata.
    listener: SetOnce<Listener, Volume>,
}

/// A function that is called with a file after a background write has changed its blocks or size.
pub type Listener = Box<dyn Fn(InodeNumber) + Send + Sync>;

/// One pass of the flusher over all files that are tagged in the inode cache. The tag means that
/// the file has buffered bytes or preallocated blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushPass {
    /// The number of the pass, counted from 1.
    pub(crate) number: u64,
    /// Whether some file has begun to buffer bytes since the last pass.
    pub(crate) after_begin: bool,
}

impl Flusher {
    /// Creates the schedule from the time within which writes must become durable.
    pub(crate) fn new(upkeep: Upkeep) -> Self {
        let between = upkeep.durable_within() / PASSES;
        let preallocation_passes = PREALLOCATION_IDLE.as_nanos() / between.as_nanos().max(1);
        Self {
            passes: AtomicU64::new(0),
            phase: AtomicU32::new(QUIET),
            passing: Mutex::new(()),
            between,
            preallocation_passes: u64::try_from(preallocation_passes)
                .unwrap_or(u64::MAX)
                .max(WAIT_PASSES),
            claimed_bytes: AtomicU64::new(0),
            closed: Mutex::new(false),
            changed: Condvar::new(),
            failure: Mutex::new(None),
            listener: SetOnce::new(),
        }
    }

    /// Registers the function to call with a file after a background write has changed its
    /// metadata. Returns `false`, and changes nothing, if a function is registered already.
    pub fn listen(&self, listener: Listener) -> bool {
        self.listener.set(listener).is_ok()
    }

    /// Calls the registered listener, if any, with the inode number of a file.
    pub(crate) fn notify_listener(&self, number: InodeNumber) {
        if let Some(tell) = self.listener.value() {
            tell(number);
        }
    }

    /// Returns the number of passes that have begun so far.
    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Returns the number of passes without a write to a file after which the preallocated blocks
    /// of the file are freed.
    pub fn preallocation_passes(&self) -> u64 {
        self.preallocation_passes
    }

    /// Records that the caller has tagged a file, and wakes the flusher thread if it sleeps (I1).
    pub(crate) fn begin(&self) {
        fence(Ordering::SeqCst);
        if self.phase.load(Ordering::Relaxed) == BEGUN {
            return;
        }
        if self.phase.swap(BEGUN, Ordering::SeqCst) == ASLEEP {
            let _closed = self.closed.lock();
            self.changed.notify_all();
        }
    }

    /// Keeps passes from running until the guard is dropped. A pass holds references to files, so
    /// it would keep them from being freed.
    pub(crate) fn hold_passes(&self) -> MutexGuard<'_, ()> {
        self.passing.lock()
    }

    /// Begins a pass, and counts it.
    pub(crate) fn begin_pass(&self) -> FlushPass {
        let number = self.passes.fetch_add(1, Ordering::Relaxed) + 1;
        let after_begin = self.phase.swap(QUIET, Ordering::SeqCst) == BEGUN;
        fence(Ordering::SeqCst);
        FlushPass { number, after_begin }
    }

    /// Waits for the next pass. Returns `false` once the volume is closed. `leaves` is `true` if
    /// the last pass has left work. If the last pass has left none, the thread sleeps until some
    /// file begins to buffer bytes.
    pub fn wait(&self, leaves: bool) -> bool {
        let mut closed = self.closed.lock();
        let may_sleep = !leaves
            && self
                .phase
                .compare_exchange(QUIET, ASLEEP, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
        while may_sleep && !*closed && self.phase.load(Ordering::SeqCst) == ASLEEP {
            self.changed.wait(&mut closed);
        }
        let end = Instant::now() + self.between;
        while !*closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.changed.wait_for(&mut closed, left);
        }
        !*closed
    }

    /// Makes [`wait`](Self::wait) return `false`, because the volume is closed.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.changed.notify_all();
    }

    /// Claims memory for a buffer that will have `length_bytes` bytes. `claimed_bytes` is the
    /// memory that the buffer has claimed already; the function adds the new claim to it. Returns
    /// `false` if that would exceed the limit for all buffers.
    pub(crate) fn claim(&self, claimed_bytes: &mut u64, length_bytes: u64) -> bool {
        if length_bytes <= UNCLAIMED_BYTES.max(*claimed_bytes) {
            return true;
        }
        let claim = length_bytes.next_multiple_of(CLAIM_BYTES);
        let more = claim - *claimed_bytes;
        let is_there = self.claimed_bytes.fetch_add(more, Ordering::Relaxed) + more <= MAX_BYTES;
        if is_there {
            *claimed_bytes = claim;
        } else {
            self.unclaim(more);
        }
        is_there
    }

    /// Gives back memory that a buffer has claimed.
    pub(crate) fn unclaim(&self, claimed_bytes: u64) {
        if claimed_bytes > 0 {
            self.claimed_bytes.fetch_sub(claimed_bytes, Ordering::Relaxed);
        }
    }

    /// Stores the error of a background write, which no caller waited for. The next sync of the
    /// volume returns it. Only the first error is kept.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }

    /// Returns the error of an earlier background write, if one was kept, and forgets it.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
