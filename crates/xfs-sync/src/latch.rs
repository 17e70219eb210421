//! A shared or exclusive lock that is acquired and released by explicit calls.
//!
//! Owns: waiting for many sharers or one exclusive owner. Does **not** own the protected value: a
//! latch has no contents and needs no guard, because its owner is a transaction and not a scope in
//! the code. One thread may acquire a latch and another release it.
//!
//! ```text
//!  word   31 exclusive | 30 waiters exist | 29..0 number of sharers
//! ```
//!
//! Acquiring and releasing a latch without waiters is one exchange each. A thread that finds the
//! latch held retries a few times, unless other waiters already sleep. It then sets the waiting bit
//! (bit 30) while it holds the mutex `gate`, and sleeps. A release that sees the bit wakes the next
//! waiters. After an exclusive owner these are all sharers, if any wait. In all other cases it is
//! the first exclusive waiter. Other waiters stay asleep. With many waiters on one latch, waking
//! all of them on each release would be most of the work.
//!
//! # Invariants
//!
//! - **I1** The waiting bit is set only in a word that is held, and `gate` is held from then until
//!   the waiter sleeps. The releasing thread therefore sees the bit, and finds the waiter asleep
//!   when it gets `gate`: no wakeup is lost.
//! - **I2** While the bit is set, no new sharer joins. An exclusive waiter gets the latch when the
//!   present sharers have released it.
//! - **I3** While a waiter sleeps, the bit is set, or a woken waiter is about to read the word. The
//!   woken waiter sets the bit again in two cases: it cannot acquire the latch, or it acquires the
//!   latch while other waiters sleep.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::raw;
use crate::raw::atomic::AtomicU32;
use crate::scope::{CountScope, note_lock};

const EXCLUSIVE: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
const SHARERS: u32 = WAITING - 1;

/// A lock without contents, for one exclusive owner or many sharers.
///
/// A latch is not recursive. A thread that holds the latch in shared mode must not acquire it
/// again: an exclusive waiter that arrives between the two calls would deadlock with that thread.
pub struct Latch<S: CountScope> {
    word: AtomicU32,
    gate: raw::Mutex<Waiters>,
    exclusive_waiters: raw::Condvar,
    shared_waiters: raw::Condvar,
    scope: PhantomData<S>,
}

/// The number of waiting threads for each mode. A waiting thread sleeps, or was woken and has not
/// read the state of the latch yet.
#[derive(Clone, Copy, Default)]
struct Waiters {
    exclusive: u32,
    shared: u32,
}

/// The mode in which a thread acquires or releases a latch.
#[derive(Clone, Copy)]
enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    /// Computes the new value of the latch's state word when the latch is acquired in this mode.
    /// `word` is the present value. Returns `None` if it does not permit that.
    fn take(self, word: u32) -> Option<u32> {
        match self {
            Self::Exclusive if word & !WAITING == 0 => Some(word | EXCLUSIVE),
            // A sharer may take a free latch. With the bit set, it does not join sharers (I2).
            Self::Shared if word == WAITING || word & (EXCLUSIVE | WAITING) == 0 => Some(word + 1),
            _ => None,
        }
    }
}

