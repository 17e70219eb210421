use super::RangeSet;

#[track_caller]
fn check_new(ranges: &[(u64, u64)], expected: &[u64]) {
    let mut set = RangeSet::default();
    let new: Vec<u64> = ranges.iter().map(|&(start, end)| set.insert(start, end)).collect();
    assert_eq!(new, expected);
}

#[test]
fn range_set_counts_each_byte_once() {
    check_new(&[(0, 10), (0, 10)], &[10, 0]);
    check_new(&[(0, 10), (5, 15), (0, 15)], &[10, 5, 0]);
    check_new(&[(10, 20), (30, 40), (0, 50)], &[10, 10, 30]);
    check_new(&[(0, 10), (10, 20), (5, 15)], &[10, 10, 0]);
    check_new(&[(0, 50), (10, 20)], &[50, 0]);
    check_new(&[(7, 7)], &[0]);
}
