//! The targets of a workload: a volume of ferroxfs, or a directory on the kernel's XFS.

pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod separate_volumes;

use std::time::Duration;

use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::work::{Work, WorkStep};

/// The number of operations that a step has done, and its times.
#[derive(Clone, Copy, Debug)]
pub struct Performed {
    /// Number of operations of all threads.
    pub operations: u64,
    /// Time from the common start of all threads until the last one had finished.
    pub worked: Duration,
    /// Time from the same start until no deferred work was left: the log was forced and the
    /// unlinked inodes were freed.
    pub drained: Duration,
    /// Whether the end of deferred work was observed. `false` if other programs were active on the
    /// volume, so that the end could not be seen.
    pub is_certain: bool,
}

/// Checks that a walk has seen all files of one thread. Each file has one name, so `names`, the
/// number of names seen, must be the number of files.
fn check_walk(names: u64, work: &Work) -> Result<(), WorkloadError> {
    if names == work.files {
        return Ok(());
    }
    let message = format!("found {names} names in directories of {} files", work.files);
    Err(WorkloadError::Disagreement(message))
}

impl Performed {
    /// Checks that a step has processed at least `files` files. A step that ends early would look
    /// too fast (I1 of the crate).
    pub(crate) fn check_least(&self, files: u64, step: WorkStep) -> Result<(), WorkloadError> {
        if self.operations >= files {
            return Ok(());
        }
        let (step, operations) = (step.name(), self.operations);
        let message = format!("{step} reached {operations} of {files} files");
        Err(WorkloadError::Disagreement(message))
    }
}

/// Whether the caches of a target are cold at the start of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cold {
    /// The caches are cold.
    Yes,
    /// The caches are not cold. The text gives the reason.
    No(String),
}

/// A filesystem on which workloads run.
pub trait WorkTarget {
    /// Creates the directories for the files.
    ///
    /// # Errors
    ///
    /// The first error.
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError>;

    /// Makes all changes durable and drops the caches. Returns `Cold::No` if the caches cannot be
    /// dropped.
    ///
    /// # Errors
    ///
    /// The first error.
    fn cool(&mut self) -> Result<Cold, WorkloadError>;

    /// Runs one step with the number of threads in `work`, until no deferred work is left.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if the step is not possible on this target, or the first
    /// error.
    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError>;

    /// Returns the counters of the target, such as the number of its transactions.
    ///
    /// # Errors
    ///
    /// The first error.
    fn counted(&self) -> Result<Counted, WorkloadError>;

    /// Returns the digest of all files as they are now.
    ///
    /// # Errors
    ///
    /// The first error.
    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError>;

    /// Removes the files of the target and closes it.
    ///
    /// # Errors
    ///
    /// The first error.
    fn close(&mut self) -> Result<(), WorkloadError>;
}
