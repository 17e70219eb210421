//! The processors that the threads of a workload may use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::WorkloadError;

/// A set of processors that this process may use.
pub struct Processors(CpuSet);

impl Processors {
    /// Returns the processors that this thread may use now.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn available() -> Result<Self, WorkloadError> {
        sched_getaffinity(None).map(Self).map_err(|error| system(error.into()))
    }

    /// Returns the number of these processors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count() as usize
    }

    /// Confines this thread, and all threads that it starts later, to the first `count` of these
    /// processors.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn confine(&self, count: usize) -> Result<(), WorkloadError> {
        let mut chosen = CpuSet::new();
        let available = (0..CpuSet::MAX_CPU).filter(|processor| self.0.is_set(*processor));
        for processor in available.take(count) {
            chosen.set(processor);
        }
        sched_setaffinity(None, &chosen).map_err(|error| system(error.into()))
    }
}

fn system(source: std::io::Error) -> WorkloadError {
    WorkloadError::System { what: "affinity", source }
}
