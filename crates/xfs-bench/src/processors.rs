//! On how many processors a contender runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::BenchError;

/// The processors that this process may use.
pub(crate) struct Processors(CpuSet);

impl Processors {
    pub(crate) fn available() -> Result<Self, BenchError> {
        sched_getaffinity(None).map(Self).map_err(|error| system(error.into()))
    }

    /// Confines this thread, and all that it starts from now on, to this many processors.
    pub(crate) fn confine(&self, count: usize) -> Result<(), BenchError> {
        let mut chosen = CpuSet::new();
        let available = (0..CpuSet::MAX_CPU).filter(|processor| self.0.is_set(*processor));
        for processor in available.take(count) {
            chosen.set(processor);
        }
        sched_setaffinity(None, &chosen).map_err(|error| system(error.into()))
    }
}

fn system(source: std::io::Error) -> BenchError {
    BenchError::Io { what: "affinity".to_owned(), source }
}
