//! Records of runs of tests: the day, the tests, the machine, and the result.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::error::Error;

/// The record of one run of tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The day of the run, in the form `2026-11-26`.
    pub(super) date: String,
    /// The commit that was tested, with a `+` if the sources had changes on top of it.
    pub(super) commit: String,
    pub(super) machine: Machine,
    pub(super) result: RunResult,
}

/// The machine of a run. The machine's name is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) processors: usize,
    /// The memory in GiB. `None` in records that do not state it.
    pub(super) memory_gib: Option<u64>,
    pub(super) kernel: String,
}

/// The result of one run of tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunResult {
    /// The tests that were run: the name of a suite with its version and user, or a command.
    pub(super) run: String,
    pub(super) passed: u64,
    pub(super) skipped: u64,
    pub(super) failed: u64,
    /// Reasons for skipped and failed tests, in Markdown.
    pub(super) note: String,
}

impl RunResult {
    pub(super) fn line(&self) -> String {
        let Self { run, passed, skipped, failed, .. } = self;
        format!("{run}: {passed} passed, {skipped} skipped, {failed} failed")
    }
}

impl Record {
    /// Returns the record of a run that has just ended on this machine.
    pub(super) fn here(root: &Path, result: RunResult) -> Result<Self, Error> {
        let mut git = Command::new("git");
        let commit =
            command::output(git.args(["rev-parse", "--short=7", "HEAD"]).current_dir(root))?;
        let mut git = Command::new("git");
        let status = git.args(["status", "--porcelain", "--untracked-files=no"]).current_dir(root);
        let changes = if command::output(status)?.trim().is_empty() { "" } else { "+" };
        Ok(Self {
            date: command::output(Command::new("date").args(["-u", "+%F"]))?.trim().to_owned(),
            commit: format!("{}{changes}", commit.trim()),
            machine: Machine::this()?,
            result,
        })
    }

    /// Returns the record as a row of a Markdown table.
    pub(super) fn row(&self) -> String {
        let Machine { processors, memory_gib, kernel } = &self.machine;
        let memory = memory_gib.map(|memory| format!(", {memory} GiB")).unwrap_or_default();
        let RunResult { run, passed, skipped, failed, note } = &self.result;
        let counts = [*passed, *skipped, *failed].map(grouped).join(" | ");
        let Self { date, commit, .. } = self;
        format!(
            "| {date} | {commit} | {processors} CPUs{memory}, {kernel} | {run} | {counts} | {note} |\n"
        )
    }
}

impl Machine {
    fn this() -> Result<Self, Error> {
        let read = |path: &str| fs::read_to_string(path).map_err(Error::file(path));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let memory_gib = memory_gib(&read("/proc/meminfo")?);
        let kernel = format!("Linux {}", version(&read("/proc/sys/kernel/osrelease")?));
        Ok(Self { processors, memory_gib, kernel })
    }
}

/// Returns the memory in GiB, rounded, from the text of /proc/meminfo. Returns `None` if the text
/// does not state it.
fn memory_gib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kibibytes + (1 << 19)) >> 20)
}

/// Returns the numbers at the start of a kernel's release: `6.18.2` of `6.18.2-amd64`.
fn version(release: &str) -> &str {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release.get(..end).unwrap_or(release).trim_end_matches('.')
}

/// Returns a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the records of a file, the oldest first. Returns no records if the file does not exist.
pub(super) fn load(root: &Path, path: &str) -> Result<Vec<Record>, Error> {
    let path = root.join(path);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    serde_json::from_str(&text).map_err(|source| Error::Record { path, source })
}

/// Writes `records` to the file `path` of the project.
pub(super) fn store(root: &Path, path: &str, records: &[Record]) -> Result<(), Error> {
    let path = root.join(path);
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let text = serde_json::to_string_pretty(records)
        .map_err(|source| Error::Record { path: path.clone(), source })?;
    fs::write(&path, text + "\n").map_err(Error::file(&path))
}

#[cfg(test)]
mod tests;
