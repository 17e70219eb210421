//! The targets of a workload: a volume of ours, or a directory on the kernel's XFS.

pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod separate_volumes;

use std::time::Duration;

use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::work::{Work, WorkStep};

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub struct Performed {
    /// Number of operations.
    pub operations: u64,
    /// Time until the last thread had finished.
    pub worked: Duration,
    /// Time until no deferred work was left: the log forced, unlinked inodes freed (I2).
    pub drained: Duration,
    /// Whether the end of deferred work was observed, and not hidden by the activity of other
    /// programs.
    pub is_certain: bool,
}

/// Checks that a walk has seen all files of a thread, each of which has one name.
fn check_walk(names: u64, work: &Work) -> Result<(), WorkloadError> {
    if names == work.files {
        return Ok(());
    }
    let message = format!("found {names} names in directories of {} files", work.files);
    Err(WorkloadError::Disagreement(message))
}

impl Performed {
    /// Checks that the step reached the last file. A step that did not would look too fast (I1).
    pub(crate) fn check_least(&self, files: u64, step: WorkStep) -> Result<(), WorkloadError> {
        if self.operations >= files {
            return Ok(());
        }
        let (step, operations) = (step.name(), self.operations);
        let message = format!("{step} reached {operations} of {files} files");
        Err(WorkloadError::Disagreement(message))
    }
}

/// Whether a step starts with cold caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cold {
    /// The caches are cold.
    Yes,
    /// The caches are not cold, for this reason.
    No(String),
}

/// A target of workloads.
pub trait WorkTarget {
    /// Creates the directories for the files.
    ///
    /// # Errors
    ///
    /// The first failure.
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError>;

    /// Makes all changes durable and drops the caches.
    ///
    /// # Errors
    ///
    /// The first failure. If caches cannot be dropped, that is not an error.
    fn cool(&mut self) -> Result<Cold, WorkloadError>;

    /// Runs one step, in as many threads as `work` says, until no deferred work is left.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if the step is not possible here, or the first failure.
    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError>;

    /// Returns the counters of the target.
    ///
    /// # Errors
    ///
    /// The first failure.
    fn counted(&self) -> Result<Counted, WorkloadError>;

    /// Returns the digest of the current files.
    ///
    /// # Errors
    ///
    /// The first failure.
    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError>;

    /// Ends the target and removes its files.
    ///
    /// # Errors
    ///
    /// The first failure.
    fn close(&mut self) -> Result<(), WorkloadError>;
}
