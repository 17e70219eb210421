//! The result of a run of all tests: counts, failures by name, skips by reason.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Counts of checks and tests. A check such as formatting or lints counts as one test.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    reasons: Vec<String>,
    times: Vec<(String, Duration)>,
}

impl Report {
    /// Records the outcome of one check.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                println!("error: {name}: {error}");
                self.failed += 1;
                self.failures.push(format!("{name}: {error}"));
            }
        }
    }

    /// Records a check that this machine cannot make, and the reason.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("skipped: {name}: {reason}");
        self.skipped += 1;
        self.reasons.push(format!("{name}: {reason}"));
    }

    /// Records one line that a test binary printed: its summary, a failed test, or the reason for
    /// which it skipped a test (`skipped: name: reason`).
    pub(crate) fn test_line(&mut self, line: &str) {
        if let Some(reason) = line.strip_prefix("skipped: ") {
            self.reasons.push(reason.to_owned());
        } else if let Some(test) =
            line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            self.failures.push(test.to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.skipped += count(counts, "ignored");
        }
    }

    /// Records how long a part of the run of all tests took.
    pub(crate) fn took(&mut self, part: &str, time: Duration) {
        self.times.push((part.to_owned(), time));
    }

    /// Adds the results of another report to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.reasons.extend(other.reasons);
        self.times.extend(other.times);
    }

    /// Returns the numbers of tests that passed, failed and were skipped so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.passed, self.failed, self.skipped)
    }

    /// Returns the number of tests that failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }
}

/// Returns the number before `word` in the counts of a test summary, such as `ok. 3 passed; 0
/// failed; 1 ignored; …`.
fn count(counts: &str, word: &str) -> u64 {
    let mut words = counts.split([' ', ';']).filter(|word| !word.is_empty()).peekable();
    while let Some(number) = words.next() {
        if words.peek() == Some(&word) {
            return number.parse().unwrap_or(0);
        }
    }
    0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, time) in &self.times {
            let seconds = time.as_secs();
            writeln!(f, "{:2}:{:02} {part}", seconds / 60, seconds % 60)?;
        }
        for failure in &self.failures {
            writeln!(f, "failed: {failure}")?;
        }
        for reason in &self.reasons {
            writeln!(f, "skipped: {reason}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests;
