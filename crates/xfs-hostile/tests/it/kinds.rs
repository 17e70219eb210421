//! Hostile volumes with realtime sections, metadata directories and zones, and of version 4:
//! hand-made attacks, and smoke runs of the fuzz target.

use std::time::{Duration, Instant};

use xfs_hostile::attacks::Outcome;
use xfs_hostile::kinds::{ATTACKS, kinds, kinds_written, random_input};
use xfs_hostile::{HostileKind, KindAttack};
use xfs_testkit::{Prng, run_limited};

/// The longest time that opening and reading one volume may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Number of mutated volumes. The fuzzer runs the same body without this limit.
const ROUNDS: u64 = 60;
const SEED: u64 = 0x5eed;

#[test]
fn sound_volumes_have_no_findings() {
    run_limited("kinds::sound_volumes_have_no_findings", crate::LIMITS, || {
        for kind in HostileKind::ALL {
            let survey = kind.volume().survey(true);
            let mut survey = survey.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            // Not each kind has them.
            let is_absent = |text: &str| text.starts_with("the volume has no parent pointers");
            survey.findings.retain(|finding| !is_absent(&finding.text));
            assert_eq!(survey.findings, [], "{kind:?}");
            assert_eq!(survey.scan_findings, 0, "{kind:?}");
            assert!(survey.files > 8 && survey.extents > 4, "{kind:?}: {survey:?}");
        }
    });
}

/// Reads the volume of an attack. Returns a description of the failure, or `None` if the attack has
/// its required outcome within the time limit.
fn problem_with(attack: &KindAttack) -> Option<String> {
    println!("{}", attack.name);
    let start = Instant::now();
    let outcome = attack.volume().survey(false);
    let is_met = match (&outcome, attack.outcome) {
        (Err(_), Outcome::Refused) | (_, Outcome::Harmless) => true,
        (Ok(survey), Outcome::Corrupt(structure)) => {
            survey.findings.iter().any(|finding| finding.structure == Some(structure))
        }
        (Ok(survey), Outcome::Failed) => !survey.findings.is_empty(),
        _ => false,
    };
    if is_met && start.elapsed() < TIME_LIMIT {
        return None;
    }
    let found = match outcome {
        Ok(survey) => format!("{:?}", survey.findings.iter().take(4).collect::<Vec<_>>()),
        Err(error) => format!("refused: {error}"),
    };
    let (kind, expected, elapsed) = (attack.kind, attack.outcome, start.elapsed());
    Some(format!("{kind:?}: {}: expected {expected:?}, found {found}, {elapsed:?}", attack.name))
}

#[test]
fn attacks_have_their_outcomes() {
    run_limited("kinds::attacks_have_their_outcomes", crate::LIMITS, || {
        let problems: Vec<String> = ATTACKS.iter().filter_map(problem_with).collect();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    });
}

#[test]
fn mutated_volumes() {
    run_limited("kinds::mutated_volumes", crate::LIMITS, || {
        for round in 0..ROUNDS {
            println!("seed {:#x}", SEED + round);
            kinds(&random_input(&mut Prng::new(SEED + round), round as u8));
        }
    });
}

#[test]
fn mutated_volumes_that_are_written() {
    run_limited("kinds::mutated_volumes_that_are_written", crate::LIMITS, || {
        for round in 0..ROUNDS {
            println!("seed {:#x}", SEED + round);
            kinds_written(&random_input(&mut Prng::new(SEED + round), round as u8));
        }
    });
}
