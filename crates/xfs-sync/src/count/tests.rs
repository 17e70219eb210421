use super::{Tally, counts, thread_counts};
use crate::{AtomicU32, Group, Mutex, Object, Ordering, RwLock, SetOnce, Slot, Volume};

#[test]
fn each_write_and_lock_is_counted_in_its_scope() {
    let before = thread_counts();
    let number = AtomicU32::<Object>::new(0);
    number.fetch_add(1, Ordering::Relaxed);
    number.store(1, Ordering::Relaxed);
    let _ = number.load(Ordering::Relaxed);
    AtomicU32::<Slot>::new(0).swap(1, Ordering::Relaxed);
    drop(Mutex::<(), Group>::new(()).lock());
    drop(RwLock::<(), Volume>::new(()).read());
    let cell = SetOnce::<u32, Volume>::new();
    cell.value_or_init(|| 1);
    cell.value_or_init(|| 2);
    let counted = thread_counts().since(&before);
    assert_eq!(counted.slot, Tally { writes: 1, locks: 0 });
    assert_eq!(counted.object, Tally { writes: 2, locks: 0 });
    assert_eq!(counted.group, Tally { writes: 0, locks: 1 });
    assert_eq!(counted.volume, Tally { writes: 1, locks: 1 });
}

#[test]
fn a_thread_that_ended_stays_in_the_sum() {
    let before = counts();
    std::thread::spawn(|| drop(Mutex::<(), Volume>::new(()).lock())).join().unwrap();
    assert!(counts().since(&before).volume.locks >= 1);
}
