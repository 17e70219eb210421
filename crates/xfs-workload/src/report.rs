//! The results of a benchmark run, from which text, JSON and HTML are made.

use serde::{Deserialize, Serialize};

use crate::counted::Counted;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::variant::Variant;

/// The version of the report's JSON. It is raised if a key is removed or changes its meaning. New
/// keys may be added without a new version.
pub const SCHEMA_VERSION: u32 = 1;

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of the report's JSON: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of ferroxfs.
    pub version: String,
    /// Whether this build counts writes to memory that threads share. Counting makes operations
    /// slower.
    pub counts_writes: bool,
    /// Whether this build was optimised.
    pub is_optimised: bool,
    /// The machine of the run.
    pub machine: Machine,
    /// The plan of the run.
    pub plan: Plan,
    /// The number of groups and the log size of the kernel's volume, and whether it has parent
    /// pointers. `None` if the kernel took no part.
    pub kernel_volume: Option<VolumeShape>,
    /// The measurements of the run.
    pub measurements: Vec<Measurement>,
    /// The measurements that could not be made.
    pub not_measured: Vec<NotMeasured>,
}

/// The properties of a volume that affect how many operations per second it permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeShape {
    /// Whether the volume has parent pointers.
    pub parents: bool,
    /// Number of allocation groups.
    pub groups: u64,
    /// Log size in bytes.
    pub log_bytes: u64,
}

/// One figure: the best of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The name of the section. The figures of a section share a table.
    pub section: String,
    /// The name of the measured step.
    pub step: String,
    /// The variant that was measured.
    pub variant: Variant,
    /// Number of threads.
    pub threads: usize,
    /// Number of processors to which the threads were confined.
    pub processors: usize,
    /// Number of operations of all threads.
    pub operations: u64,
    /// Seconds until the last thread had finished.
    pub worked_seconds: f64,
    /// Seconds until no deferred work was left, such as freeing inodes. Rates are computed from
    /// this time.
    pub drained_seconds: f64,
    /// Number of runs of which this is the best.
    pub runs: u32,
    /// Whether the caches were cold at the start.
    pub is_cold: bool,
    /// The digest of the files after the step, if known.
    pub digest: Option<String>,
    /// The counters of the target.
    pub counted: Counted,
    /// Times of single operations, if the measurement is about them.
    pub latency: Option<Latency>,
    /// The changes of other files that waited to be logged while the measured change was made
    /// durable. `None` unless the measurement is about such changes.
    pub pending: Option<PendingChanges>,
    /// Number of bytes of memory that the inodes took. If their memory was limited, the number of
    /// bytes that the limit left for inodes. `None` if the measurement is not about memory.
    pub inodes_bytes: Option<u64>,
}

/// Times of single operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median: half of the operations took at most this time.
    pub median_seconds: f64,
    /// The longest time of an operation.
    pub worst_seconds: f64,
}

/// Changes of other files that waited in the log while the measured change was made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChanges {
    /// Number of changes of other files.
    pub changes: u64,
    /// A lower bound of the number of bytes in the log's list of commits (the changes that are not
    /// written to the log yet), if known.
    pub list_bytes: Option<u64>,
}

impl Measurement {
    /// Returns the number of operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.drained_seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns whether `other` is a run of the same step, with the same variant and number of
    /// threads.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.is_beside(other) && self.variant == other.variant
    }

    /// Returns whether `other` is a run of the same step with the same number of threads, possibly
    /// by another variant. Two such runs must do the same work.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.section == other.section && self.step == other.step && self.threads == other.threads
    }
}

/// A measurement that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    /// The name of the measurement.
    pub what: String,
    /// The reason why the measurement could not be made.
    pub why: String,
}

impl Report {
    /// Returns the measurement of a step by a variant with this many threads, or `None`.
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

    /// Returns the sections, in the order in which they ran.
    #[must_use]
    pub fn sections(&self) -> Vec<&str> {
        distinct(self.measurements.iter().map(|one| one.section.as_str()))
    }

    /// Returns the steps of a section, in the order in which they ran.
    #[must_use]
    pub fn steps(&self, section: &str) -> Vec<&str> {
        distinct(self.of_section(section).map(|one| one.step.as_str()))
    }

    /// Returns the variants of a section, in the order in which they ran.
    #[must_use]
    pub fn variants(&self, section: &str) -> Vec<Variant> {
        distinct(self.of_section(section).map(|one| one.variant))
    }

    /// Returns the numbers of threads with which a section ran.
    #[must_use]
    pub fn threads(&self, section: &str) -> Vec<usize> {
        distinct(self.of_section(section).map(|one| one.threads))
    }

    pub(crate) fn of_section(&self, section: &str) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |one| one.section == section)
    }
}

/// Returns the items without repetitions, in the order of their first occurrence.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
