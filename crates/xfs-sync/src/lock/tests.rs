use std::time::Duration;

use super::{Condvar, Mutex, RwLock, WaitTimeout};
use crate::{Object, Volume};

#[test]
fn mutex_admits_one_thread_at_a_time() {
    let total = Mutex::<u64, Object>::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    *total.lock() += 1;
                }
            });
        }
    });
    let guard = total.lock();
    assert!(total.try_lock().is_none());
    drop(guard);
    assert_eq!(total.into_inner(), 4000);
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let lock = RwLock::<u32, Object>::new(1);
    let first = lock.read();
    assert_eq!(lock.try_read().map(|guard| *guard), Some(1));
    assert!(lock.try_write().is_none());
    drop(first);
    *lock.write() = 2;
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn waiter_is_notified_or_times_out() {
    let ready = Mutex::<bool, Volume>::new(false);
    let changed = Condvar::<Volume>::new();
    let outcome = changed.wait_for(&mut ready.lock(), Duration::from_millis(1));
    assert_eq!(outcome, WaitTimeout::TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            *ready.lock() = true;
            changed.notify_all();
        });
        let mut guard = ready.lock();
        while !*guard {
            changed.wait(&mut guard);
        }
    });
}
