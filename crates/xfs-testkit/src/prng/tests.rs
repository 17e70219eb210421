use super::Prng;

#[test]
fn same_seed_gives_the_same_numbers() {
    let numbers = |seed| {
        let mut prng = Prng::new(seed);
        [prng.number(), prng.number(), prng.number()]
    };
    assert_eq!(numbers(7), numbers(7));
    assert_ne!(numbers(7), numbers(8));
}

#[test]
fn within_stays_in_its_range() {
    let mut prng = Prng::new(1);
    assert!((0..1000).all(|_| (3..9).contains(&prng.within(3..9))));
    assert_eq!(prng.within(5..5), 5);
    assert_eq!(prng.choose::<u8>(&[]), None);
}

#[test]
fn mutate_accepts_any_length() {
    let mut prng = Prng::new(1);
    for length in 0..64 {
        prng.mutate(&mut vec![0x55; length]);
    }
    let mut bytes = [0x55; 64];
    prng.mutate(&mut bytes);
    assert_ne!(bytes, [0x55; 64]);
}
