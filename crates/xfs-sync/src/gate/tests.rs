#[cfg(shuttle)]
mod model;

#[cfg(not(shuttle))]
use super::Gate;

#[test]
#[cfg(not(shuttle))]
fn closed_gate_refuses_entry_until_opened() {
    let gate = Gate::new();
    drop(gate.try_enter().unwrap());
    gate.close();
    assert!(gate.is_closed());
    assert!(gate.try_enter().is_none());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(gate.enter()));
        gate.open();
        waiting.join().unwrap();
    });
    assert!(gate.try_enter().is_some());
}

/// Checks I2 and I3 of `gate`: the last thread that leaves wakes the closing thread. One thread
/// enters the gate and gives its guard to another thread, which drops it. The guard must decrement
/// the count that belongs to the thread that entered, although another thread drops it.
#[test]
#[cfg(not(shuttle))]
fn close_waits_for_threads_inside() {
    let gate = Gate::new();
    let inside = gate.enter();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| gate.close());
        while !gate.is_closed() {
            std::thread::yield_now();
        }
        assert!(!closing.is_finished());
        scope.spawn(move || drop(inside));
        closing.join().unwrap();
    });
    gate.open();
    assert!(gate.try_enter().is_some());
}
