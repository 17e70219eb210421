//! The queue of threads that wait for log space.
//!
//! Owns: the order of the waiters, and waking only the waiter whose turn it is. Does **not** own
//! the space: [`Space`](super::LogSpace) serves the queue, and a thread that gives bytes back
//! serves the head waiter.
//!
//! ```text
//!             join                  serve: it has its bytes            wait returns
//!  (request) ───► in queue, asleep ─────────────────────► out of queue ─────────────►
//!                        │    ▲
//!                wakes   ▼    │ requested
//!                  requests a tail push (the head waiter only)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
use xfs_sync::AtomicU64;
use xfs_sync::{AtomicBool, Condvar, MutexGuard, Ordering, Volume};

use super::Urgency;

/// A thread that waits for log space.
pub(super) struct SpaceWaiter {
    pub(super) bytes: u64,
    pub(super) urgency: Urgency,
    /// Whether the waiter has its bytes and has left the queue. Written under the lock of the
    /// queue.
    served: AtomicBool<Volume>,
    wake: Condvar<Volume>,
    /// The number of the waiter in the order of arrival.
    #[cfg(test)]
    number: AtomicU64<Volume>,
}

impl SpaceWaiter {
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

    /// Sleeps until the waiter is served, has to request a tail push, or has to check whether the
    /// log is shut down.
    pub(super) fn sleep(&self, queue: &mut MutexGuard<'_, WaitQueue>) {
        self.wake.wait(queue);
        #[cfg(test)]
        {
            queue.wakeups += 1;
        }
    }
}

/// The waiters for log space in two queues. Chains that roll (`rolls`) are served before new
/// transactions (`begins`).
#[derive(Default)]
pub(super) struct WaitQueue {
    rolls: VecDeque<Arc<SpaceWaiter>>,
    begins: VecDeque<Arc<SpaceWaiter>>,
    /// Whether the head waiter has to request a tail push.
    must_request_push: bool,
    /// Whether new transactions get no bytes for now ([`LogSpace::close`](super::LogSpace::close)).
    pub(super) is_closed: bool,
    /// Number of times that a waiter has been woken.
    #[cfg(test)]
    pub(super) wakeups: u64,
    /// Number of waiters that have joined the queue since it was created.
    #[cfg(test)]
    joined: u64,
    /// The arrival numbers of the waiters that have been served, in the order of service.
    #[cfg(test)]
    pub(super) served: Vec<u64>,
}

impl WaitQueue {
    fn of(&mut self, urgency: Urgency) -> &mut VecDeque<Arc<SpaceWaiter>> {
        match urgency {
            Urgency::Begin => &mut self.begins,
            Urgency::Roll => &mut self.rolls,
        }
    }

    fn first(&self) -> Option<&Arc<SpaceWaiter>> {
        self.rolls.front().or_else(|| self.begins.front())
    }

    /// Returns whether a new request must first lock the queue, because a thread waits or the space
    /// is closed to new transactions.
    pub(super) fn is_contended(&self) -> bool {
        self.is_closed || self.first().is_some()
    }

    /// Returns whether a thread waits because too few bytes of log space are free. New transactions
    /// that wait only because the space is closed to them do not count.
    pub(super) fn has_waiters(&self) -> bool {
        !self.rolls.is_empty() || !self.is_closed && !self.begins.is_empty()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.begins.len()
    }

    /// Appends a waiter to the queue for its kind of request: chains that roll, or new
    /// transactions. If the waiter is the head waiter now, it has to request a tail push.
    pub(super) fn join(&mut self, waiter: &Arc<SpaceWaiter>) {
        #[cfg(test)]
        {
            self.joined += 1;
            waiter.number.store(self.joined, Ordering::Relaxed);
        }
        self.of(waiter.urgency).push_back(Arc::clone(waiter));
        self.must_request_push |= self.is_first(waiter);
    }

    /// Removes a waiter that gives up because the log is shut down.
    pub(super) fn leave(&mut self, waiter: &Arc<SpaceWaiter>) {
        self.of(waiter.urgency).retain(|waiting| !Arc::ptr_eq(waiting, waiter));
    }

    /// Takes the task of requesting a tail push. Returns `false` if the waiter is not the head
    /// waiter or no push has to be requested.
    pub(super) fn take_push_request(&mut self, waiter: &Arc<SpaceWaiter>) -> bool {
        self.is_first(waiter) && std::mem::take(&mut self.must_request_push)
    }

    fn is_first(&self, waiter: &Arc<SpaceWaiter>) -> bool {
        self.first().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    /// Serves the waiters in order, and wakes each waiter that is served. Ends at the first waiter
    /// for whose bytes `take` returns `false`.
    pub(super) fn serve(&mut self, mut take: impl FnMut(u64, Urgency) -> bool) {
        while let Some(first) = self.first().filter(|first| take(first.bytes, first.urgency)) {
            let urgency = first.urgency;
            let Some(served) = self.of(urgency).pop_front() else { return };
            #[cfg(test)]
            self.served.push(served.number.load(Ordering::Relaxed));
            served.served.store(true, Ordering::Relaxed);
            served.wake.notify_one();
        }
    }

    /// Gives the head waiter the task of requesting a tail push.
    pub(super) fn request_tail_push(&mut self) {
        self.must_request_push = true;
    }

    /// Wakes the head waiter if it has to request a tail push.
    pub(super) fn wake_first(&self) {
        if let Some(first) = self.first().filter(|_| self.must_request_push) {
            first.wake.notify_one();
        }
    }

    /// Sorts the waiting new transactions by the size of their requests, the smallest first. That
    /// order is wrong; it is the mutant (deliberate bug) `SmallestFirst`.
    #[cfg(test)]
    pub(super) fn sort_by_size(&mut self) {
        self.begins.make_contiguous().sort_by_key(|waiter| waiter.bytes);
    }

    /// Wakes all waiters.
    pub(super) fn wake_all(&self) {
        self.rolls.iter().chain(&self.begins).for_each(|waiter| waiter.wake.notify_one());
    }
}
