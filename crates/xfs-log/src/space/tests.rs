//! Tests of the queue of waiters for log space: a waiter wakes only when it is served, and waiters
//! are served in turn.

use std::sync::Arc;
use std::thread;

use xfs_sync::{AtomicU64, Ordering, Volume};

use super::{BATCH_SHARE, LogSpace, Urgency};
use crate::health::Health;
use crate::mutant::ActiveMutant;

const THREADS: u64 = 32;

/// Number of bytes of log space that each thread requests.
const BYTES: u64 = 64;

/// Returns a log space in which a request of a new transaction does not fit, and the health of a
/// log that is not shut down.
fn full() -> (LogSpace, Health) {
    let space = LogSpace::new(4 * THREADS * BYTES, 4, u64::MAX, ActiveMutant::default());
    space.leave_tail_pushes_to_threads();
    let health = Health::default();
    space.take(space.size_bytes() / 8 * 7, Urgency::Begin, &health, &|| {}).unwrap();
    (space, health)
}

/// Waits until `count` new transactions wait for space.
fn await_waiting(space: &LogSpace, count: u64) {
    while (space.waiting() as u64) < count {
        thread::yield_now();
    }
}

fn wakeups(space: &LogSpace) -> u64 {
    space.queue.lock().wakeups
}

/// Checks I5 of `xfs_log::space` (a waiter wakes only when it is served) and I3 of `xfs_log::space`
/// (no byte stays in a cache while a thread waits).
#[test]
fn waiter_wakes_once_however_often_bytes_come_free() {
    let (space, health) = full();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (space, health) = (&space, &health);
            scope.spawn(|| space.take(BYTES, Urgency::Begin, health, &|| {}).unwrap());
        }
        await_waiting(&space, THREADS);
        for _ in 0..THREADS * BYTES {
            space.give_back(1);
        }
    });
    assert!(!space.is_contended());
    assert!(wakeups(&space) <= THREADS, "{} of {THREADS}", wakeups(&space));
}

/// Checks I6 of `xfs_log::space`: only the first of the waiters requests a push, once for each move
/// of the tail.
#[test]
fn only_the_head_waiter_requests_a_tail_push() {
    let (space, health) = full();
    let asked = AtomicU64::<Volume>::default();
    thread::scope(|scope| {
        for waiting in 1..=THREADS {
            let (space, health, asked) = (&space, &health, &asked);
            let ask = || _ = asked.fetch_add(1, Ordering::SeqCst);
            scope.spawn(move || space.take(BYTES, Urgency::Begin, health, &ask).unwrap());
            await_waiting(space, waiting);
        }
        while asked.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // Checkpoints that become durable do this. The head waiter then requests the next push.
        for _ in 0..THREADS {
            let before = asked.load(Ordering::SeqCst);
            space.set_used(0);
            while asked.load(Ordering::SeqCst) == before {
                thread::yield_now();
            }
            space.give_back(BYTES);
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1 + THREADS);
    assert!(wakeups(&space) <= 2 * THREADS, "{} of {THREADS}", wakeups(&space));
}

/// Checks I2 of `xfs_log::space`: log space that a slot keeps in its cache counts as granted until
/// the caches are drained.
#[test]
fn cached_bytes_count_as_granted_until_they_are_drained() {
    let space = LogSpace::new(1 << 20, 1, 1, ActiveMutant::default());
    space.take(100, Urgency::Begin, &Health::default(), &|| {}).unwrap();
    let granted = space.in_use().granted;
    space.give_back(100);
    assert_eq!(space.in_use().granted, granted);
    space.drain();
    assert_eq!(space.in_use().granted, 0);
}

/// Checks I5 of `xfs_log::space`: new transactions that wait are served together, when a batch is
/// free beside the first request. A chain is served as soon as its bytes are free.
#[test]
fn waiting_transactions_are_served_together_and_chains_at_once() {
    const WAITERS: u64 = 8;
    let space = LogSpace::new(1 << 20, 1, 1, ActiveMutant::default());
    space.leave_tail_pushes_to_threads();
    let health = Health::default();
    let batch = space.size_bytes() / BATCH_SHARE;
    let taken = space.size_bytes() / 8 * 7;
    space.take(taken, Urgency::Begin, &health, &|| {}).unwrap();
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| space.take(BYTES, Urgency::Begin, &health, &|| {}).unwrap());
        }
        await_waiting(&space, WAITERS);
        space.release(batch + BYTES - 1);
        assert_eq!(space.waiting() as u64, WAITERS);
        assert!(space.queue.lock().has_waiters());
        let chain =
            scope.spawn(|| space.take(space.size_bytes() / 8, Urgency::Roll, &health, &|| {}));
        chain.join().unwrap().unwrap();
        space.release(space.size_bytes() / 8 + 1);
        assert_eq!(space.waiting(), 0, "all are served by one release");
    });
    assert!(!space.is_contended());
}

