use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Waiter;
use crate::LockError;

#[test]
fn a_wakeup_before_the_sleep_is_kept() {
    let waiter = Waiter::new();
    waiter.wake();
    assert_eq!(waiter.sleep(None), Ok(()));
    waiter.reset();
    assert_eq!(waiter.sleep(Some(Instant::now())), Ok(()), "a limit is no error");
}

#[test]
fn it_ends_when_it_is_cancelled_or_its_time_is_over() {
    let waiter = Waiter::with_timeout(Duration::from_millis(1));
    assert_eq!(waiter.sleep(None), Err(LockError::TimedOut));
    let waiter = Waiter::new();
    std::thread::scope(|scope| {
        let other = Arc::clone(&waiter);
        let sleeper = scope.spawn(move || other.sleep(None));
        waiter.cancel();
        assert_eq!(sleeper.join().unwrap(), Err(LockError::Interrupted));
    });
    waiter.wake();
    assert_eq!(waiter.sleep(None), Err(LockError::Interrupted), "it stays cancelled");
}
