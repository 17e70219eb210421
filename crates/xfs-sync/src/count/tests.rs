use super::{Tally, counts, thread_counts, volume_places};
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
fn volume_writes_are_counted_by_source_location() {
    let here = |line: u32| format!("{}:{line}", file!());
    let (number, other) = (AtomicU32::<Volume>::new(0), AtomicU32::<Object>::new(0));
    std::thread::spawn(move || {
        number.fetch_add(1, Ordering::Relaxed);
        for _ in 0..3 {
            (number.store(2, Ordering::Relaxed), other.store(2, Ordering::Relaxed));
        }
    })
    .join()
    .unwrap();
    let (lock, line) = (RwLock::<(), Volume>::new(()), line!());
    drop((lock.read(), lock.read()));
    let places = volume_places();
    let counted = [line - 7, line - 5, line + 1].map(|line| places.get(&here(line)).copied());
    assert_eq!(counted, [Some(1), Some(3), Some(2)]);
}

#[test]
fn counts_of_an_ended_thread_stay_in_the_sum() {
    let before = counts();
    std::thread::spawn(|| drop(Mutex::<(), Volume>::new(()).lock())).join().unwrap();
    assert!(counts().since(&before).volume.locks >= 1);
}
