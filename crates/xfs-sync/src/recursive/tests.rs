use super::RecursiveRwLock;
use crate::{AtomicBool, Object, Ordering};

/// A reader that comes again while a writer waits gets in, or both would wait for ever.
#[test]
fn a_reader_may_come_again_behind_a_writer() {
    let lock = RecursiveRwLock::<u32, Object>::new(1);
    let writing = AtomicBool::<Object>::new(false);
    let first = lock.read();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writing.store(true, Ordering::Release);
            *lock.write() = 2;
        });
        while !writing.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // The writer waits by now, or soon: at some of these it does.
        for _ in 0..10_000 {
            assert_eq!(*lock.read(), 1);
            std::thread::yield_now();
        }
        drop(first);
    });
    assert_eq!(*lock.read(), 2);
    assert!(lock.try_read().is_some());
    let writer = lock.write();
    assert!(lock.try_read().is_none());
    drop(writer);
}
