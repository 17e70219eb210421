use super::Random;

#[test]
fn seed_repeats_its_numbers() {
    let bytes = |seed, length| Random::new(seed).bytes(length);
    assert_eq!(bytes(7, 100), bytes(7, 100));
    assert_ne!(bytes(7, 100), bytes(8, 100));
    assert_eq!(bytes(7, 0), []);
    assert_eq!(bytes(7, 13).len(), 13);
}
