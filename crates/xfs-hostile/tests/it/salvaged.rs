//! Salvages files of each hand-made attack. Survey and walk must end within limits of time and
//! memory.

use std::time::{Duration, Instant};

use xfs_hostile::attacks::{Attack, Outcome};
use xfs_hostile::damaged::salvaged;

use crate::check_attacks;

/// The longest time that salvaging files of one image may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Salvages files of the image of an attack. Returns a description of the failure if salvage takes
/// too long, or finds too few files in a volume that is still whole. Otherwise returns `None`.
fn problem_with(attack: &Attack) -> Option<String> {
    let start = Instant::now();
    let files = salvaged(&attack.image());
    let elapsed = start.elapsed();
    if elapsed > TIME_LIMIT {
        return Some(format!("{}: {elapsed:?}", attack.name));
    }
    // The files of the golden image are there still, but for those that the attack hides.
    let is_whole = !matches!(attack.outcome, Outcome::Refused | Outcome::Failed);
    (is_whole && files.is_none_or(|files| files < 100))
        .then(|| format!("{}: {files:?} files", attack.name))
}

fn check(group: &str) {
    check_attacks(&format!("salvaged::{group}"), group, problem_with);
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
