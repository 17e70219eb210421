//! Log space: used bytes, granted bytes, and the queue of waiters.
//!
//! Owns: the atomic integer with the used and granted bytes, the wait queue, and the grant that
//! slots cache. Does **not** own the positions of head and tail ([`ail`](crate::ail) moves them),
//! or the size of a reservation ([`unit`](crate::unit)).
//!
//! ```text
//!  |<------------------------------ size ------------------------------->|
//!  |  used: tail to head  |  granted: tickets, caches, checkpoints  | free |
//! ```
//!
//! # Invariants
//!
//! - **I1** `used + granted <= size`, always. Both are in one atomic integer. The check and the
//!   addition of a request are one compare-and-swap, and the head moves in the same step as the
//!   grant is given back. With two integers a request could combine the old value of one with the
//!   new value of the other.
//! - **I2** Bytes in the cache of a slot count as granted.
//! - **I3** While a thread waits, or the space is closed, `contended` is set and all caches are
//!   empty. A thread that puts bytes into a cache checks the flag afterwards. A thread that begins
//!   to wait sets the flag before it drains the caches.
//! - **I4** New transactions leave an eighth of the log to chains that need more transactions than
//!   they reserved space for. Such a chain holds items for which other transactions wait, and these
//!   keep their grants. If their grants were all of the log, no transaction could continue.
//! - **I5** The head waiter's request does not fit, or, if it is that of a new transaction, leaves
//!   less than a batch free (see below). A thread that releases bytes grants them to the head
//!   waiter as soon as they suffice, and then to the next. So a waiter wakes only when it is served
//!   or has to request a tail push (I6). A waiter after the head waiter never wakes.
//! - **I6** When the tail has moved, or may be able to, and a thread still waits, the head waiter
//!   requests a tail push: it gets that task (`must_request_push`). If the head waiter is served
//!   before it takes the task, the task passes to the next.
//!
//! # Batches
//!
//! In a log that is full, the threads would pass the bytes of one request from hand to hand: each
//! transaction would join the queue, and wake the next waiter at its end. So new transactions are
//! served only when a *batch*, an eighth of the log, is free beside the request of the first of
//! them and the eighth of I4. Then as many waiters are served together as fit, and the caches are
//! filled again from the rest. Chains do not wait for a batch.
//!
//! A waiter still gets its bytes at last. Waiting transactions hold nothing that others wait for.
//! So the transactions that run end, pushes of the tail continue while a thread waits (I6), and
//! then nothing is granted, and only the last record is used. A request is at most half of the log
//! (`Log::reserve`). With the batch and the eighth of I4 that is three quarters of it.
//!
//! Lock order: the queue is the innermost lock.

mod wait_queue;

use std::time::Duration;

use xfs_buffer::Result;
use xfs_sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Slot, SlotCounters, Slots, Volume,
};

use crate::health::Health;
use crate::mutant::{ActiveMutant, mutate};
use wait_queue::{SpaceWaiter, WaitQueue};

/// The size of the largest log in bytes. One integer of 64 bits holds the used and the granted
/// bytes, each in 32 bits.
const MAX_LOG_BYTES: u64 = u32::MAX as u64;

/// The log size is divided by this number. The result is a batch. A transaction gives back most of
/// its bytes, so a batch is enough for many more transactions than it has requests. A create keeps
/// some 350 bytes.
const BATCH_SHARE: u64 = 8;

/// Flag in the integer of used and granted bytes: new transactions get no bytes. The flag is the
/// lowest bit of the number of used bytes. This bit is otherwise 0, because the used bytes are
/// whole basic blocks.
const CLOSED: u64 = 1 << 32;

/// Whether a request for log space comes before the requests of new transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The request of a new transaction.
    Begin,
    /// The request of a chain of transactions that has used up the log space that it reserved at
    /// its start. The chain holds items for which other transactions wait.
    Roll,
}

