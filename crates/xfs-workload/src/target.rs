//! Who does the work: a volume of ours, or a directory of the kernel's XFS.

pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod separate_volumes;

use std::time::Duration;

use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::work::{Work, WorkStep};

/// What a step took.
#[derive(Clone, Copy, Debug)]
pub struct Performed {
    /// How many times it was done.
    pub operations: u64,
    /// Until the last thread was through.
    pub worked: Duration,
    /// Until nothing of it was left to do: the log forced, what has no name freed.
    pub drained: Duration,
    /// Whether that end was seen, and not hidden by what others did meanwhile.
    pub is_certain: bool,
}

/// Checks that who walked has seen the files of a thread, each of which has one name.
fn check_walk(names: u64, work: &Work) -> Result<(), WorkloadError> {
    if names == work.files {
        return Ok(());
    }
    let message = format!("{names} names in the directories of {} files", work.files);
    Err(WorkloadError::Disagreement(message))
}

impl Performed {
    /// Checks that nobody stopped before the last file: that would look fast (I1).
    pub(crate) fn check_least(&self, files: u64, step: WorkStep) -> Result<(), WorkloadError> {
        if self.operations >= files {
            return Ok(());
        }
        let (step, operations) = (step.name(), self.operations);
        let message = format!("{step} came to {operations} of {files} files");
        Err(WorkloadError::Disagreement(message))
    }
}

/// Whether a step begins with nothing in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cold {
    /// It does.
    Yes,
    /// It does not, for this reason.
    No(String),
}

/// Somebody who works on files.
pub trait WorkTarget {
    /// Makes the directories.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError>;

    /// Makes everything durable and forgets what is in memory.
    ///
    /// # Errors
    ///
    /// What went wrong; that it cannot be done is none.
    fn cool(&mut self) -> Result<Cold, WorkloadError>;

    /// Does one step, in as many threads, until it counts as done.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if it cannot be done here; else what went wrong.
    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError>;

    /// What has been counted.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn counted(&self) -> Result<Counted, WorkloadError>;

    /// What there is now.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError>;

    /// Ends it, and takes away what there is.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn close(&mut self) -> Result<(), WorkloadError>;
}
