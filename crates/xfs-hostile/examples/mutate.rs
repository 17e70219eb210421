//! Mutates whole images for as long as one likes:
//! `cargo run --release -p xfs-hostile --example mutate FIRST_SEED ROUNDS`. A seed whose image takes
//! longer than a second is printed, and so is the one that ends in a panic.

use std::time::{Duration, Instant};

use xfs_hostile::volume::{random_input, volume};
use xfs_testkit::Prng;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(first)), Some(Ok(rounds))) = (numbers.next(), numbers.next()) else {
        eprintln!("usage: mutate FIRST_SEED ROUNDS");
        return;
    };
    for seed in first..first.saturating_add(rounds) {
        let input = random_input(&mut Prng::new(seed));
        let start = Instant::now();
        if std::panic::catch_unwind(|| volume(&input)).is_err() {
            println!("seed {seed} panics");
        }
        if start.elapsed() > Duration::from_secs(1) {
            println!("seed {seed} takes {:?}", start.elapsed());
        }
    }
}
