//! The files of a damaged volume that are not whole, for messages.
//!
//! Owns: the choice of the reports that are kept, and the wording of messages about them. Does
//! **not** own: the reports (`xfs-salvage`), or the manifest of `salvage`.

use xfs_salvage::{FileReport, Origin, Status};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::console::Console;
use crate::terminal::names;

/// The largest number of damaged files that messages name.
const MOST_NAMED: usize = 1000;
/// The largest number of reports on damaged files that are kept in memory.
const MOST_KEPT: usize = 1 << 20;

/// The reports on files that are not whole.
#[derive(Default)]
pub(crate) struct Shortfalls {
    reports: Vec<FileReport>,
    more: u64,
}

impl Shortfalls {
    /// Keeps the report, unless the file was salvaged completely and under a name.
    pub(crate) fn take(&mut self, report: &FileReport) {
        if report.status == Status::Complete && report.origin != Origin::Orphan {
            return;
        }
        if self.reports.len() >= MOST_KEPT {
            self.more += 1;
            return;
        }
        self.reports.push(report.clone());
    }

    /// Returns the reports on the files that are not whole. There are at most `MOST_KEPT`: further
    /// reports are not kept.
    pub(crate) fn reports(&self) -> &[FileReport] {
        &self.reports
    }

    /// Returns the number of reports that were not kept, because there are too many.
    pub(crate) fn more(&self) -> u64 {
        self.more
    }

    /// Prints a message on standard error for each file that `concerns` accepts. `shown` is the
    /// name of the image in messages.
    pub(crate) fn print(
        &self,
        shown: &str,
        console: &mut Console,
        concerns: impl Fn(&FileReport) -> bool,
    ) {
        for failure in self.failures(shown, concerns) {
            console.report(&failure);
        }
    }

    /// Returns a failure for each of the first `MOST_NAMED` files that `concerns` accepts, and one
    /// failure with the number of further files.
    pub(crate) fn failures(
        &self,
        shown: &str,
        concerns: impl Fn(&FileReport) -> bool,
    ) -> Vec<Failure> {
        let mut reports = self.reports.iter().filter(|report| concerns(report));
        let failure = |report: &FileReport| {
            let path = [b"/", report.path.as_slice()].concat();
            let failure = Failure::new(Exit::Corrupt, describe(report));
            failure.about(&names::in_message(&path)).about(shown)
        };
        let mut failures: Vec<Failure> = reports.by_ref().take(MOST_NAMED).map(failure).collect();
        let more = self.more + reports.count() as u64;
        if more > 0 {
            let message = format!("{more} more files are not whole");
            failures.push(Failure::new(Exit::Corrupt, message).about(shown));
        }
        failures
    }
}

/// Describes how much of a file was salvaged, and why the rest was not.
pub(crate) fn describe(report: &FileReport) -> String {
    let reasons = report.reasons.join("; ");
    let missing: u64 = report.missing.iter().map(|range| range.end - range.start).sum();
    let mut message = report.status.word().replace('_', " ");
    if missing > 0 {
        message += &format!(", {missing} bytes are missing");
    }
    if !reasons.is_empty() {
        message += &format!(" ({reasons})");
    }
    message
}
