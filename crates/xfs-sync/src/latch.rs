//! A lock that is taken and given back by hand.
//!
//! Owns: waiting for many readers or one owner. Does **not** own what is protected: a latch has no
//! contents and no guard, because its owner is a transaction and not a place in the code. It may be
//! taken on one thread and given back on another.
//!
//! ```text
//!  word   31 exclusive | 30 somebody waits | 29..0 how many share
//! ```
//!
//! Taking and giving back a latch that nobody waits for is one exchange each. Who finds it taken looks
//! again a few times, unless others sleep already, and then sets the waiting bit under `gate` and sleeps
//! there. Who gives back a latch with that bit wakes those whose turn it is: all who want to share it
//! after an owner, else the first who wants it alone. The others sleep on: with many who want one latch, to
//! wake all of them for each that can have it would be most of the work.
//!
//! # Invariants
//!
//! - **I1** The waiting bit is set only in a word that somebody holds, and with `gate` held until
//!   the waiter sleeps. So whoever gives the latch back sees the bit, and finds the waiter asleep
//!   when it gets `gate`: no wakeup is lost.
//! - **I2** While the bit is set nobody joins those who share: one who waits to be alone is let in
//!   when they have gone.
//! - **I3** While somebody sleeps, the bit is set, or somebody who was woken is on the way to look at the
//!   word. That one sets it (again) if the latch cannot be had, and also if it can and others sleep.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::raw;
use crate::raw::atomic::AtomicU32;
use crate::scope::{Scope, note_lock};

const EXCLUSIVE: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
const SHARERS: u32 = WAITING - 1;

/// A lock without contents and without a guard: for one owner, or for many who share it.
///
/// It is not recursive: a thread that shares it must not ask to share it again, since somebody who
/// waits between the two would stop both.
pub struct Latch<S: Scope> {
    word: AtomicU32,
    gate: raw::Mutex<Waiters>,
    freed_for_one: raw::Condvar,
    freed_for_all: raw::Condvar,
    scope: PhantomData<S>,
}

/// How many sleep, or were woken and have not looked yet.
#[derive(Clone, Copy, Default)]
struct Waiters {
    to_be_alone: u32,
    to_share: u32,
}

/// How a latch is wanted, or was held.
#[derive(Clone, Copy)]
enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    /// The word once the latch is taken, if that can be in this state of it.
    fn take(self, word: u32) -> Option<u32> {
        match self {
            Self::Exclusive if word & !WAITING == 0 => Some(word | EXCLUSIVE),
            Self::Shared if word == WAITING || word & (EXCLUSIVE | WAITING) == 0 => Some(word + 1),
            _ => None,
        }
    }
}

