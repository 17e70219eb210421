use super::{AppendOnlyVec, VersionChain};
use crate::Volume;

#[test]
fn last_version_is_current_and_older_ones_stay_valid() {
    let chain = VersionChain::<_, Volume>::new(1);
    let first = chain.last();
    std::thread::scope(|scope| {
        for value in 2..6 {
            let chain = &chain;
            scope.spawn(move || chain.push(value));
        }
    });
    assert_eq!(*first, 1);
    let mut values: Vec<_> = chain.iter().copied().collect();
    assert_eq!(values.last(), Some(chain.last()));
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3, 4, 5]);
}

#[test]
fn elements_are_found_by_index_across_segments() {
    let list: AppendOnlyVec<_, Volume> = (0..3).collect();
    let first = list.get(0).unwrap();
    list.extend(3..3);
    list.extend(3..5);
    list.extend([5]);
    assert_eq!((*first, list.len()), (0, 6));
    assert!((0..6).all(|index| list.get(index) == Some(&index)));
    assert_eq!(list.get(6), None);
    assert!(list.iter().copied().eq(0..6));
    let none: AppendOnlyVec<u8, Volume> = [].into_iter().collect();
    assert!(none.is_empty());
}
