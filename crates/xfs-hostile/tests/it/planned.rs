//! Plans the repair of each hand-made attack. Planning must end within limits of time and memory,
//! with a plan or a refusal in words.

use std::time::{Duration, Instant};

use xfs_hostile::attacks::Attack;
use xfs_hostile::damaged::plan;

use crate::check_attacks;

/// The longest time that the planning of one image's repair may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Plans the repair of the image of an attack, with and without rules that discard something.
/// Returns a description of the failure, or `None` if both calls end in time and return a text: a
/// plan or the reason for a refusal.
fn problem_with(attack: &Attack) -> Option<String> {
    for allow_loss in [false, true] {
        let start = Instant::now();
        let planned = plan(attack.image(), allow_loss);
        let elapsed = start.elapsed();
        if elapsed > TIME_LIMIT {
            return Some(format!("{}: {elapsed:?}", attack.name));
        }
        let (Ok(text) | Err(text)) = planned;
        if text.is_empty() {
            return Some(format!("{}: neither a plan nor a reason", attack.name));
        }
    }
    None
}

fn check(group: &str) {
    check_attacks(&format!("planned::{group}"), group, problem_with);
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
