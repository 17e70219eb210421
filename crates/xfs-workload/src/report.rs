//! What a run has come to: the one form from which text, JSON and HTML are made.

use serde::{Deserialize, Serialize};

use crate::counted::Counted;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::variant::Variant;

/// Changes when a key changes its meaning or goes; new keys may come at any time.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of ferroxfs.
    pub version: String,
    /// Whether this build counts writes to shared memory, which takes time.
    pub counts_writes: bool,
    /// Whether this build was made with optimisation.
    pub is_optimised: bool,
    /// What it ran on.
    pub machine: Machine,
    /// What was asked for.
    pub plan: Plan,
    /// What the kernel worked on, where that was asked for.
    pub kernel_volume: Option<VolumeShape>,
    /// The figures.
    pub measurements: Vec<Measurement>,
    /// What there is no figure of.
    pub not_measured: Vec<NotMeasured>,
}

/// A volume, in what rates on it depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeShape {
    /// Whether each file names its directories.
    pub parents: bool,
    /// Allocation groups.
    pub groups: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
}

/// One figure: the best of some runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which figures belong into one table.
    pub section: String,
    /// What was done.
    pub step: String,
    /// Who did it.
    pub variant: Variant,
    /// In how many threads.
    pub threads: usize,
    /// On how many processors.
    pub processors: usize,
    /// How often it was done, all threads together.
    pub operations: u64,
    /// Seconds until the last thread was through.
    pub worked_seconds: f64,
    /// Seconds until nothing of it was left to do. Rates go by these.
    pub drained_seconds: f64,
    /// How many runs this is the best of.
    pub runs: u32,
    /// Whether nothing was in memory when it began.
    pub is_cold: bool,
    /// What was there after it, where somebody can tell.
    pub digest: Option<String>,
    /// What was counted.
    pub counted: Counted,
    /// How long single ones took, where that is the question.
    pub latency: Option<Latency>,
    /// What else there was to be written, where that is the question.
    pub behind: Option<PendingChanges>,
    /// Bytes of memory that inodes took, or were bounded to, where the kernel was asked for that.
    pub inodes_bytes: Option<u64>,
}

/// How long single operations took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub median_seconds: f64,
    /// None took longer.
    pub worst_seconds: f64,
}

/// What was there to be made durable besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChanges {
    /// Changes of other files.
    pub changes: u64,
    /// Bytes in the log's list of what was committed, at least, where they are told.
    pub list_bytes: Option<u64>,
}

impl Measurement {
    /// Operations a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.drained_seconds.max(f64::MIN_POSITIVE)
    }

    /// Whether the other one is a run of the same.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.is_beside(other) && self.variant == other.variant
    }

    /// Whether the other one is to have done the same work.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.section == other.section && self.step == other.step && self.threads == other.threads
    }
}

/// What there is no figure of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl Report {
    /// The measurement of a step by somebody in so many threads.
    #[must_use]
    pub fn find(
        &self,
        section: &str,
        step: &str,
        variant: Variant,
        threads: usize,
    ) -> Option<&Measurement> {
        self.measurements.iter().find(|one| {
            one.section == section
                && one.step == step
                && one.variant == variant
                && one.threads == threads
        })
    }

    /// The sections, in the order in which they were run.
    #[must_use]
    pub fn sections(&self) -> Vec<&str> {
        distinct(self.measurements.iter().map(|one| one.section.as_str()))
    }

    /// The steps of a section, in the order in which they were run.
    #[must_use]
    pub fn steps(&self, section: &str) -> Vec<&str> {
        distinct(self.of_section(section).map(|one| one.step.as_str()))
    }

    /// Who took part in a section, in the order in which they did.
    #[must_use]
    pub fn variants(&self, section: &str) -> Vec<Variant> {
        distinct(self.of_section(section).map(|one| one.variant))
    }

    /// The numbers of threads in a section.
    #[must_use]
    pub fn threads(&self, section: &str) -> Vec<usize> {
        distinct(self.of_section(section).map(|one| one.threads))
    }

    pub(crate) fn of_section(&self, section: &str) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |one| one.section == section)
    }
}

/// What there is, each once, in the order of the first of each.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
