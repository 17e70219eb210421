use std::panic::catch_unwind;

use super::{Limits, run_limited};

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

fn check_fails(test: &str, body: impl FnOnce() + std::panic::UnwindSafe) {
    let outcome = catch_unwind(|| run_limited(test, LIMITS, body));
    if std::env::var_os(super::MARK).is_some() {
        // In the limited process the body's end is the process's.
        outcome.unwrap_or_else(|_| std::process::exit(1));
        return;
    }
    assert!(outcome.is_err(), "the parent must notice");
}
