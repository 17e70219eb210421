//! Runs this project's own tests and fuzz targets for the conformance page.

use std::fs;
use std::path::Path;

use super::Kind;
use super::record::RunResult;
use crate::command;
use crate::error::Error;
use crate::oracles;
use crate::report::Report;

/// The fuzz targets that read whole images. One execution takes about a hundred times as long as
/// one of the other targets.
const WHOLE_IMAGES: [&str; 7] =
    ["volume", "check", "evidence", "repair", "salvage", "kinds", "kinds_written"];
const WHOLE_IMAGES_SHARE: u64 = 100;

/// Runs the tests of a kind against the kernel. `seeds` is the value of `FERROXFS_SEED`, from which
/// the tests take their seeds.
pub(super) fn tests(kind: Kind, seeds: Option<&str>) -> Result<RunResult, Error> {
    let test = if kind == Kind::Matrix { "kernel".to_owned() } else { kind.name() };
    let arguments = ["test", "--no-fail-fast", "--package", "xfs-oracle", "--test", test.as_str()];
    let mut cargo = command::cargo();
    cargo.args(arguments);
    let mut run = format!("`cargo {}`", arguments.join(" "));
    if let Some(seeds) = seeds {
        cargo.env("FERROXFS_SEED", seeds);
        run = format!("`FERROXFS_SEED={seeds} cargo {}`", arguments.join(" "));
    }
    let root = crate::workspace_root();
    cargo.env("FERROXFS_ORACLES", oracles::folder(&root)).current_dir(&root);
    let mut report = Report::default();
    let status = command::run_lines(&mut cargo, |line| report.test_line(line))?;
    let (passed, failed, skipped) = report.counts();
    // Tests that do not build, or that print no counts, are no result.
    if passed + failed + skipped == 0 {
        return Err(Error::Command { line: run, status });
    }
    Ok(RunResult { run, passed, skipped, failed, note: String::new() })
}

/// Runs every fuzz target on random changes of its seeds. An execution fails if it panics or takes
/// longer than a second.
pub(super) fn fuzz(root: &Path, rounds: u64) -> Result<RunResult, Error> {
    let mut result =
        RunResult { run: String::new(), passed: 0, skipped: 0, failed: 0, note: String::new() };
    let targets = targets(root)?;
    for target in &targets {
        let is_whole = WHOLE_IMAGES.contains(&target.as_str());
        let rounds = if is_whole { (rounds / WHOLE_IMAGES_SHARE).max(1) } else { rounds };
        let mut cargo = command::cargo();
        cargo.args(["run", "--quiet", "--profile", "quick", "--package", "xfs-hostile"]);
        cargo.args(["--example", "mutate", "1", &rounds.to_string(), target.as_str()]);
        let mut failed = 0;
        let is_finding = |line: &str| line.starts_with("seed ");
        let status = command::run_lines(cargo.current_dir(root), |line| {
            failed += u64::from(is_finding(line));
        })?;
        if !status.success() {
            return Err(Error::Command { line: format!("mutate 1 {rounds} {target}"), status });
        }
        result.failed += failed;
        result.passed += rounds.saturating_sub(failed);
    }
    result.run = format!("{} targets, mutated seeds", targets.len());
    Ok(result)
}

/// Returns the names of the fuzz targets, in order.
fn targets(root: &Path) -> Result<Vec<String>, Error> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
        let path = entry.map_err(Error::file(&folder))?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn targets_are_the_files_of_the_fuzz_crate() {
        let targets = targets(&crate::workspace_root()).unwrap();
        assert!(targets.len() >= 20, "{targets:?}");
        let is_there = |whole: &&str| targets.iter().any(|target| target == *whole);
        assert!(super::WHOLE_IMAGES.iter().all(is_there));
        assert!(targets.is_sorted());
    }
}
