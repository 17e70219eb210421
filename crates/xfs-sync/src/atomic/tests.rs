use super::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use crate::{Object, Ordering, Slot};

#[test]
fn operations_return_the_values_of_core_atomics() {
    let value = AtomicU32::<Object>::new(5);
    assert_eq!(value.fetch_add(2, Ordering::Relaxed), 5);
    assert_eq!(value.fetch_sub(3, Ordering::Relaxed), 7);
    assert_eq!(value.fetch_max(9, Ordering::Relaxed), 4);
    assert_eq!(value.fetch_or(6, Ordering::Relaxed), 9);
    assert_eq!(value.fetch_and(3, Ordering::Relaxed), 15);
    assert_eq!(value.swap(1, Ordering::Relaxed), 3);
    assert_eq!(value.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Acquire), Err(1));
    assert_eq!(value.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Acquire), Ok(1));
    value.store(u32::MAX, Ordering::Release);
    assert_eq!(value.load(Ordering::Acquire), u32::MAX);
}

#[test]
fn default_atomics_are_zero() {
    assert!(!AtomicBool::<Slot>::default().load(Ordering::Relaxed));
    assert_eq!(AtomicU64::<Slot>::default().load(Ordering::Relaxed), 0);
    assert_eq!(AtomicUsize::<Slot>::default().load(Ordering::Relaxed), 0);
}

#[test]
fn scope_parameter_adds_no_size() {
    assert_eq!(size_of::<AtomicU32<Object>>(), size_of::<u32>());
    assert_eq!(size_of::<AtomicBool<Object>>(), size_of::<bool>());
}
