#[cfg(shuttle)]
mod model;

#[cfg(not(shuttle))]
use std::sync::Barrier;

#[cfg(not(shuttle))]
use super::Latch;
use super::{EXCLUSIVE, Mode, WAITING};
#[cfg(not(shuttle))]
use crate::{AtomicU64, Object, Ordering};

#[test]
#[cfg(not(shuttle))]
fn latch_has_one_owner_or_many_sharers() {
    let latch = Latch::<Object>::new();
    latch.lock_exclusive();
    assert!(latch.is_locked_exclusive());
    assert!(!latch.try_lock_exclusive());
    assert!(!latch.try_lock_shared());
    latch.unlock_exclusive();
    assert!(!latch.is_locked_exclusive());
    let first = latch.shared();
    assert!(latch.try_lock_shared());
    assert!(!latch.try_lock_exclusive());
    latch.unlock_shared();
    drop(first);
    let alone = latch.exclusive();
    assert!(!latch.try_lock_shared());
    drop(alone);
    assert!(latch.try_lock_exclusive());
}

#[test]
fn word_decides_which_mode_can_acquire() {
    // The word, whether it can be acquired exclusively, and whether it can be shared.
    let cases = [
        (0, true, true),
        (1, false, true),
        (WAITING, true, true),
        (WAITING | 1, false, false),
        (EXCLUSIVE, false, false),
        (EXCLUSIVE | WAITING, false, false),
    ];
    for (word, exclusive, shared) in cases {
        assert_eq!(Mode::Exclusive.take(word).is_some(), exclusive, "{word:#x}");
        assert_eq!(Mode::Shared.take(word).is_some(), shared, "{word:#x}");
    }
    assert_eq!(Mode::Exclusive.take(WAITING), Some(WAITING | EXCLUSIVE), "waiters remain");
}

#[test]
#[cfg(not(shuttle))]
#[should_panic(expected = "not held exclusively")]
fn exclusive_unlock_of_a_free_latch_panics() {
    Latch::<Object>::new().unlock_exclusive();
}

#[test]
#[cfg(not(shuttle))]
#[should_panic(expected = "not shared")]
fn shared_unlock_of_an_exclusive_latch_panics() {
    let latch = Latch::<Object>::new();
    latch.lock_exclusive();
    latch.unlock_shared();
}

/// Checks that one thread can acquire the latch and another can release it, as transactions do.
#[test]
#[cfg(not(shuttle))]
fn latch_can_be_released_by_another_thread() {
    let latch = Latch::<Object>::new();
    latch.lock_exclusive();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(latch.exclusive()));
        scope.spawn(|| latch.unlock_exclusive());
        assert!(waiter.join().is_ok());
    });
    assert!(!latch.is_locked_exclusive());
}

/// Checks that an exclusive owner excludes all others. Owners increment a count twice, each time
/// with a load and a store. If two threads owned the latch at a time, an increment would be lost.
/// If a sharer held it together with an owner, the sharer would see an odd count.
#[test]
#[cfg(not(shuttle))]
fn owners_exclude_each_other_and_sharers() {
    const ROUNDS: u64 = 2000;
    let (latch, count) = (Latch::<Object>::new(), AtomicU64::<Object>::new(0));
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (latch, count, start) = (&latch, &count, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    if thread % 2 == 0 {
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
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 3 * 2 * ROUNDS);
    assert!(latch.try_lock_exclusive());
}

/// Checks that a thread that waits for shared mode gets the latch while exclusive owners come and
/// go, although each release wakes one exclusive waiter.
#[test]
#[cfg(not(shuttle))]
fn many_owners_do_not_starve_a_sharer() {
    const OWNERS: usize = 8;
    let (latch, stop) = (Latch::<Object>::new(), AtomicU64::<Object>::new(0));
    std::thread::scope(|scope| {
        for _ in 0..OWNERS {
            scope.spawn(|| {
                while stop.load(Ordering::Relaxed) == 0 {
                    drop(latch.exclusive());
                }
            });
        }
        for _ in 0..1000 {
            drop(latch.shared());
        }
        stop.store(1, Ordering::Relaxed);
    });
    assert!(latch.try_lock_exclusive());
}