impl<S: CountScope> Latch<S> {
    /// Creates a free latch.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            gate: raw::Mutex::new(Waiters { exclusive: 0, shared: 0 }),
            exclusive_waiters: raw::Condvar::new(),
            shared_waiters: raw::Condvar::new(),
            scope: PhantomData,
        }
    }

    /// Waits until the latch is free and acquires it exclusively.
    #[inline]
    pub fn lock_exclusive(&self) {
        if !self.try_lock(Mode::Exclusive) {
            self.wait(Mode::Exclusive);
        }
    }

    /// Acquires the latch exclusively if it is free. Returns whether it was acquired.
    #[inline]
    #[must_use]
    pub fn try_lock_exclusive(&self) -> bool {
        self.try_lock(Mode::Exclusive)
    }

    /// Releases a latch that is held exclusively.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held exclusively.
    #[inline]
    pub fn unlock_exclusive(&self) {
        let before = self.word.fetch_and(!EXCLUSIVE, Ordering::Release);
        assert!(
            before & EXCLUSIVE != 0,
            "exclusive unlock of a latch that is not held exclusively"
        );
        if before & WAITING != 0 {
            self.wake(Mode::Exclusive);
        }
    }

    /// Waits until the latch has neither an exclusive owner nor an exclusive waiter, and acquires
    /// it in shared mode.
    #[inline]
    pub fn lock_shared(&self) {
        if !self.try_lock(Mode::Shared) {
            self.wait(Mode::Shared);
        }
    }

    /// Acquires the latch in shared mode if it has neither an exclusive owner nor a waiter. Returns
    /// whether it was acquired.
    #[inline]
    #[must_use]
    pub fn try_lock_shared(&self) -> bool {
        self.try_lock(Mode::Shared)
    }

    /// Releases a latch that the caller holds in shared mode.
    ///
    /// # Panics
    ///
    /// Panics if the latch is not held in shared mode.
    #[inline]
    pub fn unlock_shared(&self) {
        let before = self.word.fetch_sub(1, Ordering::Release);
        assert!(before & SHARERS != 0, "shared unlock of a latch that is not shared");
        if before == WAITING | 1 {
            self.wake(Mode::Shared);
        }
    }

    /// Returns whether the latch is held exclusively. Only the owner can rely on the result: for
    /// other threads it may be outdated already.
    #[inline]
    #[must_use]
    pub fn is_locked_exclusive(&self) -> bool {
        self.word.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    /// Returns whether a thread sleeps until the latch is released. The result may be outdated
    /// already. For diagnostics and tests.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITING != 0
    }

    /// Waits until the latch can be acquired in shared mode, and holds it until the guard is
    /// dropped.
    #[inline]
    pub fn shared(&self) -> SharedLatch<'_, S> {
        self.lock_shared();
        SharedLatch(self)
    }

    /// Waits until the latch is free, and holds it exclusively until the guard is dropped.
    #[inline]
    pub fn exclusive(&self) -> ExclusiveLatch<'_, S> {
        self.lock_exclusive();
        ExclusiveLatch(self)
    }

    #[inline]
    fn try_lock(&self, mode: Mode) -> bool {
        note_lock::<S>();
        self.try_take(mode)
    }

    /// Acquires a latch that is not available: retries a few times, then sleeps until it is woken.
    #[cold]
    fn wait(&self, mode: Mode) {
        for _ in 0..raw::SPINS_BEFORE_SLEEP {
            if self.word.load(Ordering::Relaxed) & WAITING != 0 {
                break;
            }
            core::hint::spin_loop();
            if self.try_take(mode) {
                return;
            }
        }
        let mut waiters = self.gate.lock();
        while !self.try_take(mode) {
            if self.announce(mode) {
                self.sleep(mode, &mut waiters);
            }
        }
        // Others still sleep, so the bit is set again (I3).
        if waiters.exclusive + waiters.shared > 0 {
            self.word.fetch_or(WAITING, Ordering::Relaxed);
        }
    }

    fn sleep(&self, mode: Mode, waiters: &mut raw::MutexGuard<'_, Waiters>) {
        match mode {
            Mode::Exclusive => {
                waiters.exclusive += 1;
                self.exclusive_waiters.wait(waiters);
                waiters.exclusive -= 1;
            }
            Mode::Shared => {
                waiters.shared += 1;
                self.shared_waiters.wait(waiters);
                waiters.shared -= 1;
            }
        }
    }

    #[inline]
    fn try_take(&self, mode: Mode) -> bool {
        self.update(Ordering::Acquire, |word| mode.take(word))
    }

    /// Sets the waiting bit of the latch's state word if the latch cannot be acquired in this mode.
    /// If the latch has become available, changes nothing and returns `false` (I1).
    fn announce(&self, mode: Mode) -> bool {
        let set = |word| mode.take(word).is_none().then_some(word | WAITING);
        self.update(Ordering::Relaxed, set)
    }

    /// Replaces the state word of the latch by the result of `change` and returns `true`. If
    /// `change` returns `None`, leaves the word unchanged and returns `false`.
    #[inline]
    fn update(&self, success: Ordering, change: impl Fn(u32) -> Option<u32>) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(next) = change(word) {
            match self.word.compare_exchange_weak(word, next, success, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Wakes the next waiters after the latch was released from mode `held`.
    #[cold]
    fn wake(&self, held: Mode) {
        let waiters = self.gate.lock();
        self.word.fetch_and(!WAITING, Ordering::Relaxed);
        let sharers_are_next = match held {
            Mode::Exclusive => waiters.shared > 0,
            Mode::Shared => waiters.exclusive == 0,
        };
        if sharers_are_next {
            self.shared_waiters.notify_all();
        } else {
            self.exclusive_waiters.notify_one();
        }
    }
}

impl<S: CountScope> Default for Latch<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: CountScope> fmt::Debug for Latch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("Latch")
            .field("exclusive", &(word & EXCLUSIVE != 0))
            .field("shared", &(word & SHARERS))
            .finish_non_exhaustive()
    }
}

/// A [`Latch`] held in shared mode, released on drop.
#[derive(Debug)]
#[must_use]
pub struct SharedLatch<'a, S: CountScope>(&'a Latch<S>);

impl<S: CountScope> Drop for SharedLatch<'_, S> {
    fn drop(&mut self) {
        self.0.unlock_shared();
    }
}

/// A [`Latch`] held exclusively, released on drop.
#[derive(Debug)]
#[must_use]
pub struct ExclusiveLatch<'a, S: CountScope>(&'a Latch<S>);

impl<S: CountScope> Drop for ExclusiveLatch<'_, S> {
    fn drop(&mut self) {
        self.0.unlock_exclusive();
    }
}

#[cfg(test)]
mod tests;
