//! Runs mutated inputs through the library: whole images, or inputs of the named fuzz target.
//!
//! `cargo run --release -p xfs-hostile --example mutate FIRST_SEED ROUNDS [TARGET]`
//!
//! Prints every seed for which the library panics or takes longer than a second.

use std::time::{Duration, Instant};

use xfs_hostile::volume::{random_input, volume};
use xfs_hostile::{FuzzTarget, TARGETS};
use xfs_testkit::Prng;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().and_then(|argument| argument.parse::<u64>().ok());
    let (Some(first), Some(rounds)) = (number(), number()) else {
        eprintln!("usage: mutate FIRST_SEED ROUNDS [TARGET]");
        return;
    };
    let name = arguments.next();
    let target = TARGETS.iter().find(|target| Some(target.name) == name.as_deref());
    let seeds = target.map(|target| (target.seeds)()).unwrap_or_default();
    for seed in first..first.saturating_add(rounds) {
        let start = Instant::now();
        if std::panic::catch_unwind(|| run(seed, target, &seeds)).is_err() {
            println!("seed {seed} panics");
        }
        if start.elapsed() > Duration::from_secs(1) {
            println!("seed {seed} takes {:?}", start.elapsed());
        }
    }
}

fn run(seed: u64, target: Option<&FuzzTarget>, seeds: &[Vec<u8>]) {
    let mut prng = Prng::new(seed);
    let Some(target) = target else { return volume(&random_input(&mut prng)) };
    let mut input = prng.choose(seeds).cloned().unwrap_or_default();
    prng.mutate(&mut input);
    (target.run)(&input);
}
