use super::SetOnce;
use crate::Volume;

#[test]
fn first_value_is_kept() {
    let cell = SetOnce::<u32, Volume>::new();
    assert_eq!(cell.value(), None);
    assert_eq!(cell.set(1), Ok(()));
    assert_eq!(cell.set(2), Err(2));
    assert_eq!(cell.value(), Some(&1));
    assert_eq!(*cell.value_or_init(|| 3), 1);
}

#[test]
fn concurrent_initialisers_agree_on_one_value() {
    let cell = SetOnce::<usize, Volume>::new();
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let cell = &cell;
        let threads: Vec<_> =
            (0..8).map(|index| scope.spawn(move || *cell.value_or_init(|| index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|value| Some(value) == cell.value()));
}
