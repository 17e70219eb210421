//! Log space: what is used, what is promised, and who waits.
//!
//! Owns: the word that says how much of the log is used and granted, the line of waiters, and the
//! grant that slots keep for themselves. Does **not** own where head and tail are
//! ([`ail`](crate::ail) moves them), or how much an operation needs ([`unit`](crate::unit)).
//!
//! ```text
//!  |<------------------------------ size ------------------------------->|
//!  |  used: tail to head  |  granted: tickets, caches, checkpoints  | free |
//! ```
//!
//! # Invariants
//!
//! - **I1** `used + granted <= size`, always. Both stand in one word: a taker's check and addition
//!   are one compare-and-swap, and the head moves in the same step as the grant is given back. With
//!   two words a taker could add the old one to the new other.
//! - **I2** Bytes in a cache are granted.
//! - **I3** While anybody waits, or the space is closed, `contended` is set and nothing is left in a
//!   cache: whoever puts something there looks at the flag afterwards, and whoever waits sets it before
//!   draining.
//! - **I4** New transactions leave an eighth of the log to chains that go on longer than was promised
//!   to them. Such a chain holds items for which others wait, and these others hold what they have
//!   been granted: if that were all of the log, nobody could go on.
//! - **I5** Who is first in line does not fit: whoever gives bytes back takes them for him, if they are
//!   enough, and goes on with the next. So nobody wakes but who is served
//!   or has to ask (I6), and nobody behind the first in line wakes at all.
//! - **I6** Whenever the tail has moved, or may be able to, and somebody still waits, the first in line
//!   asks for it to be moved further: he is given that task (`must_request_push`), and it is passed on to the
//!   next if he is served before he has taken it.
//!
//! Lock order: the line is the innermost lock.

mod wait_queue;

use std::time::Duration;

use xfs_buffer::Result;
use xfs_sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, SlotCounters, Slots, Volume,
};

use crate::health::Health;
use crate::mutant::{ActiveMutant, mutate};
use wait_queue::{WaitQueue, Waiter};

/// Largest log, so that both numbers fit a word.
const MAX_LOG_BYTES: u64 = u32::MAX as u64;

/// In the word: new transactions get nothing. The lowest bit of the used bytes, which are whole basic
/// blocks.
const CLOSED: u64 = 1 << 32;

/// Whether a request goes before those of new transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A new transaction.
    Begin,
    /// A link of a chain of transactions that has used up what was promised: it holds items, so
    /// others cannot go on before it does.
    Roll,
}

impl Urgency {
    /// Bytes that are not given to such a request.
    pub(crate) const fn kept_back(self, size_bytes: u64) -> u64 {
        match self {
            Self::Begin => size_bytes / 8,
            Self::Roll => 0,
        }
    }
}

/// Used and granted bytes of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceUse {
    /// Between tail and head.
    pub used: u64,
    /// Promised to tickets, caches and checkpoints.
    pub granted: u64,
}

impl SpaceUse {
    const fn unpack(word: u64) -> Self {
        Self { used: (word & !CLOSED) >> 32, granted: word & u32::MAX as u64 }
    }

    const fn pack(self) -> u64 {
        self.used << 32 | self.granted
    }
}

/// The space of one log.
pub(crate) struct Space {
    size_bytes: u64,
    word: AtomicU64<Volume>,
    /// Bytes that a slot may keep; 0 if the log is too small for that.
    cache_bytes: u64,
    caches: Slots<AtomicU64<Slot>>,
    contended: AtomicBool<Volume>,
    queue: Mutex<WaitQueue, Volume>,
    /// Who waits until nothing is granted looks again.
    freed: Condvar<Volume>,
    /// How often somebody has waited.
    waits: SlotCounters<1>,
    /// Whether who waits has the tail moved himself, and no thread of the log does. Then what others
    /// have committed and given back makes it worth asking again: nobody else may be left to do it.
    inline_tail_push: AtomicBool<Volume>,
    mutant: ActiveMutant,
}

impl Space {
    /// The space of a log of `size_bytes`, all of it free. No ticket will ask for more than
    /// `largest_bytes` at once.
    pub(crate) fn new(
        size_bytes: u64,
        slots: usize,
        largest_bytes: u64,
        mutant: ActiveMutant,
    ) -> Self {
        assert!(size_bytes <= MAX_LOG_BYTES, "a log of {size_bytes} bytes");
        let caches = Slots::with_count(slots, AtomicU64::default);
        let share = size_bytes / (4 * caches.iter().len() as u64);
        Self {
            size_bytes,
            word: AtomicU64::new(0),
            cache_bytes: if share >= largest_bytes { share } else { 0 },
            caches,
            contended: AtomicBool::new(false),
            queue: Mutex::default(),
            freed: Condvar::new(),
            waits: SlotCounters::new(),
            inline_tail_push: AtomicBool::new(true),
            mutant,
        }
    }