impl<S: Scope> Latch<S> {
    /// A free latch.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            gate: raw::Mutex::new(Waiters { to_be_alone: 0, to_share: 0 }),
            freed_for_one: raw::Condvar::new(),
            freed_for_all: raw::Condvar::new(),
            scope: PhantomData,
        }
    }

    /// Waits until nobody holds the latch and takes it alone.
    #[inline]
    pub fn lock_exclusive(&self) {
        if !self.try_lock(Mode::Exclusive) {
            self.wait(Mode::Exclusive);
        }
    }

    /// Takes the latch alone if nobody holds it.
    #[inline]
    #[must_use]
    pub fn try_lock_exclusive(&self) -> bool {
        self.try_lock(Mode::Exclusive)
    }

    /// Gives back a latch that was taken alone.
    ///
    /// # Panics
    ///
    /// If nobody holds it that way.
    #[inline]
    pub fn unlock_exclusive(&self) {
        let before = self.word.fetch_and(!EXCLUSIVE, Ordering::Release);
        assert!(before & EXCLUSIVE != 0, "a latch given back that nobody held alone");
        if before & WAITING != 0 {
            self.wake(Mode::Exclusive);
        }
    }

    /// Waits until nobody holds the latch alone, or waits for that, and shares it.
    #[inline]
    pub fn lock_shared(&self) {
        if !self.try_lock(Mode::Shared) {
            self.wait(Mode::Shared);
        }
    }

    /// Shares the latch if nobody holds it alone or waits for it.
    #[inline]
    #[must_use]
    pub fn try_lock_shared(&self) -> bool {
        self.try_lock(Mode::Shared)
    }

    /// Gives back a share.
    ///
    /// # Panics
    ///
    /// If nobody shares the latch.
    #[inline]
    pub fn unlock_shared(&self) {
        let before = self.word.fetch_sub(1, Ordering::Release);
        assert!(before & SHARERS != 0, "a share of a latch given back that nobody had");
        if before == WAITING | 1 {
            self.wake(Mode::Shared);
        }
    }

    /// Whether somebody holds the latch alone. Only who holds it knows that it stays so.
    #[inline]
    #[must_use]
    pub fn is_locked_exclusive(&self) -> bool {
        self.word.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    /// Shares the latch until the guard is dropped.
    #[inline]
    pub fn shared(&self) -> SharedLatch<'_, S> {
        self.lock_shared();
        SharedLatch(self)
    }

    /// Takes the latch alone until the guard is dropped.
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

    /// The wait for a latch that could not be had at once.
    #[cold]
    fn wait(&self, mode: Mode) {
        for _ in 0..raw::LOOKS_BEFORE_SLEEP {
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
        if waiters.to_be_alone + waiters.to_share > 0 {
            self.word.fetch_or(WAITING, Ordering::Relaxed);
        }
    }

    fn sleep(&self, mode: Mode, waiters: &mut raw::MutexGuard<'_, Waiters>) {
        match mode {
            Mode::Exclusive => {
                waiters.to_be_alone += 1;
                self.freed_for_one.wait(waiters);
                waiters.to_be_alone -= 1;
            }
            Mode::Shared => {
                waiters.to_share += 1;
                self.freed_for_all.wait(waiters);
                waiters.to_share -= 1;
            }
        }
    }

    #[inline]
    fn try_take(&self, mode: Mode) -> bool {
        self.update(Ordering::Acquire, |word| mode.take(word))
    }

    /// Sets the waiting bit of a word that cannot be taken; `false` if it can be by now (I1).
    fn announce(&self, mode: Mode) -> bool {
        let set = |word| mode.take(word).is_none().then_some(word | WAITING);
        self.update(Ordering::Relaxed, set)
    }

    /// Changes the word to what becomes of it; `false` if nothing does.
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

    /// Wakes those whose turn it is after who held the latch in this way.
    #[cold]
    fn wake(&self, held: Mode) {
        let waiters = self.gate.lock();
        self.word.fetch_and(!WAITING, Ordering::Relaxed);
        let is_turn_of_sharers = match held {
            Mode::Exclusive => waiters.to_share > 0,
            Mode::Shared => waiters.to_be_alone == 0,
        };
        if is_turn_of_sharers {
            self.freed_for_all.notify_all();
        } else {
            self.freed_for_one.notify_one();
        }
    }
}

impl<S: Scope> Default for Latch<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Scope> fmt::Debug for Latch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("Latch")
            .field("exclusive", &(word & EXCLUSIVE != 0))
            .field("shared", &(word & SHARERS))
            .finish_non_exhaustive()
    }
}

/// A share of a [`Latch`], given back when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct SharedLatch<'a, S: Scope>(&'a Latch<S>);

impl<S: Scope> Drop for SharedLatch<'_, S> {
    fn drop(&mut self) {
        self.0.unlock_shared();
    }
}

/// A [`Latch`] held alone, given back when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct ExclusiveLatch<'a, S: Scope>(&'a Latch<S>);

impl<S: Scope> Drop for ExclusiveLatch<'_, S> {
    fn drop(&mut self) {
        self.0.unlock_exclusive();
    }
}

#[cfg(test)]
mod tests;
