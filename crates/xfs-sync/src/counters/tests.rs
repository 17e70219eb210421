use super::SlotCounters;

#[test]
fn sums_include_the_additions_of_all_threads() {
    let counters = SlotCounters::<2>::new();
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let counters = &counters;
            scope.spawn(move || (0..100).for_each(|_| counters.add(1, thread)));
        }
    });
    counters.add(2, 1);
    assert_eq!((counters.sum(0), counters.sum(1), counters.sum(2)), (0, 1000, 0));
}
