//! Checks that each hand-made attack has its required outcome, in a process with limits.

use std::time::{Duration, Instant};

use xfs_hostile::attacks::{Attack, Outcome};
use xfs_hostile::survey;

use crate::check_attacks;

/// The longest time that opening and reading one image may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

fn check(group: &str) {
    check_attacks(&format!("attacks::{group}"), group, check_attack);
}

/// Opens the image of an attack and reads everything in it. Returns a description of the failure,
/// or `None` if the attack has its required outcome within the time limit.
fn check_attack(attack: &Attack) -> Option<String> {
    let start = Instant::now();
    let outcome = survey(attack.image());
    let is_slow = start.elapsed() > TIME_LIMIT;
    let is_met = match (&outcome, attack.outcome) {
        (Err(_), Outcome::Refused) | (_, Outcome::Harmless) => true,
        (Ok(survey), Outcome::Corrupt(structure)) => {
            survey.findings.iter().any(|finding| finding.structure == Some(structure))
        }
        (Ok(survey), Outcome::Failed) => {
            survey.findings.iter().any(|finding| finding.structure.is_none())
        }
        _ => false,
    };
    (is_slow || !is_met).then(|| {
        let found = match outcome {
            Ok(survey) => format!("{:?}", survey.findings.iter().take(4).collect::<Vec<_>>()),
            Err(error) => format!("refused: {error}"),
        };
        let (expected, elapsed) = (attack.outcome, start.elapsed());
        format!("{}: expected {expected:?}, found {found} after {elapsed:?}", attack.name)
    })
}

#[test]
fn superblock() {
    check("superblock");
}

#[test]
fn groups() {
    check("groups");
}

#[test]
fn inodes() {
    check("inodes");
}

#[test]
fn directories() {
    check("directories");
}

#[test]
fn attributes() {
    check("attributes");
}
