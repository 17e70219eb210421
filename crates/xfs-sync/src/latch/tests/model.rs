//! Explores schedules of the latch: no wakeup is lost and an exclusive owner excludes all others.

use std::sync::Arc;

use shuttle::thread;

use crate::schedules::explore;
use crate::{AtomicU64, Latch, Object, Ordering};

fn take_a_turn(task: usize, latch: &Latch<Object>, count: &AtomicU64<Object>) {
    if task.is_multiple_of(2) {
        let _held = latch.exclusive();
        for _ in 0..2 {
            let value = count.load(Ordering::Relaxed);
            count.store(value + 1, Ordering::Relaxed);
        }
    } else {
        let _held = latch.shared();
        assert_eq!(count.load(Ordering::Relaxed) % 2, 0);
    }
}

/// Lets owners and sharers compete for one latch. Checks I1 of `latch`: no wakeup is lost. A lost
/// wakeup would leave a task asleep, which shuttle reports as a deadlock.
#[test]
fn owners_and_sharers_all_finish() {
    explore(|| {
        let shared = Arc::new((Latch::<Object>::new(), AtomicU64::<Object>::new(0)));
        let start = |task| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || take_a_turn(task, &shared.0, &shared.1))
        };
        let tasks: Vec<_> = (0..5).map(start).collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(shared.1.load(Ordering::Relaxed), 6);
        assert!(shared.0.try_lock_exclusive());
    });
}
