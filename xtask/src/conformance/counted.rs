//! Runs those of this project's own tests that print how many cases they have judged, and reads
//! these numbers.

use super::record::RunResult;
use crate::command;
use crate::error::Error;
use crate::oracles;
use crate::report::Report;

/// The seeds for the test of `crash_states` if the option `--seeds` is not given.
const CRASH_SEEDS: &str = "0..30";
const DAMAGE_SEEDS: &str = "0..1";

/// Runs the test that damages volumes and compares our checker with xfs_repair.
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

/// Runs the test that checks the states after simulated power cuts with our checker alone.
pub(super) fn crash_states(seeds: Option<&str>) -> Result<RunResult, Error> {
    let arguments = ["crash", "--", "recovered_crash_states"];
    let (mut result, lines) = run(&arguments, seeds.unwrap_or(CRASH_SEEDS))?;
    result.note = format!("{} histories", result.passed);
    result.passed = lines.iter().filter_map(|line| states_of(line)).sum();
    Ok(result)
}

/// Runs the test that repairs damaged volumes with our repair and with xfs_repair, and salvages
/// them. Returns one result for each tool, ours first, and the result of the salvages. A trial of
/// xfs_repair has failed if the volume is not clean after one run.
pub(super) fn repairs(seeds: Option<&str>) -> Result<Vec<RunResult>, Error> {
    let (result, lines) = run(&["repair"], seeds.unwrap_or(DAMAGE_SEEDS))?;
    let failed_repairs = failed_trials(&lines, "worse: ");
    let tools = ["ferroxfs", "xfs_repair"].map(|tool| {
        let sums = lines.iter().filter_map(|line| RepairSums::of(line, tool));
        let sums = sums.fold(RepairSums::default(), RepairSums::sum);
        let is_ours = tool == "ferroxfs";
        let failed = if is_ours { failed_repairs } else { sums.trials - sums.clean };
        RunResult {
            run: format!("{tool}: {}", result.run),
            passed: sums.trials.saturating_sub(failed),
            skipped: result.skipped,
            failed,
            note: sums.note(),
        }
    });
    let sums = lines.iter().filter_map(|line| SalvageSums::of(line));
    let sums = sums.fold(SalvageSums::default(), SalvageSums::sum);
    let failed = failed_trials(&lines, "salvage worse: ");
    let salvage = RunResult {
        run: format!("salvage: {}", result.run),
        passed: sums.trials.saturating_sub(failed),
        skipped: result.skipped,
        failed,
        note: sums.note(),
    };
    Ok(tools.into_iter().chain([salvage]).collect())
}

/// Returns the number of trials for which the test printed a line that starts with `start`. The
/// test can print several such lines for one trial.
fn failed_trials(lines: &[String], start: &str) -> u64 {
    let trial = |line: &'_ String| -> Option<String> {
        line.strip_prefix(start)?.split(": ").next().map(str::to_owned)
    };
    let mut trials: Vec<String> = lines.iter().filter_map(trial).collect();
    // Volumes are damaged at the same time, so their lines alternate.
    trials.sort();
    trials.dedup();
    trials.len() as u64
}

/// The results of the salvages, summed over all trials of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SalvageSums {
    trials: u64,
    delivered: u64,
    fewer: u64,
    untrue: u64,
}

impl SalvageSums {
    /// Returns the counts in the line that the test prints about all salvages of a volume. An
    /// example is `salvage: clean: all: 16 trials: 900 names delivered, 3 names fewer than the
    /// repair leaves, 0 untrue reports`. Returns `None` for any other line.
    fn of(line: &str) -> Option<Self> {
        let (_, sums) = line.strip_prefix("salvage: ")?.split_once(": all: ")?;
        let (trials, counts) = sums.split_once(" trials: ")?;
        let number = |name: &str| counts.split(", ").find_map(|part| part.strip_suffix(name));
        let number = |name: &str| number(name)?.trim().parse::<u64>().ok();
        Some(Self {
            trials: trials.parse().ok()?,
            delivered: number("names delivered")?,
            fewer: number("names fewer than the repair leaves")?,
            untrue: number("untrue reports")?,
        })
    }

    fn sum(self, other: Self) -> Self {
        Self {
            trials: self.trials + other.trials,
            delivered: self.delivered + other.delivered,
            fewer: self.fewer + other.fewer,
            untrue: self.untrue + other.untrue,
        }
    }

