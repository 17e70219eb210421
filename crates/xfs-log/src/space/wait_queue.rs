//! Those who wait for log space, in order.
//!
//! Owns: who is next, and waking him alone. Does **not** own the space: [`Space`](super::Space)
//! serves the line, and whoever gives something back does it for the one who waits.
//!
//! ```text
//!             join                  serve: he has his bytes            wait returns
//!  (asked for) ───► in line, asleep ─────────────────────► out of line ─────────────►
//!                        │    ▲
//!                wakes   ▼    │ asked
//!                  has the tail moved (the first in line only)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
use xfs_sync::AtomicU64;
use xfs_sync::{AtomicBool, Condvar, MutexGuard, Ordering, Volume};

use super::Urgency;

/// One who waits.
pub(super) struct Waiter {
    pub(super) bytes: u64,
    pub(super) urgency: Urgency,
    /// He has his bytes and stands in no line any more. Written under the lock of the line.
    served: AtomicBool<Volume>,
    wake: Condvar<Volume>,
    /// As which of all he has come.
    #[cfg(test)]
    number: AtomicU64<Volume>,
}

impl Waiter {
    pub(super) fn new(bytes: u64, urgency: Urgency) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            urgency,
            served: AtomicBool::new(false),
            wake: Condvar::new(),
            #[cfg(test)]
            number: AtomicU64::default(),
        })
    }

    pub(super) fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Sleeps until he is served, or has to ask, or has to look whether the log still works.
    pub(super) fn sleep(&self, queue: &mut MutexGuard<'_, WaitQueue>) {
        self.wake.wait(queue);
        #[cfg(test)]
        {
            queue.wakeups += 1;
        }
    }
}

/// The two lines, of which one goes first.
#[derive(Default)]
pub(super) struct WaitQueue {
    rolls: VecDeque<Arc<Waiter>>,
    begins: VecDeque<Arc<Waiter>>,
    /// The first in line has to ask for the tail to be moved.
    must_request_push: bool,
    /// See [`Space::close`](super::Space::close).
    pub(super) is_closed: bool,
    /// How often somebody has been woken.
    #[cfg(test)]
    pub(super) wakeups: u64,
    /// How many have come.
    #[cfg(test)]
    joined: u64,
    /// The numbers of those who have been served, in that order.
    #[cfg(test)]
    pub(super) served: Vec<u64>,
}

impl WaitQueue {
    fn of(&mut self, urgency: Urgency) -> &mut VecDeque<Arc<Waiter>> {
        match urgency {
            Urgency::Begin => &mut self.begins,
            Urgency::Roll => &mut self.rolls,
        }
    }

    fn first(&self) -> Option<&Arc<Waiter>> {
        self.rolls.front().or_else(|| self.begins.front())
    }

    /// Whether requests have to look at the line.
    pub(super) fn is_contended(&self) -> bool {
        self.is_closed || self.first().is_some()
    }

    /// Whether anybody waits for space, and not only for the log to be opened again.
    pub(super) fn has_waiters(&self) -> bool {
        !self.rolls.is_empty() || !self.is_closed && !self.begins.is_empty()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.begins.len()
    }

    /// Puts somebody at the end of his line. Whoever is first asks for the tail to be moved; the
    /// others need not do it again.
    pub(super) fn join(&mut self, waiter: &Arc<Waiter>) {
        #[cfg(test)]
        {
            self.joined += 1;
            waiter.number.store(self.joined, Ordering::Relaxed);
        }
        self.of(waiter.urgency).push_back(Arc::clone(waiter));
        self.must_request_push |= self.is_first(waiter);
    }

    /// Takes somebody out who does not wait any more.
    pub(super) fn leave(&mut self, waiter: &Arc<Waiter>) {
        self.of(waiter.urgency).retain(|waiting| !Arc::ptr_eq(waiting, waiter));
    }

    /// Whether it is this one's task to ask now. It is his only once.
    pub(super) fn take_push_request(&mut self, waiter: &Arc<Waiter>) -> bool {
        self.is_first(waiter) && std::mem::take(&mut self.must_request_push)
    }

    fn is_first(&self, waiter: &Arc<Waiter>) -> bool {
        self.first().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    /// Serves those in front for whom `take` gets what they wait for, and wakes them.
    pub(super) fn serve(&mut self, take: impl Fn(u64, Urgency) -> bool) {
        while let Some(first) = self.first().filter(|first| take(first.bytes, first.urgency)) {
            let urgency = first.urgency;
            let Some(served) = self.of(urgency).pop_front() else { return };
            #[cfg(test)]
            self.served.push(served.number.load(Ordering::Relaxed));
            served.served.store(true, Ordering::Relaxed);
            served.wake.notify_one();
        }
    }

    /// It may be worth asking for the tail to be moved once more.
    pub(super) fn request_tail_push(&mut self) {
        self.must_request_push = true;
    }

    /// Wakes the first in line if there is something for him to do.
    pub(super) fn wake_first(&self) {
        if let Some(first) = self.first().filter(|_| self.must_request_push) {
            first.wake.notify_one();
        }
    }

    /// Puts the smallest requests first, which is wrong.
    #[cfg(test)]
    pub(super) fn sort_by_size(&mut self) {
        self.begins.make_contiguous().sort_by_key(|waiter| waiter.bytes);
    }

    /// Wakes all.
    pub(super) fn wake_all(&self) {
        self.rolls.iter().chain(&self.begins).for_each(|waiter| waiter.wake.notify_one());
    }
}
