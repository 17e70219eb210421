//! Smoke runs of whole images: the golden image, and mutated copies of it.

use xfs_hostile::{survey, volume};
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

#[test]
fn mutated_images() {
    run_limited("volume::mutated_images", crate::LIMITS, || {
        for round in 0..ROUNDS {
            println!("seed {:#x}", SEED + round);
            volume::volume(&volume::random_input(&mut Prng::new(SEED + round)));
        }
    });
}
