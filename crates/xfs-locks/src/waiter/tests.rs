use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Waiter;
use crate::LockError;

#[test]
fn wakeup_before_the_sleep_is_kept() {
    let waiter = Waiter::new();
    waiter.wake();
    assert_eq!(waiter.sleep(None), Ok(()), "an earlier wakeup is kept (I1)");
    waiter.reset();
    assert_eq!(waiter.sleep(Some(Instant::now())), Ok(()), "a limit is not an error");
}

#[test]
fn wait_ends_when_cancelled_or_past_its_deadline() {
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
    assert_eq!(waiter.sleep(None), Err(LockError::Interrupted), "the waiter stays cancelled");
}
