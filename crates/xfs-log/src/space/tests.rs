//! Tests of the queue of waiters for log space: a waiter wakes only when it is served, and waiters
//! are served in turn.

use std::sync::Arc;
use std::thread;

use xfs_sync::{AtomicU64, Ordering, Volume};

use super::{LogSpace, Urgency};
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
