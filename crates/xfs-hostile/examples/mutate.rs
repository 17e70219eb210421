//! Runs mutated inputs through the library: whole images, or inputs of the named fuzz target.
//!
//! `cargo run --release -p xfs-hostile --example mutate FIRST_SEED ROUNDS [TARGET]`
//!
//! Prints every seed for which the library panics or takes longer than a second.

use std::time::{Duration, Instant};

use xfs_hostile::volume::random_input;
use xfs_hostile::{FuzzTarget, TARGETS, WHOLE_IMAGES};
use xfs_testkit::Prng;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().and_then(|argument| argument.parse::<u64>().ok());
    let (Some(first), Some(rounds)) = (number(), number()) else {
        eprintln!("usage: mutate FIRST_SEED ROUNDS [TARGET]");
        return;
    };
    let name = arguments.next();
    let name = name.as_deref().unwrap_or("volume");
    let is_named = |target: &&FuzzTarget| target.name == name;
    let structure = TARGETS.iter().find(is_named);
    let seeds = structure.map(|target| (target.seeds)()).unwrap_or_default();
    let Some(target) = structure.or_else(|| WHOLE_IMAGES.iter().find(is_named)) else {
        eprintln!("there is no fuzz target {name}");
        return;
    };
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

/// Runs a target on a mutated seed. A target for whole images has no seeds: each of its inputs is a
/// random list of changes of the golden image.
fn run(seed: u64, target: &FuzzTarget, seeds: &[Vec<u8>]) {
    let mut prng = Prng::new(seed);
    let Some(mut input) = prng.choose(seeds).cloned() else {
        return (target.run)(&random_input(&mut prng));
    };
    prng.mutate(&mut input);
    (target.run)(&input);
}
