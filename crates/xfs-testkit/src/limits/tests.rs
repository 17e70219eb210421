use std::panic::catch_unwind;

use super::{Limits, run_limited, run_with_threads};

const LIMITS: Limits = Limits { memory_bytes: 256 << 20, cpu_seconds: 2 };

#[test]
fn a_good_body_passes() {
    run_limited("limits::tests::a_good_body_passes", LIMITS, || {
        assert_eq!(vec![1_u8; 1 << 20].len(), 1 << 20);
    });
}

#[test]
fn too_much_memory_is_noticed() {
    check_fails("limits::tests::too_much_memory_is_noticed", || {
        let bytes = vec![1_u8; 300 << 20];
        assert_eq!(std::hint::black_box(bytes).len(), 300 << 20);
    });
}

#[test]
fn a_hang_is_noticed() {
    check_fails("limits::tests::a_hang_is_noticed", || {
        loop {
            std::hint::spin_loop();
        }
    });
}

#[test]
fn a_panic_is_noticed() {
    check_fails("limits::tests::a_panic_is_noticed", || panic!("on purpose"));
}

/// What the limit measures does not depend on how many threads have allocated: 64 MiB for each of
/// them would be more than there is.
#[test]
fn threads_that_allocate_take_no_memory_of_their_own() {
    run_limited("limits::tests::threads_that_allocate_take_no_memory_of_their_own", LIMITS, || {
        let barrier = std::sync::Barrier::new(16);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let bytes = std::hint::black_box(vec![1_u8; 1000]);
                    barrier.wait();
                    drop(bytes);
                });
            }
        });
        let peak_bytes = super::own_status("VmPeak:") << 10;
        // Stacks of 2 MiB, and the program.
        assert!(peak_bytes < 96 << 20, "{peak_bytes}");
    });
}

#[test]
fn so_many_threads_start_and_no_more() {
    run_with_threads("limits::tests::so_many_threads_start_and_no_more", |limit| {
        for most in [0, 1, 3] {
            limit.allow(most);
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let receiver = std::sync::Mutex::new(receiver);
            let started = std::thread::scope(|scope| {
                // Each stays until the sender is gone.
                let work = || drop(receiver.lock().map(|receiver| receiver.recv()));
                let spawn = |_: &u64| std::thread::Builder::new().spawn_scoped(scope, work).is_ok();
                let started = (0..5).take_while(spawn).count();
                drop(sender);
                started
            });
            assert_eq!(started as u64, most);
        }
    });
}

fn check_fails(test: &str, body: impl FnOnce() + std::panic::UnwindSafe) {
    let outcome = catch_unwind(|| run_limited(test, LIMITS, body));
    if std::env::var_os(super::MARK).is_some() {
        // In the limited process the body's end is the process's.
        outcome.unwrap_or_else(|_| std::process::exit(1));
        return;
    }
    assert!(outcome.is_err(), "the parent must notice");
}
