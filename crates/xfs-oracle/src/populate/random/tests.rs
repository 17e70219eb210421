use super::Random;

#[test]
fn a_seed_repeats_itself() {
    let bytes = |seed, length| Random::new(seed).bytes(length);
    assert_eq!(bytes(7, 100), bytes(7, 100));
    assert_ne!(bytes(7, 100), bytes(8, 100));
    assert_eq!(bytes(7, 0), []);
    assert_eq!(bytes(7, 13).len(), 13);
}
