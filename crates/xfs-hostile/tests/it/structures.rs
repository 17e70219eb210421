//! A smoke run of each fuzz target for a structure.

use std::collections::BTreeSet;

use xfs_hostile::{FuzzTarget, TARGETS, WHOLE_IMAGES};
use xfs_testkit::{Prng, run_limited};

/// Number of mutated inputs per target. The fuzzer runs the same bodies without this limit.
const ROUNDS: usize = 3000;

const SEED: u64 = 0x5eed;

fn check(name: &str) {
    let test = format!("structures::{name}");
    run_limited(&test, crate::LIMITS, || {
        TARGETS.iter().filter(|target| target.name == name).for_each(smoke);
    });
}

fn smoke(target: &FuzzTarget) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has seeds", target.name);
    let mut prng = Prng::new(SEED);
    (target.run)(&[]);
    for seed in &seeds {
        (target.run)(seed);
    }
    for round in 0..ROUNDS {
        let mut input = prng.choose(&seeds).cloned().unwrap_or_default();
        match round % 16 {
            // Truncated.
            0 => input.truncate(prng.within(0..input.len())),
            // Random bytes after a valid start.
            1 => {
                let start = prng.within(0..input.len());
                input.iter_mut().skip(start).for_each(|byte| *byte = prng.number() as u8);
            }
            // The address is kept. Otherwise every block would be misplaced.
            _ => prng.mutate(input.get_mut(8..).unwrap_or_default()),
        }
        (target.run)(&input);
    }
}

/// Checks that the crate `fuzz` has exactly the targets of this crate.
#[test]
fn fuzz_crate_has_every_target() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stem = |file: std::fs::DirEntry| file.path().file_stem().map(|stem| stem.to_owned());
    let files: BTreeSet<_> = files.filter_map(stem).collect();
    let targets = TARGETS.iter().chain(WHOLE_IMAGES).map(|target| target.name);
    assert_eq!(files, targets.map(Into::into).collect());
}

macro_rules! smoke_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_smoke_test() {
            let run = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(run));
        }
    };
}

smoke_tests! {
    superblock agf agi agfl btree inode directory_data directory_index directory_free
    directory_short attr attr_remote attr_short symlink dquots access_list log_record log_item recovery container
    partition_table
    metadump realtime_superblock realtime_space realtime_tree
}
