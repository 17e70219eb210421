use super::RecursiveRwLock;
use crate::{AtomicBool, Object, Ordering};

/// Checks that a thread with a read guard gets a second one while a writer waits. If the second
/// request waited for the writer, both threads would wait forever.
#[test]
fn nested_read_succeeds_while_a_writer_waits() {
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
        // The writer waits by now or soon. Some of these reads overlap its wait.
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
