use core::cell::Cell;
use core::convert::Infallible;

use super::{not_above, not_above_near};

/// Searches the sorted `keys` with `not_above_near`, starting at index `guess`. Returns the number
/// of keys that are at most `target`, and the number of keys that were read.
fn near(keys: &[u32], guess: usize, target: u32) -> (usize, usize) {
    let looks = Cell::new(0);
    let key = |index: usize| {
        looks.set(looks.get() + 1);
        Ok::<_, Infallible>(keys[index])
    };
    let Ok(found) = not_above_near(keys.len(), guess, target, key);
    (found, looks.get())
}

#[test]
fn guess_does_not_change_the_result() {
    for count in 0..9 {
        let keys: Vec<u32> = (0..count).map(|index| 10 * index + 10).collect();
        for target in 0..=10 * count + 15 {
            let expected = keys.partition_point(|key| *key <= target);
            let key = |index: usize| Ok::<_, Infallible>(keys[index]);
            assert_eq!(not_above(keys.len(), target, key), Ok(expected));
            for guess in 0..keys.len() + 3 {
                assert_eq!(near(&keys, guess, target).0, expected, "{guess} for {target}");
            }
        }
    }
}

#[test]
fn good_guess_reads_two_keys() {
    let keys: Vec<u32> = (0..250).collect();
    assert_eq!(near(&keys, 99, 99), (100, 2));
    assert_eq!(near(&keys, 249, 400), (250, 1));
    assert!(near(&keys, 0, 99).1 > 2, "and a bad one searches");
}

#[test]
fn invalid_key_is_an_error() {
    let key = |index: usize| if index == 3 { Err(index) } else { Ok(index) };
    assert_eq!(not_above_near(5, 3, 4, key), Err(3));
    assert_eq!(not_above_near(5, 2, 4, key), Err(3));
}
