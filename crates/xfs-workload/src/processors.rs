//! On how many processors a workload runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::WorkloadError;

/// The processors that this process may use.
pub struct Processors(CpuSet);

impl Processors {
    /// Those that this thread may use now.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn available() -> Result<Self, WorkloadError> {
        sched_getaffinity(None).map(Self).map_err(|error| system(error.into()))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count() as usize
    }

    /// Confines this thread, and all that it starts from now on, to this many processors.
    ///
    /// # Errors
    ///
    /// What the system says.
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
