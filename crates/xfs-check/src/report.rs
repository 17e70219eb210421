//! The result of a check.

use std::time::Duration;

use crate::finding::{Finding, Severity};

/// A part of the volume that the check did not look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unchecked {
    /// The part that was not checked, in words.
    pub what: String,
    /// The finding because of which the part was not checked, as an index into
    /// [`Report::findings`]. `None` if no finding is the reason.
    pub cause: Option<usize>,
}

impl Unchecked {
    /// Creates a part for which no finding is the reason.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None }
    }
}

/// The parts of the volume that a run has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Number of allocation groups.
    pub groups: u32,
    /// Number of inodes in use.
    pub inodes: u64,
    /// Number of directories among the inodes in use.
    pub directories: u64,
    /// Length of the volume in bytes.
    pub bytes: u64,
}

/// The result of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The findings: the worst first, and those of one severity in the order of their places.
    pub findings: Vec<Finding>,
    /// Findings that only follow from other damage: a structure that could not be read makes sound
    /// structures seem wrong. The finding of that damage is their [cause](Finding::cause). The list
    /// is in the order of the causes. If there are too many consequences, the rest are only
    /// counted, in their causes.
    pub consequences: Vec<Finding>,
    /// Number of findings that were left out because there were too many.
    pub dropped: u64,
    /// The parts of the volume that were not checked. For each part, a finding says why.
    pub unchecked: Vec<Unchecked>,
    /// The parts of the volume that were checked.
    pub coverage: Coverage,
    /// Whether the run was stopped before its end.
    pub is_stopped: bool,
    /// The time that the run took.
    pub elapsed: Duration,
}

impl Report {
    /// Returns whether the volume is consistent: the whole volume was checked, and nothing is
    /// damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_complete() && self.worst().is_none_or(|worst| !worst.is_damage())
    }

    /// Returns whether the whole volume was checked.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unchecked.is_empty() && !self.is_stopped
    }

    /// Returns the worst severity of all findings; `None` if there is no finding.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// Returns the number of findings of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> u64 {
        self.findings.iter().filter(|finding| finding.severity() == severity).count() as u64
    }
}
