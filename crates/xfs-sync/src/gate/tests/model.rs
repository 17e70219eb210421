//! Explores schedules of the gate: no thread is inside while it is closed, and no wakeup is lost.

use std::sync::Arc;

use shuttle::thread;

use crate::schedules::explore;
use crate::{AtomicU64, Object, Ordering};

use super::super::Gate;

const WRITERS: usize = 3;
const ROUNDS: u64 = 2;

/// Increments the count twice. While the count is odd, a thread is between the two increments.
fn change(count: &AtomicU64<Object>) {
    count.fetch_add(1, Ordering::Relaxed);
    count.fetch_add(1, Ordering::Relaxed);
}

/// Lets threads enter the gate and change a count while another thread closes the gate. Checks
/// I1 of `gate`: while the gate is closed, no thread is inside a change. A lost wakeup would show
/// as a deadlock.
#[test]
fn closed_gate_excludes_changes() {
    explore(|| {
        let shared = Arc::new((Gate::new(), AtomicU64::<Object>::new(0)));
        let writer = |task: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (gate, count) = &*shared;
                for _ in 0..ROUNDS {
                    // Task 0 stands for background work, which must not wait.
                    let inside = if task == 0 { gate.try_enter() } else { Some(gate.enter()) };
                    if inside.is_some() {
                        change(count);
                    }
                }
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let (gate, count) = &*shared;
        for _ in 0..ROUNDS {
            gate.close();
            let before = count.load(Ordering::Relaxed);
            thread::yield_now();
            assert_eq!((before % 2, count.load(Ordering::Relaxed)), (0, before));
            gate.open();
        }
        for writer in writers {
            writer.join().unwrap();
        }
        assert!(count.load(Ordering::Relaxed) >= 2 * ROUNDS * (WRITERS as u64 - 1));
    });
}