impl Urgency {
    /// Returns the number of bytes of the log that a request of this urgency must leave free (I4).
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
    /// Number of bytes between tail and head.
    pub used: u64,
    /// Number of bytes that are set aside for tickets, caches and checkpoints.
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
pub(crate) struct LogSpace {
    size_bytes: u64,
    word: AtomicU64<Volume>,
    /// Number of bytes that each slot may cache; 0 if the log is too small for caches.
    cache_bytes: u64,
    /// Number of bytes that are free, beside its request, when the first of several waiting new
    /// transactions is served; 0 if the log is too small for caches.
    batch_bytes: u64,
    caches: Slots<AtomicU64<Slot>>,
    contended: AtomicBool<Volume>,
    queue: Mutex<WaitQueue, Volume>,
    /// The condition variable of threads that wait until no bytes are granted.
    freed: Condvar<Volume>,
    /// Number of times that a thread has waited for space.
    waits: SlotCounters<1>,
    /// Whether a waiter pushes the tail itself, because the log has no thread that does. Every
    /// commit and every release then lets the head waiter push again, since it may be the only
    /// thread left.
    inline_tail_push: AtomicBool<Volume>,
    mutant: ActiveMutant,
}

impl LogSpace {
    /// Creates the space of a log of `size_bytes` bytes. All of it is free. Each of the `slots`
    /// per-CPU slots gets an empty cache of granted bytes, unless the log is too small for caches
    /// of `largest_bytes` bytes.
    pub(crate) fn new(
        size_bytes: u64,
        slots: usize,
        largest_bytes: u64,
        mutant: ActiveMutant,
    ) -> Self {
        assert!(size_bytes <= MAX_LOG_BYTES, "a log of {size_bytes} bytes is too large");
        let caches = Slots::with_count(slots, AtomicU64::default);
        let share = size_bytes / (4 * caches.iter().len() as u64);
        let has_caches = share >= largest_bytes;
        Self {
            size_bytes,
            word: AtomicU64::new(0),
            cache_bytes: if has_caches { share } else { 0 },
            batch_bytes: if has_caches { size_bytes / BATCH_SHARE } else { 0 },
            caches,
            contended: AtomicBool::new(false),
            queue: Mutex::default(),
            freed: Condvar::new(),
            waits: SlotCounters::new(),
            inline_tail_push: AtomicBool::new(true),
            mutant,
        }
    }

    /// From now on, waiters only request tail pushes, and leave the pushes to the log's threads.
    pub(crate) fn leave_tail_pushes_to_threads(&self) {
        self.inline_tail_push.store(false, Ordering::Release);
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the used and granted bytes.
    pub(crate) fn in_use(&self) -> SpaceUse {
        SpaceUse::unpack(self.word.load(Ordering::Acquire))
    }

    /// Returns the number of times that a thread has waited for space since the log was opened.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.sum(0)
    }

