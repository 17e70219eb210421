use std::panic::catch_unwind;

use super::{Limits, run_limited, run_with_threads};

const LIMITS: Limits = Limits { memory_bytes: 256 << 20, cpu_seconds: 2 };

#[test]
fn body_within_the_limits_passes() {
    run_limited("limits::tests::body_within_the_limits_passes", LIMITS, || {
        assert_eq!(vec![1_u8; 1 << 20].len(), 1 << 20);
    });
}

#[test]
fn too_much_memory_fails_the_test() {
    check_fails("limits::tests::too_much_memory_fails_the_test", || {
        let bytes = vec![1_u8; 300 << 20];
        assert_eq!(std::hint::black_box(bytes).len(), 300 << 20);
    });
}

#[test]
fn hang_fails_the_test() {
    check_fails("limits::tests::hang_fails_the_test", || {
        loop {
            std::hint::spin_loop();
        }
    });
}

#[test]
fn panic_fails_the_test() {
    check_fails("limits::tests::panic_fails_the_test", || panic!("on purpose"));
}

/// Starts threads that allocate memory. Checks that they reserve no address space for arenas of
/// their own: if each had an arena of 64 MiB, the process would exceed the limit.
#[test]
fn allocating_threads_reserve_no_arenas() {
    run_limited("limits::tests::allocating_threads_reserve_no_arenas", LIMITS, || {
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
fn only_the_allowed_number_of_threads_starts() {
    run_with_threads("limits::tests::only_the_allowed_number_of_threads_starts", |limit| {
        for most in [0, 1, 3] {
            limit.allow(most);
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let receiver = std::sync::Mutex::new(receiver);
            let started = std::thread::scope(|scope| {
                // Each thread runs until the sender is dropped.
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
        // The limited process ends as the body ends.
        outcome.unwrap_or_else(|_| std::process::exit(1));
        return;
    }
    assert!(outcome.is_err(), "the parent must notice");
}
