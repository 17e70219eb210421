//! When files are looked at that have something to write.
//!
//! Owns: how often a thread looks for what is old, when it need not, how much may wait in all, and the errors that
//! nobody could be told of. Does **not** own what is written ([`contents`](super::contents)), or which files have something to
//! write: they bear a tag ([`WalkFilter::Unsettled`](crate::Which)).
//!
//! ```text
//!            begin, by who finds it asleep            wait: a look is due
//!   asleep ─────────────────────────────────► begun ─────────────────────► quiet
//!     ▲                                         ▲                            │
//!     │                                         └────────────────────────────┤
//!     │                                             begin                    │
//!     └──────────────────────────────────────────────────────────────────────┘
//!                  wait, if the last look has left nothing
//! ```
//!
//! # The five seconds
//!
//! What is written is durable [`Upkeep::durable_within`] that time. A look comes each fifth of it. Bytes go
//! into a buffer, which has seen so many looks:
//!
//! 1. The first look leaves it alone. So it is between one and two fifths old when the second comes.
//! 2. That flushes it, and forces the log, unless somebody works on the file just then.
//! 3. The third one waits for him.
//!
//! Two fifths are left for the device. Who flushes a buffer earlier leaves it to the log, and a look that
//! comes after one that has left buffers, or after one has begun, forces that in any case.
//!
//! # Invariants
//!
//! - **I1** Who tags a file looks at the phase after that; the thread sets it to quiet before it looks for
//!   tags. There is a full fence in between on both sides, so either the thread sees the tag or it finds that
//!   something has begun, and does not sleep.

use std::time::{Duration, Instant};

use xfs_buffer::{Error, IoError, Result};
use xfs_format::InodeNumber;
use xfs_sync::{
    AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, SetOnce, Volume, fence,
};
use xfs_trans::Upkeep;

/// Looks in the time within which what is written is durable.
const LOOKS: u32 = 5;
/// Looks that a buffer has seen when it is flushed.
pub(super) const FLUSH_LOOKS: u64 = 2;
/// Those after which whoever works on the file is waited for. They leave time for the device.
pub(super) const WAIT_LOOKS: u64 = FLUSH_LOOKS + 1;
const _: () = assert!(WAIT_LOOKS < LOOKS as u64);
/// How long a file is not written to until the space ahead of it is given back.
#[doc(alias = "speculative_prealloc_lifetime")]
const AHEAD_IDLE: Duration = Duration::from_secs(300);
/// What the buffers of all files together may hold.
const MAX_BYTES: u64 = 64 << 20;
/// What a buffer claims of that at a time.
const CLAIM_BYTES: u64 = 64 << 10;
/// A buffer that is no longer claims nothing, so that small files share no count: the memory of an open
/// file is of that order anyway.
const UNCLAIMED_BYTES: u64 = 4 << 10;

/// The thread waits until something begins.
const ASLEEP: u32 = 0;
/// Nothing has begun since the last look began.
const QUIET: u32 = 1;
/// Something has.
const BEGUN: u32 = 2;

/// The looks for files that have something to write.
pub(crate) struct Unsettled {
    /// How many looks there were.
    looks: AtomicU64<Volume>,
    phase: AtomicU32<Volume>,
    /// Held during a look.
    looking: Mutex<(), Volume>,
    between: Duration,
    /// Looks in which nobody writes to a file until the space ahead of it is given back.
    ahead_looks: u64,
    /// What all buffers have claimed.
    claimed_bytes: AtomicU64<Volume>,
    closed: Mutex<bool, Volume>,
    /// The volume is closed, or the thread has to wake.
    changed: Condvar<Volume>,
    /// What a handle that was dropped could tell nobody: the first of that.
    failure: Mutex<Option<Error>, Volume>,
    /// Who keeps what files have shown.
    listener: SetOnce<Listener, Volume>,
}

/// Hears of a file that shows something else than before.
pub(crate) type Listener = Box<dyn Fn(InodeNumber) + Send + Sync>;

/// A look at all files that have something to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// How many there have been, with this one.
    pub(crate) number: u64,
    /// Whether something has begun since the last one.
    pub(crate) after_begin: bool,
}

impl Unsettled {
    /// For a volume that is kept up like this.
    pub(crate) fn new(upkeep: Upkeep) -> Self {
        let between = upkeep.durable_within() / LOOKS;
        let ahead_looks = AHEAD_IDLE.as_nanos() / between.as_nanos().max(1);
        Self {
            looks: AtomicU64::new(0),
            phase: AtomicU32::new(QUIET),
            looking: Mutex::new(()),
            between,
            ahead_looks: u64::try_from(ahead_looks).unwrap_or(u64::MAX).max(WAIT_LOOKS),
            claimed_bytes: AtomicU64::new(0),
            closed: Mutex::new(false),
            changed: Condvar::new(),
            failure: Mutex::new(None),
            listener: SetOnce::new(),
        }
    }

    /// Has somebody hear of files that show something else though nobody has asked for that. `false`: somebody
    /// does already.
    pub(crate) fn listen(&self, listener: Listener) -> bool {
        self.listener.set(listener).is_ok()
    }

    /// Tells that a file does.
    pub(super) fn tell(&self, number: InodeNumber) {
        if let Some(tell) = self.listener.value() {
            tell(number);
        }
    }

    /// How many looks there have been.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Looks in which nobody writes to a file until the space ahead of it is given back.
    pub(crate) fn ahead_looks(&self) -> u64 {
        self.ahead_looks
    }

    /// Notes that a file has got its tag, and wakes the thread if it sleeps (I1).
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

    /// Keeps looks away. One uses the files that it looks at, which are not freed meanwhile.
    pub(crate) fn hold_looks(&self) -> MutexGuard<'_, ()> {
        self.looking.lock()
    }

    /// Counts one more look, which begins.
    pub(crate) fn look(&self) -> Look {
        let number = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let after_begin = self.phase.swap(QUIET, Ordering::SeqCst) == BEGUN;
        fence(Ordering::SeqCst);
        Look { number, after_begin }
    }

    /// Waits for the next look; `false` once the volume is closed. There is none before something begins
    /// if the last one has left nothing.
    pub(crate) fn wait(&self, leaves: bool) -> bool {
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

    /// Lets [`wait`](Self::wait) return.
    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.changed.notify_all();
    }

    /// Claims memory for a buffer of this length that has claimed some already; `false` if others have
    /// all of it.
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

    /// Gives memory back that was claimed.
    pub(crate) fn unclaim(&self, claimed_bytes: u64) {
        if claimed_bytes > 0 {
            self.claimed_bytes.fetch_sub(claimed_bytes, Ordering::Relaxed);
        }
    }

    /// Keeps an error that nobody was told of.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }

    /// The error of a file whose handle was dropped, once.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }
}

/// The same error once more, for somebody else.
pub(super) fn repeat(error: &Error) -> Error {
    match error {
        Error::Io(IoError { operation, at, length_bytes, source }) => {
            let source = match source.raw_os_error() {
                Some(number) => std::io::Error::from_raw_os_error(number),
                None => std::io::Error::new(source.kind(), source.to_string()),
            };
            let (at, length_bytes) = (*at, *length_bytes);
            IoError { operation, at, length_bytes, source }.into()
        }
        Error::Corrupt(corruption) => corruption.clone().into(),
        Error::Unsupported(reason) => (*reason).into(),
        Error::Posix(case) => (*case).into(),
        Error::Shutdown => Error::Shutdown,
    }
}

#[cfg(test)]
mod tests;
