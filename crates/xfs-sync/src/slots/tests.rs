use super::Slots;
use crate::{AtomicU64, Ordering, Slot};

#[test]
fn thread_keeps_its_slot() {
    let slots = Slots::<AtomicU64<Slot>>::new(AtomicU64::default);
    let first = std::ptr::from_ref(slots.mine());
    assert!(std::ptr::eq(first, slots.mine()));
}

#[test]
fn sum_over_slots_includes_all_threads() {
    let slots = Slots::<AtomicU64<Slot>>::with_count(3, AtomicU64::default);
    assert_eq!(slots.iter().len(), 4);
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                for _ in 0..100 {
                    slots.mine().fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(slots.iter().map(|slot| slot.load(Ordering::Relaxed)).sum::<u64>(), 900);
}

#[test]
fn slot_count_is_a_power_of_two_within_limits() {
    for (asked, given) in [(0, 1), (1, 1), (5, 8), (64, 64), (usize::MAX, 64)] {
        assert_eq!(Slots::with_count(asked, || ()).iter().len(), given);
    }
}
