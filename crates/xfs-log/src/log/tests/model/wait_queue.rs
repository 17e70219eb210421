//! The line of those who wait for log space: served in turn, nobody left asleep, nobody left behind.

use std::sync::Arc;

use xfs_buffer::Error;

use super::{SCHEDULES, check_found, explore, run};
use crate::health::Health;
use crate::mutant::{ActiveMutant, Mutant};
use crate::space::{Space, Urgency};

const SIZE: u64 = 800;

/// What new transactions may have of it, all taken.
const TAKEN: u64 = 700;

/// Takers of different sizes, for each of whom there is room once enough has come back, little by
/// little; or all wait no longer, because the log is shut down.
fn wait(mutant: ActiveMutant, shuts_down: bool) {
    let space = Arc::new(Space::new(SIZE, 2, u64::MAX, mutant));
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
    assert!(!space.is_contended(), "somebody was left behind");
    let served = space.served();
    assert!(served.is_sorted(), "served out of turn: {served:?}");
    let left = if shuts_down { TAKEN } else { 0 };
    assert_eq!(space.in_use().granted, left, "everything has been given back");
}

#[test]
fn waiters_are_served_in_turn() {
    explore(SCHEDULES, || wait(ActiveMutant::default(), false));
}

#[test]
fn waiters_against_a_shutdown() {
    explore(SCHEDULES, || wait(ActiveMutant::default(), true));
}

#[test]
fn smallest_first() {
    check_found("out of turn", || wait(ActiveMutant::with(Mutant::SmallestFirst), false));
}

#[test]
fn asleep_before_looking() {
    check_found("deadlock", || wait(ActiveMutant::with(Mutant::AsleepBeforeLooking), false));
}

#[test]
fn left_behind() {
    check_found("left behind", || wait(ActiveMutant::with(Mutant::LeftBehind), true));
}