/// Checks that threads which wait in a full log do not pass the bytes of one request from hand to
/// hand: most of their transactions write nothing that the volume shares.
#[cfg(feature = "count")]
#[test]
fn transactions_in_a_full_log_rarely_write_shared_memory() {
    const UNIT: u64 = 16 << 10;
    const LOGGED: u64 = 350;
    const TRANSACTIONS: u64 = 20_000;
    const PUSHED: u64 = 128 << 10;
    /// The least number of transactions for each write.
    const BUDGET: u64 = 64;
    let space = LogSpace::new(4 << 20, 4, UNIT, ActiveMutant::default());
    let health = Health::default();
    let logged = std::sync::Mutex::new(0);
    // Each push of the tail frees a little.
    let push = || {
        let mut logged = logged.lock().unwrap();
        let freed = PUSHED.min(*logged);
        *logged -= freed;
        space.release(freed);
    };
    let work = || {
        let before = xfs_sync::thread_counts().volume.total();
        for _ in 0..TRANSACTIONS {
            space.take(UNIT, Urgency::Begin, &health, &push).unwrap();
            *logged.lock().unwrap() += LOGGED;
            space.give_back(UNIT - LOGGED);
        }
        xfs_sync::thread_counts().volume.total() - before
    };
    let writes: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(space.waits() > 0, "the log was never full");
    assert!(writes * BUDGET <= 4 * TRANSACTIONS, "{writes} in {} transactions", 4 * TRANSACTIONS);
}

/// Checks that the largest request of a new transaction is served when nothing else is granted.
#[test]
fn batch_does_not_keep_the_largest_request_waiting() {
    let space = LogSpace::new(1 << 20, 1, 1, ActiveMutant::default());
    space.leave_tail_pushes_to_threads();
    let health = Health::default();
    space.take(space.size_bytes() / 8 * 7, Urgency::Begin, &health, &|| {}).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| space.take(space.size_bytes() / 2, Urgency::Begin, &health, &|| {}));
        await_waiting(&space, 1);
        space.give_back(space.size_bytes() / 8 * 7);
    });
    assert_eq!(space.in_use().granted, space.size_bytes() / 2);
}

/// Checks that a request takes what is free, and keeps less for its slot than usual, before it
/// waits.
#[test]
fn cache_is_refilled_from_little_space() {
    let space = LogSpace::new(1 << 20, 1, 1, ActiveMutant::default());
    let health = Health::default();
    let left = 16 * BYTES;
    space.take(space.size_bytes() / 8 * 7 - left, Urgency::Begin, &health, &|| {}).unwrap();
    space.drain();
    for _ in 0..left / BYTES {
        space.take(BYTES, Urgency::Begin, &health, &|| {}).unwrap();
    }
    assert_eq!(space.waits(), 0);
    assert_eq!(space.in_use().granted, space.size_bytes() / 8 * 7);
}

/// Checks that the task of requesting a push passes to the next waiter if the head waiter is served
/// before it has taken the task.
#[test]
fn push_request_passes_to_the_next_waiter_when_the_first_is_served() {
    let (space, health) = full();
    let asked = AtomicU64::<Volume>::default();
    thread::scope(|scope| {
        for waiting in 1..=2 {
            let (space, health, asked) = (&space, &health, &asked);
            let ask = || _ = asked.fetch_add(1, Ordering::SeqCst);
            scope.spawn(move || space.take(BYTES, Urgency::Begin, health, &ask).unwrap());
            await_waiting(space, waiting);
        }
        while asked.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let mut queue = space.queue.lock();
        queue.request_tail_push();
        space.serve(&mut queue);
        space.update(|state| super::SpaceUse { granted: state.granted - BYTES, ..state });
        space.serve(&mut queue);
        drop(queue);
        while asked.load(Ordering::SeqCst) == 1 {
            thread::yield_now();
        }
        space.give_back(BYTES);
    });
}

#[test]
fn rolling_chain_is_served_first_and_while_the_space_is_closed() {
    let (space, health) = full();
    // Take all that chains may have, except half of one request.
    let left = space.size_bytes() / 8 - BYTES / 2;
    space.take(left, Urgency::Roll, &health, &|| {}).unwrap();
    space.close();
    let served = Arc::new(std::sync::Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for urgency in [Urgency::Begin, Urgency::Roll] {
            let (space, health, served) = (&space, &health, Arc::clone(&served));
            scope.spawn(move || {
                space.take(BYTES, urgency, health, &|| {}).unwrap();
                served.lock().unwrap().push(urgency);
            });
            while !space.is_contended()
                || space.queue.lock().has_waiters() != (urgency == Urgency::Roll)
            {
                thread::yield_now();
            }
            await_waiting(space, 1);
        }
        space.release(left);
        while served.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        space.release(2 * BYTES);
        assert_eq!(space.waiting(), 1);
        space.open();
    });
    assert_eq!(*served.lock().unwrap(), [Urgency::Roll, Urgency::Begin]);
}
