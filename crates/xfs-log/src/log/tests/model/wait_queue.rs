//! Model tests of the queue of waiters for log space. Waiters are served in turn, and no waiter is
//! left asleep or in the queue.

use std::sync::Arc;

use xfs_buffer::Error;

use xfs_sync::schedules::{check_found, explore};

use super::run;
use crate::health::Health;
use crate::mutant::{ActiveMutant, Mutant};
use crate::space::{LogSpace, Urgency};

const SIZE: u64 = 800;

/// Number of bytes of log space that the test takes at first. The test gives these bytes back
/// little by little, so that waiters can be served.
const TAKEN: u64 = 700;

/// Runs threads that request different numbers of bytes. Bytes are given back little by little,
/// until every request has been served. If `shuts_down` is `true`, the log is shut down instead,
/// and every request must fail.
fn wait(mutant: ActiveMutant, shuts_down: bool) {
    wait_in(LogSpace::new(SIZE, 2, u64::MAX, mutant), shuts_down);
}

fn wait_in(space: LogSpace, shuts_down: bool) {
    let space = Arc::new(space);
    space.leave_tail_pushes_to_threads();
    let health = Arc::new(Health::default());
    space.take(TAKEN, Urgency::Begin, &health, &|| {}).unwrap();
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for bytes in [200, 100, 50] {
        let (space, health) = (Arc::clone(&space), Arc::clone(&health));
        threads.push(Box::new(move || match space.take(bytes, Urgency::Begin, &health, &|| {}) {
            Ok(()) => space.give_back(bytes),
            Err(error) => assert!(shuts_down && matches!(error, Error::Shutdown), "{error}"),
        }));
    }
    let (giving, stopping) = (Arc::clone(&space), Arc::clone(&health));
    threads.push(Box::new(move || {
        if shuts_down {
            stopping.set_down();
            giving.wake_all();
        } else {
            (0..TAKEN / 50).for_each(|_| giving.give_back(50));
        }
    }));
    run(threads);
    assert!(!space.is_contended(), "a waiter was left in the queue");
    let served = space.served();
    assert!(served.is_sorted(), "served out of turn: {served:?}");
    space.drain();
    let left = if shuts_down { TAKEN } else { 0 };
    assert_eq!(space.in_use().granted, left, "everything has been given back");
}

#[test]
fn waiters_are_served_in_turn() {
    explore(|| wait(ActiveMutant::default(), false));
}

/// Returns a space whose slots have caches, so that new transactions wait for a batch.
fn with_batches(mutant: ActiveMutant) -> LogSpace {
    LogSpace::new(SIZE, 2, 1, mutant)
}

#[test]
fn waiters_are_served_in_turn_in_batches() {
    explore(|| wait_in(with_batches(ActiveMutant::default()), false));
}

#[test]
fn waiters_for_a_batch_give_up_after_a_shutdown() {
    explore(|| wait_in(with_batches(ActiveMutant::default()), true));
}

#[test]
fn batch_that_is_never_free_is_found() {
    check_found("deadlock", || {
        wait_in(with_batches(ActiveMutant::with(Mutant::BatchNeverFree)), false);
    });
}

/// A space is closed and opened while new transactions and a chain wait, and bytes are given back.
#[test]
fn waiters_for_a_batch_are_served_after_the_space_was_closed() {
    explore(|| {
        let space = Arc::new(with_batches(ActiveMutant::default()));
        space.leave_tail_pushes_to_threads();
        let health = Arc::new(Health::default());
        space.take(TAKEN, Urgency::Begin, &health, &|| {}).unwrap();
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (bytes, urgency) in [(200, Urgency::Begin), (50, Urgency::Begin), (100, Urgency::Roll)]
        {
            let (space, health) = (Arc::clone(&space), Arc::clone(&health));
            threads.push(Box::new(move || {
                space.take(bytes, urgency, &health, &|| {}).unwrap();
                space.give_back(bytes);
            }));
        }
        let giving = Arc::clone(&space);
        threads.push(Box::new(move || (0..TAKEN / 100).for_each(|_| giving.give_back(100))));
        let closing = Arc::clone(&space);
        threads.push(Box::new(move || {
            closing.close();
            closing.open();
        }));
        run(threads);
        assert!(!space.is_contended(), "a waiter was left in the queue");
        space.drain();
        assert_eq!(space.in_use().granted, 0, "everything has been given back");
    });
}

#[test]
fn waiters_give_up_after_a_shutdown() {
    explore(|| wait(ActiveMutant::default(), true));
}

#[test]
fn smallest_first_is_found() {
    check_found("out of turn", || wait(ActiveMutant::with(Mutant::SmallestFirst), false));
}

#[test]
fn asleep_before_looking_is_found() {
    check_found("deadlock", || wait(ActiveMutant::with(Mutant::AsleepBeforeLooking), false));
}

#[test]
fn waiter_left_in_the_queue_is_found() {
    check_found("left in the queue", || wait(ActiveMutant::with(Mutant::LeftBehind), true));
}
