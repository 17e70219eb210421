//! The committed seeds of the fuzz targets, in fuzz/seeds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use xfs_hostile::{FuzzTarget, TARGETS, WHOLE_IMAGES};
use xfs_testkit::run_limited;

/// The largest number of seeds that one target may have in the repository.
const MOST_FILES: usize = 30;
/// The largest sum of the lengths of one target's seeds in the repository, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// A fuzz target of the crate `fuzz`: its name and its body.
type Target = (&'static str, fn(&[u8]));

/// Returns all targets, those for structures and those for whole images.
fn targets() -> impl Iterator<Item = Target> {
    TARGETS.iter().chain(WHOLE_IMAGES).map(|target| (target.name, target.run))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

/// Returns the committed seeds of a target, in the order of their names.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder().join(target)).expect("every target has a folder of seeds");
    let mut seeds: Vec<_> = files
        .map(|file| {
            let path = file.expect("the folder can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read(path).expect("a seed is a file"))
        })
        .collect();
    seeds.sort();
    seeds
}

fn run_seeds(test: &str, targets: &[FuzzTarget]) {
    run_limited(test, crate::LIMITS, || {
        for target in targets {
            for (file, seed) in seeds(target.name) {
                println!("{}/{file}", target.name);
                (target.run)(&seed);
            }
        }
    });
}

#[test]
fn every_committed_seed_of_a_structure_runs() {
    run_seeds("corpus::every_committed_seed_of_a_structure_runs", TARGETS);
}

#[test]
fn every_committed_seed_of_a_volume_runs() {
    run_seeds("corpus::every_committed_seed_of_a_volume_runs", WHOLE_IMAGES);
}

#[test]
fn each_target_has_few_small_and_different_seeds() {
    for (name, _) in targets() {
        let seeds = seeds(name);
        let bytes: usize = seeds.iter().map(|(_, seed)| seed.len()).sum();
        let different: BTreeSet<_> = seeds.iter().map(|(_, seed)| seed).collect();
        assert!((1..=MOST_FILES).contains(&seeds.len()), "{name}: {} files", seeds.len());
        assert!(bytes <= MOST_BYTES, "{name}: {bytes} bytes");
        assert_eq!(different.len(), seeds.len(), "{name}");
    }
}

/// Checks that the committed seeds of each target for a structure include a valid structure. So a
/// fuzzer need not find the format by chance.
#[test]
fn each_structure_has_a_valid_seed() {
    for target in TARGETS {
        let valid = (target.seeds)();
        let has_valid = seeds(target.name).iter().any(|(_, seed)| valid.contains(seed));
        assert!(has_valid, "{} has no valid seed", target.name);
    }
}

#[test]
fn every_folder_of_seeds_belongs_to_a_target() {
    for folder in fs::read_dir(folder()).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(targets().any(|(target, _)| target == name), "{name} is no target");
    }
}
