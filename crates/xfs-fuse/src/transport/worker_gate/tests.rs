use std::sync::mpsc::channel;
use std::thread;

use super::WorkerGate;

#[test]
fn worker_that_leaves_admits_the_next() {
    let worker_gate = WorkerGate::new(2);
    let (first, second) = (worker_gate.enter(), worker_gate.enter());
    let (entered, entries) = channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let entered = entered.clone();
            let worker_gate = &worker_gate;
            scope.spawn(move || {
                let _place = worker_gate.enter();
                entered.send(()).unwrap();
            });
        }
        assert!(entries.try_recv().is_err());
        drop(first);
        // The admitted worker leaves, which admits the other one.
        entries.recv().unwrap();
        entries.recv().unwrap();
    });
    drop(second);
    drop((worker_gate.enter(), worker_gate.enter()));
}