    /// Returns whether a thread waits for log space, or log space is closed to new transactions.
    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::SeqCst)
    }

    /// Returns the number of new transactions that wait for space.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting()
    }

    /// Returns the arrival numbers of the waiters that have been served, in the order of service.
    #[cfg(all(test, shuttle))]
    pub(crate) fn served(&self) -> Vec<u64> {
        self.queue.lock().served.clone()
    }

    /// Returns whether a thread waits because too few bytes of log space are free. New transactions
    /// that wait only because the space is closed to them do not count.
    pub(crate) fn has_waiters(&self) -> bool {
        self.is_contended() && self.queue.lock().has_waiters()
    }

    /// Stops granting bytes to new transactions: they wait until the space is [opened](Self::open)
    /// again, but chains continue. The flag `CLOSED` is in the same integer as the used and granted
    /// bytes, so no later request of a new transaction takes free bytes. Bytes in a cache count as
    /// granted (I2). So no transaction is running once no bytes are granted.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        self.contended.store(true, Ordering::SeqCst);
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        self.drain();
    }

    /// Grants bytes to new transactions again, after [`close`](Self::close).
    pub(crate) fn open(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = false;
        self.word.fetch_and(!CLOSED, Ordering::SeqCst);
        queue.request_tail_push();
        self.serve(&mut queue);
    }

    /// Returns whether no bytes are granted. If some are, first waits until they are given back,
    /// but no longer than `limit`.
    pub(crate) fn is_idle_within(&self, limit: Duration) -> bool {
        let mut queue = self.queue.lock();
        self.drain();
        if self.in_use().granted != 0 {
            self.freed.wait_for(&mut queue, limit);
            self.drain();
        }
        self.in_use().granted == 0
    }

    /// Takes `bytes`, and waits for them if necessary. If the calling thread is the first of the
    /// waiters, it calls `on_wait` to have the tail pushed (I6).
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

    /// Returns the mutant (deliberate bug) that a test has switched on, if any.
    pub(crate) const fn mutant(&self) -> ActiveMutant {
        self.mutant
    }

    /// Takes `bytes` from the cache of the calling thread's per-CPU slot, or from the free space.
    /// Returns `false`, and takes nothing, if neither has that many bytes or a thread waits.
    pub(crate) fn take_at_once(&self, bytes: u64, urgency: Urgency) -> bool {
        !self.is_contended() && (self.take_cached(bytes) || self.refill(bytes, urgency))
    }

    /// Takes `bytes` from the free space, after emptying all caches into it. Returns `false`, and
    /// takes nothing, if fewer bytes are free or a thread waits.
    pub(crate) fn try_take(&self, bytes: u64, urgency: Urgency) -> bool {
        if self.is_contended() {
            return false;
        }
        // A thread that begins to wait meanwhile finds the drained bytes.
        let _line = self.queue.lock();
        self.drain();
        self.take_free(bytes, urgency)
    }

    /// Gives back `bytes` that a ticket reserved but did not use. They go to the cache of the
    /// calling thread's per-CPU slot, or to the free space if the cache is full or a thread waits.
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
            // A waiter may have drained this cache before the bytes arrived (I3).
            self.release(cache.swap(0, Ordering::SeqCst));
        } else if cached > self.cache_bytes {
            self.release(take_from(cache, cached - self.cache_bytes / 2));
        }
    }

    /// Gives granted bytes back to the free space, not to a cache.
    pub(crate) fn release(&self, bytes: u64) {
        self.update(|state| SpaceUse { granted: state.granted - bytes, ..state });
        self.changed(self.inline_tail_push.load(Ordering::Acquire));
    }

    /// Records that the tail has moved: `used` bytes now lie between the tail and the head.
    pub(crate) fn set_used(&self, used: u64) {
        self.update(|state| SpaceUse { used, ..state });
        self.changed(true);
    }

    /// Records that the head has moved: `used` bytes now lie between the tail and the head, and
    /// `returned` bytes are no longer granted.
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

    /// Wakes all waiters after a shutdown, so that they check the state of the log.
    pub(crate) fn wake_all(&self) {
        self.queue.lock().wake_all();
        self.freed.notify_all();
    }

    /// Grants free bytes to waiters, after bytes have become free. If the free bytes do not suffice
    /// for all waiters and `may_ask` is `true`, the head waiter requests another tail push.
    fn changed(&self, may_ask: bool) {
        if self.is_contended() {
            let mut queue = self.queue.lock();
            if may_ask {
                queue.request_tail_push();
            }
            self.serve(&mut queue);
        }
    }

    /// Grants free bytes to the waiters in order (I5). Wakes the head waiter if it has to request a
    /// tail push (I6).
    fn serve(&self, queue: &mut WaitQueue) {
        mutate!(self.mutant, Mutant::SmallestFirst, {}, queue.sort_by_size());
        let mut batch_bytes =
            mutate!(self.mutant, Mutant::BatchNeverFree, self.batch_bytes, self.size_bytes);
        queue.serve(|bytes, urgency| {
            let left_bytes = if urgency == Urgency::Begin { batch_bytes } else { 0 };
            let is_taken = self.take_and_leave(bytes, left_bytes, urgency);
            if is_taken && urgency == Urgency::Begin {
                batch_bytes = 0;
            }
            is_taken
        });
        queue.wake_first();
        if queue.is_closed {
            self.freed.notify_all();
        }
        // The flag changes under the lock of the queue only. Load it first, so that its cache line
        // stays shared among its readers.
        let is_contended = queue.is_contended();
        if self.is_contended() != is_contended {
            self.contended.store(is_contended, Ordering::SeqCst);
        }
    }

    fn update(&self, change: impl Fn(SpaceUse) -> SpaceUse) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = change(SpaceUse::unpack(word));
            assert!(
                new.used <= self.size_bytes,
                "{} bytes used of {} (I1)",
                new.used,
                self.size_bytes
            );
            assert!(new.granted <= self.size_bytes - new.used, "{new:?} exceeds the log (I1)");
            assert!(new.used.is_multiple_of(2), "{} used bytes are not whole blocks", new.used);
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

    /// Takes `bytes` from the free space. If enough is free, also moves half of a cache's capacity
    /// to the cache of the calling thread's slot; if less is free, a half, a quarter and so on of
    /// that, down to another `bytes`. Returns `false` if `bytes` are not free.
    fn refill(&self, bytes: u64, urgency: Urgency) -> bool {
        let mut extra = self.cache_bytes / 2;
        while extra != 0 && extra >= bytes {
            if self.take_free(bytes + extra, Urgency::Begin) {
                self.give_back(extra);
                return true;
            }
            extra /= 2;
        }
        self.take_free(bytes, urgency)
    }

    fn take_free(&self, bytes: u64, urgency: Urgency) -> bool {
        self.take_and_leave(bytes, 0, urgency)
    }

    /// Takes `bytes` from the free space, and leaves at least `left_bytes` of it. Returns `false`,
    /// and takes nothing, if fewer are free.
    fn take_and_leave(&self, bytes: u64, left_bytes: u64, urgency: Urgency) -> bool {
        let limit = self.size_bytes - urgency.kept_back(self.size_bytes);
        let mut word = self.word.load(Ordering::SeqCst);
        loop {
            let SpaceUse { used, granted } = SpaceUse::unpack(word);
            let is_closed = word & CLOSED != 0 && urgency == Urgency::Begin;
            if is_closed || used + granted + bytes + left_bytes > limit {
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
        let waiter = SpaceWaiter::new(bytes, urgency);
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

    /// Moves the bytes of all caches to the free space, and then grants free bytes to the waiters
    /// in the queue.
    fn drain_and_serve(&self, queue: &mut WaitQueue) {
        self.drain();
        self.serve(queue);
    }

    /// Moves the bytes of all caches to the free space.
    pub(crate) fn drain(&self) {
        let cached: u64 = self.caches.iter().map(|cache| cache.swap(0, Ordering::SeqCst)).sum();
        if cached != 0 {
            self.update(|state| SpaceUse { granted: state.granted - cached, ..state });
        }
    }
}

/// Takes `bytes` from a cache and returns `true`, or takes nothing and returns `false` if the cache
/// has fewer.
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

/// Takes up to `bytes` from a cache. Returns the number of bytes taken.
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
