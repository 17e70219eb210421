//! Runs of this project's own tests that print how many cases they have judged.

use super::record::RunResult;
use crate::command;
use crate::error::Error;
use crate::oracles;
use crate::report::Report;

/// The seeds of a run without `--seeds`.
const CRASH_SEEDS: &str = "0..30";
const DAMAGE_SEEDS: &str = "0..1";

/// Damages volumes, and compares the checker with xfs_repair.
pub(super) fn damage(seeds: Option<&str>) -> Result<RunResult, Error> {
    let (mut result, lines) = run(&["damage"], seeds.unwrap_or(DAMAGE_SEEDS))?;
    let tally = lines.iter().filter_map(|line| Tally::of(line)).fold(Tally::default(), Tally::sum);
    let missed = lines.iter().filter(|line| line.starts_with("missed: ")).count() as u64;
    let Tally { both, ours, theirs, none } = tally;
    (result.passed, result.failed) = (both + ours + theirs + none - missed, missed);
    result.note = format!(
        "noticed by both {both}, only by check {ours}, only by xfs_repair {theirs}, by none {none}"
    );
    Ok(result)
}

/// Checks recovered power cuts with the checker alone.
pub(super) fn crash_states(seeds: Option<&str>) -> Result<RunResult, Error> {
    let arguments = ["crash", "--", "recovered_crash_states"];
    let (mut result, lines) = run(&arguments, seeds.unwrap_or(CRASH_SEEDS))?;
    result.note = format!("{} histories", result.passed);
    result.passed = lines.iter().filter_map(|line| states_of(line)).sum();
    Ok(result)
}

/// Runs a test of `xfs-oracle` in its long form. Returns the counts of its trials, and its lines.
fn run(test: &[&str], seeds: &str) -> Result<(RunResult, Vec<String>), Error> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--package", "xfs-oracle", "--test"]).args(test);
    let root = crate::workspace_root();
    cargo.env("FERROXFS_ORACLES", oracles::folder(&root)).current_dir(&root);
    cargo.env("FERROXFS_LONG", "1").env("FERROXFS_SEED", seeds);
    let run = format!(
        "`FERROXFS_LONG=1 FERROXFS_SEED={seeds} cargo test --package xfs-oracle --test {}`",
        test.join(" ")
    );
    let (mut report, mut lines) = (Report::default(), Vec::new());
    let status = command::run_lines(&mut cargo, |line| {
        report.test_line(line);
        lines.push(line.to_owned());
    })?;
    let (passed, failed, skipped) = report.counts();
    // Tests that do not build, or that print no counts, are no result.
    if passed + failed + skipped == 0 {
        return Err(Error::Command { line: run, status });
    }
    Ok((RunResult { run, passed, skipped, failed, note: String::new() }, lines))
}

/// How many damages were noticed, and by which program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    both: u64,
    ours: u64,
    theirs: u64,
    none: u64,
}

impl Tally {
    /// Returns the numbers in a line of the test, such as `damages: block-1k field: 9 cases: both
    /// 5, only check 2, only xfs_repair 0, none 2`.
    fn of(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("damages: ")?.split_once(" cases: ")?;
        let number = |name: &str| counts.split(", ").find_map(|part| part.strip_prefix(name));
        let number = |name: &str| number(name)?.trim().parse::<u64>().ok();
        Some(Self {
            both: number("both")?,
            ours: number("only check")?,
            theirs: number("only xfs_repair")?,
            none: number("none")?,
        })
    }

    fn sum(self, other: Self) -> Self {
        Self {
            both: self.both + other.both,
            ours: self.ours + other.ours,
            theirs: self.theirs + other.theirs,
            none: self.none + other.none,
        }
    }
}

/// Returns the number in a line of the test, such as `crash states: 120 of default with seed 3 are
/// clean`.
fn states_of(line: &str) -> Option<u64> {
    line.strip_prefix("crash states: ")?.split_once(' ')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Tally, states_of};

    #[test]
    fn counts_are_read_from_the_lines_of_the_tests() {
        let line = "damages: block-1k field: 9 cases: both 5, only check 2, only xfs_repair 0, \
                    none 2";
        let tally = Tally::of(line);
        assert_eq!(tally, Some(Tally { both: 5, ours: 2, theirs: 0, none: 2 }));
        assert_eq!(Tally::of("damages: agi 0: newino: firstbit: xfs_repair says []"), None);
        assert_eq!(states_of("crash states: 120 of default with seed 3 are clean"), Some(120));
        assert_eq!(states_of("test a ... ok"), None);
    }
}
