//! Smoke runs of whole images: the golden image, and mutated copies of it.

use xfs_hostile::{damaged, survey, volume};
use xfs_testkit::{Prng, golden, run_limited};

const SEED: u64 = 0x5eed;

/// Number of mutated images. The fuzzer runs the same body without this limit.
const ROUNDS: u64 = 200;

#[test]
fn golden_image_has_no_findings() {
    run_limited("volume::golden_image_has_no_findings", crate::LIMITS, || {
        let survey = survey(golden()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(survey.findings, []);
        assert_eq!(survey.scan_findings, 0);
        assert!(survey.rows > 700, "{survey:?}");
        assert!(survey.files > 1700, "{survey:?}");
        assert!(survey.inodes > 700, "{survey:?}");
        assert!(survey.extents > 800, "{survey:?}");
        assert!(survey.attributes > 130, "{survey:?}");
    });
}

/// Runs a target for whole images on `rounds` mutated images, in a process with limits. `test` is
/// the name of the calling test.
fn mutated(test: &str, rounds: u64, run: fn(&[u8])) {
    run_limited(test, crate::LIMITS, || {
        for round in 0..rounds {
            println!("seed {:#x}", SEED + round);
            run(&volume::random_input(&mut Prng::new(SEED + round)));
        }
    });
}

#[test]
fn mutated_images() {
    mutated("volume::mutated_images", ROUNDS, volume::volume);
}

#[test]
fn mutated_images_of_version_4() {
    run_limited("volume::mutated_images_of_version_4", crate::LIMITS, || {
        for round in 0..ROUNDS / 8 {
            println!("seed {:#x}", SEED + round);
            volume::version_4(&mut Prng::new(SEED + round));
        }
    });
}

#[test]
fn mutated_images_are_checked() {
    mutated("volume::mutated_images_are_checked", ROUNDS / 4, damaged::check);
}

#[test]
fn mutated_images_are_read_past_their_damage() {
    mutated("volume::mutated_images_are_read_past_their_damage", ROUNDS / 4, damaged::evidence);
}

#[test]
fn repair_of_mutated_images_is_planned() {
    mutated("volume::repair_of_mutated_images_is_planned", ROUNDS / 20, damaged::repair);
}

#[test]
fn mutated_images_are_salvaged() {
    mutated("volume::mutated_images_are_salvaged", ROUNDS / 20, damaged::salvage);
}