    fn note(self) -> String {
        let Self { delivered, fewer, untrue, .. } = self;
        format!(
            "{delivered} names delivered, {fewer} fewer than the repair leaves, {untrue} untrue \
             reports"
        )
    }
}

/// The results of one tool (ferroxfs or xfs_repair), summed over all trials of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RepairSums {
    trials: u64,
    whole: u64,
    clean: u64,
    gone: u64,
    found: u64,
}

impl RepairSums {
    /// Returns the counts in the line that the test prints about all trials of a volume and a tool.
    /// An example is `repairs: clean: all: ferroxfs: 16 trials: 9 whole, 16 clean after one run, 3
    /// names gone, 4 names in lost+found`. Returns `None` for any other line.
    fn of(line: &str, tool: &str) -> Option<Self> {
        let (_, rest) = line.strip_prefix("repairs: ")?.split_once(": all: ")?;
        let rest = rest.strip_prefix(tool)?.strip_prefix(": ")?;
        let (trials, counts) = rest.split_once(" trials: ")?;
        let number = |name: &str| counts.split(", ").find_map(|part| part.strip_suffix(name));
        let number = |name: &str| number(name)?.trim().parse::<u64>().ok();
        Some(Self {
            trials: trials.parse().ok()?,
            whole: number("whole")?,
            clean: number("clean after one run")?,
            gone: number("names gone")?,
            found: number("names in lost+found")?,
        })
    }

    fn sum(self, other: Self) -> Self {
        Self {
            trials: self.trials + other.trials,
            whole: self.whole + other.whole,
            clean: self.clean + other.clean,
            gone: self.gone + other.gone,
            found: self.found + other.found,
        }
    }

    fn note(self) -> String {
        let Self { whole, clean, gone, found, .. } = self;
        format!("{whole} whole, {clean} clean, {gone} names gone, {found} in lost+found")
    }
}

/// Runs a test of `xfs-oracle` with many cases. Returns the counts of its trials, and the lines
/// that it printed.
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

/// The number of damages that were noticed by both `ferroxfs check` and xfs_repair, by only one of
/// the two, and by neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    both: u64,
    ours: u64,
    theirs: u64,
    none: u64,
}

impl Tally {
    /// Returns the counts in a line that the test prints, such as `damages: block-1k field: 9
    /// cases: both 5, only check 2, only xfs_repair 0, none 2`. Returns `None` for any other line.
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

/// Returns the number of clean states in a line that the test prints, such as `crash states: 120 of
/// default with seed 3 are clean`. Returns `None` for any other line.
fn states_of(line: &str) -> Option<u64> {
    line.strip_prefix("crash states: ")?.split_once(' ')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{RepairSums, SalvageSums, Tally, failed_trials, states_of};

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

    #[test]
    fn sums_of_repairs_are_read_from_the_lines_of_the_tests() {
        let line = "repairs: clean: all: ferroxfs: 16 trials: 9 whole, 15 clean after one run, 3 names \
                    gone, 4 names in lost+found";
        let sums = RepairSums { trials: 16, whole: 9, clean: 15, gone: 3, found: 4 };
        assert_eq!(RepairSums::of(line, "ferroxfs"), Some(sums));
        assert_eq!(RepairSums::of(line, "xfs_repair"), None);
        assert_eq!(RepairSums::of("repairs: clean: bit: ferroxfs: 1 trials", "ferroxfs"), None);
    }

    #[test]
    fn sums_of_salvages_are_read_from_the_lines_of_the_tests() {
        let line = "salvage: quota: all: 16 trials: 900 names delivered, 3 names fewer than the repair \
                    leaves, 1 untrue reports";
        let sums = SalvageSums { trials: 16, delivered: 900, fewer: 3, untrue: 1 };
        assert_eq!(SalvageSums::of(line), Some(sums));
        assert_eq!(SalvageSums::of("salvage: quota: bit: 1 trials"), None);
        let lines = [
            "salvage worse: clean 0 3: a: b",
            "salvage worse: quota 0 3: a: b",
            "salvage worse: clean 0 3: a: c",
            "salvage worse: clean 0 5: d",
        ];
        let lines: Vec<String> = lines.map(str::to_owned).into();
        assert_eq!(failed_trials(&lines, "salvage worse: "), 3);
    }
}