    /// Threads move the tail from now on when who waits asks for it.
    pub(crate) fn leave_tail_pushes_to_threads(&self) {
        self.inline_tail_push.store(false, Ordering::Release);
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What is used and granted now.
    pub(crate) fn in_use(&self) -> SpaceUse {
        SpaceUse::unpack(self.word.load(Ordering::Acquire))
    }

    /// How often somebody has waited for space since the log was opened.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.sum(0)
    }

    /// Whether anybody waits.
    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::SeqCst)
    }

    /// How many new transactions wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting()
    }

    /// Who has been served after having waited: as which he had come.
    #[cfg(all(test, shuttle))]
    pub(crate) fn served(&self) -> Vec<u64> {
        self.queue.lock().served.clone()
    }

    /// Whether anybody waits for space, and not only for the log to be opened again.
    pub(crate) fn has_waiters(&self) -> bool {
        self.is_contended() && self.queue.lock().has_waiters()
    }

    /// Gives new transactions nothing from now on: they wait until it is [opened](Self::open) again, and
    /// chains go on. The flag is part of the word, so who has not taken his bytes from there before gets
    /// none; and bytes in a cache are granted (I2). So nothing is under way once nothing is granted.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        self.contended.store(true, Ordering::SeqCst);
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        self.drain();
    }

    /// Ends what [`close`](Self::close) has begun.
    pub(crate) fn open(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = false;
        self.word.fetch_and(!CLOSED, Ordering::SeqCst);
        queue.request_tail_push();
        self.serve(&mut queue);
    }

    /// Whether nothing is granted. If it is, waits until something changes, but no longer than `limit`.
    pub(crate) fn is_idle_within(&self, limit: Duration) -> bool {
        let mut queue = self.queue.lock();
        self.drain();
        if self.in_use().granted != 0 {
            self.freed.wait_for(&mut queue, limit);
            self.drain();
        }
        self.in_use().granted == 0
    }

    /// Takes `bytes`, waiting for them if need be. `on_wait` is called to have the tail moved, by
    /// who is first in line (I6).
    pub(crate) fn take(
        &self,
        bytes: u64,
        urgency: Urgency,
        health: &Health,
        on_wait: &dyn Fn(),
    ) -> Result<()> {
        health.check()?;
        if self.take_at_once(bytes, urgency) {
            return Ok(());
        }
        self.wait(bytes, urgency, health, on_wait)
    }

    /// The bug that is planted, if any.
    pub(crate) const fn mutant(&self) -> ActiveMutant {
        self.mutant
    }

    /// Takes `bytes` if they are free, or lie in the cache of this slot, and nobody waits.
    pub(crate) fn take_at_once(&self, bytes: u64, urgency: Urgency) -> bool {
        !self.is_contended() && (self.take_cached(bytes) || self.refill(bytes, urgency))
    }

    /// Takes `bytes` if they are free, or lie in any cache, and nobody waits.
    pub(crate) fn try_take(&self, bytes: u64, urgency: Urgency) -> bool {
        if self.is_contended() {
            return false;
        }
        // Who begins to wait meanwhile finds what is drained here.
        let _line = self.queue.lock();
        self.drain();
        self.take_free(bytes, urgency)
    }

    /// Gives back bytes that a ticket has not used.
    pub(crate) fn give_back(&self, bytes: u64) {
        let is_contended = self.is_contended();
        if bytes == 0 && !is_contended {
            return;
        }
        if self.cache_bytes == 0 || is_contended {
            self.release(bytes);
            return;
        }
        let cache = self.caches.mine();
        let cached = cache.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if self.is_contended() {
            // A waiter may have drained this cache before the bytes came (I3).
            self.release(cache.swap(0, Ordering::SeqCst));
        } else if cached > self.cache_bytes {
            self.release(take_from(cache, cached - self.cache_bytes / 2));
        }
    }

    /// Puts granted bytes back into the word, past the caches.
    pub(crate) fn release(&self, bytes: u64) {
        self.update(|state| SpaceUse { granted: state.granted - bytes, ..state });
        self.changed(self.inline_tail_push.load(Ordering::Acquire));
    }

    /// The tail has moved: `used` bytes lie between it and the head.
    pub(crate) fn set_used(&self, used: u64) {
        self.update(|state| SpaceUse { used, ..state });
        self.changed(true);
    }

    /// The head has moved: `used` bytes lie behind it, and `returned` of those that were granted are
    /// granted no more.
    pub(crate) fn move_head(&self, used: u64, returned: u64) {
        mutate!(
            self.mutant,
            Mutant::GrantBeforeHead,
            self.update(|state| SpaceUse { used, granted: state.granted - returned }),
            {
                self.update(|state| SpaceUse { granted: state.granted - returned, ..state });
                self.update(|state| SpaceUse { used, ..state });
            }
        );
        self.changed(true);
    }

    /// Lets all waiters look again, when the log has been shut down.
    pub(crate) fn wake_all(&self) {
        self.queue.lock().wake_all();
        self.freed.notify_all();
    }

    /// Something has come free, or may have. `may_ask`: moving the tail may be of use again.
    fn changed(&self, may_ask: bool) {
        if self.is_contended() {
            let mut queue = self.queue.lock();
            if may_ask {
                queue.request_tail_push();
            }
            self.serve(&mut queue);
        }
    }

    /// Gives those in front what there is (I5), and has the first of the others ask for more (I6).
    fn serve(&self, queue: &mut WaitQueue) {
        mutate!(self.mutant, Mutant::SmallestFirst, {}, queue.sort_by_size());
        queue.serve(|bytes, urgency| self.take_free(bytes, urgency));
        queue.wake_first();
        if queue.is_closed {
            self.freed.notify_all();
        }
        // It changes under the lock of the line only. Looking first leaves it with those who look at it.
        let is_contended = queue.is_contended();
        if self.is_contended() != is_contended {
            self.contended.store(is_contended, Ordering::SeqCst);
        }
    }

    fn update(&self, change: impl Fn(SpaceUse) -> SpaceUse) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = change(SpaceUse::unpack(word));
            assert!(new.used <= self.size_bytes, "{} bytes used of {}", new.used, self.size_bytes);
            assert!(new.used.is_multiple_of(2), "{} bytes used", new.used);
            match self.word.compare_exchange_weak(
                word,
                new.pack() | word & CLOSED,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    fn take_cached(&self, bytes: u64) -> bool {
        self.cache_bytes != 0 && take_exactly(self.caches.mine(), bytes)
    }

    /// Takes `bytes` from the word, and half a cache more if that is free.
    fn refill(&self, bytes: u64, urgency: Urgency) -> bool {
        let extra = self.cache_bytes / 2;
        if extra != 0 && self.take_free(bytes + extra, Urgency::Begin) {
            self.give_back(extra);
            return true;
        }
        self.take_free(bytes, urgency)
    }

    fn take_free(&self, bytes: u64, urgency: Urgency) -> bool {
        let limit = self.size_bytes - urgency.kept_back(self.size_bytes);
        let mut word = self.word.load(Ordering::SeqCst);
        loop {
            let SpaceUse { used, granted } = SpaceUse::unpack(word);
            let is_closed = word & CLOSED != 0 && urgency == Urgency::Begin;
            if is_closed || used + granted + bytes > limit {
                return false;
            }
            let new = SpaceUse { used, granted: granted + bytes }.pack() | word & CLOSED;
            match self.word.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    fn wait(
        &self,
        bytes: u64,
        urgency: Urgency,
        health: &Health,
        on_wait: &dyn Fn(),
    ) -> Result<()> {
        let waiter = Waiter::new(bytes, urgency);
        let mut queue = self.queue.lock();
        queue.join(&waiter);
        self.contended.store(true, Ordering::SeqCst);
        mutate!(self.mutant, Mutant::AsleepBeforeLooking, self.drain_and_serve(&mut queue), {});
        if !waiter.is_served() && queue.has_waiters() {
            self.waits.add(0, 1);
        }
        while !waiter.is_served() {
            if let Err(error) = health.check() {
                mutate!(self.mutant, Mutant::LeftBehind, queue.leave(&waiter), {});
                self.serve(&mut queue);
                return Err(error);
            }
            if queue.take_push_request(&waiter) {
                drop(queue);
                on_wait();
                queue = self.queue.lock();
            } else {
                waiter.sleep(&mut queue);
            }
        }
        Ok(())
    }

    /// Empties all caches, and serves the queue with what was in them.
    fn drain_and_serve(&self, queue: &mut WaitQueue) {
        self.drain();
        self.serve(queue);
    }

    /// Empties all caches.
    pub(crate) fn drain(&self) {
        let cached: u64 = self.caches.iter().map(|cache| cache.swap(0, Ordering::SeqCst)).sum();
        if cached != 0 {
            self.update(|state| SpaceUse { granted: state.granted - cached, ..state });
        }
    }
}

/// Takes all of `bytes` out of a cache, or nothing.
fn take_exactly(cache: &AtomicU64<Slot>, bytes: u64) -> bool {
    let mut cached = cache.load(Ordering::Relaxed);
    while let Some(rest) = cached.checked_sub(bytes) {
        match cache.compare_exchange_weak(cached, rest, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(found) => cached = found,
        }
    }
    false
}

/// Takes up to `bytes` out of a cache; returns how many.
fn take_from(cache: &AtomicU64<Slot>, bytes: u64) -> u64 {
    let mut cached = cache.load(Ordering::Relaxed);
    loop {
        let taken = cached.min(bytes);
        match cache.compare_exchange_weak(
            cached,
            cached - taken,
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            Ok(_) => return taken,
            Err(found) => cached = found,
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
