use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use seize::Collector;

use super::EpochArray;
use crate::Object;

/// A value whose type counts the instances that are not dropped yet.
struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    fn new(count: &Arc<AtomicUsize>, value: usize) -> Arc<Self> {
        count.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(Arc::clone(count), value))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn value_is_readable_until_it_is_replaced() {
    let count = Arc::default();
    let collector = Collector::new();
    let array = EpochArray::<_, Object, 4>::new(&collector);
    let read = |index| array.read(&collector, index, |value: &Arc<Counted>| value.1);
    assert_eq!(read(2), None);
    array.put(&collector, 2, Some(Counted::new(&count, 7)));
    assert_eq!([1, 2, 3].map(read), [None, Some(7), None]);
    // A value with another owner survives the loss of its slot.
    let kept = array.read(&collector, 2, Arc::clone).unwrap();
    array.put(&collector, 2, Some(Counted::new(&count, 8)));
    assert_eq!((kept.1, read(2)), (7, Some(8)));
    array.put(&collector, 2, None);
    assert_eq!(read(2), None);
    drop(array);
    drop(collector);
    assert_eq!(count.load(Ordering::SeqCst), 1, "all values but the kept one are dropped");
}

#[test]
fn value_is_not_dropped_while_it_is_read() {
    let count = Arc::default();
    let collector = Collector::new().batch_size(1);
    let array = EpochArray::<_, Object, 1>::new(&collector);
    array.put(&collector, 0, Some(Counted::new(&count, 1)));
    let seen = array.read(&collector, 0, |value| {
        let take_out = || array.put(&collector, 0, None);
        std::thread::scope(|scope| scope.spawn(take_out).join().unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 1, "dropped while it is read");
        value.1
    });
    assert_eq!(seen, Some(1));
}

/// Checks I2 of `epoch_array`: dropping the array releases the reference count of each slot once.
#[test]
fn values_are_dropped_with_the_array() {
    let count = Arc::default();
    let collector = Collector::new();
    let array = EpochArray::<_, Object, 3>::new(&collector);
    (0..3).for_each(|index| array.put(&collector, index, Some(Counted::new(&count, index))));
    drop(array);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn concurrent_put_and_read_are_safe() {
    const ROUNDS: usize = if cfg!(miri) { 50 } else { 20_000 };
    let count = Arc::default();
    let collector = Collector::new().batch_size(4);
    let array = EpochArray::<_, Object, 2>::new(&collector);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (array, collector, count) = (&array, &collector, &count);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let value = (round % 5 != 0).then(|| Counted::new(count, round));
                    array.put(collector, (round + thread) % 2, value);
                    let seen = array.read(collector, round % 2, Arc::clone);
                    assert!(seen.is_none_or(|seen| seen.1 < ROUNDS));
                }
            });
        }
    });
    drop(array);
    drop(collector);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
#[should_panic(expected = "I4")]
fn array_with_another_collector_panics() {
    let array = EpochArray::<u32, Object, 1>::new(&Collector::new());
    let other = [Collector::new(), Collector::new()];
    other.iter().for_each(|other| array.put(other, 0, None));
}
