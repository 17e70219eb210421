//! A target with one volume of ferroxfs per thread. It shows the speed of threads that share only
//! the machine.
//!
//! The difference from a target with one volume for all threads is the cost of the state that the
//! threads share in that volume. The remaining loss with more threads is due to the machine.

use std::thread;
use std::time::Instant;

use super::library::Library;
use super::{Cold, Performed, WorkTarget};
use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::parallel::join;
use crate::work::{Work, WorkStep};

/// One volume of ferroxfs per thread, as a target.
pub(crate) struct SeparateVolumes {
    volumes: Vec<Library>,
}

impl SeparateVolumes {
    /// Creates the target from one volume per thread.
    pub(crate) const fn new(volumes: Vec<Library>) -> Self {
        Self { volumes }
    }

    /// Returns each volume with the work of the thread of the same index.
    fn parts(&mut self, work: &Work) -> impl Iterator<Item = (&mut Library, Work)> {
        assert_eq!(self.volumes.len(), work.threads, "each thread must have one volume");
        let part = |thread| Work { threads: 1, first: work.first + thread, ..*work };
        self.volumes.iter_mut().zip((0..work.threads).map(part))
    }
}

impl WorkTarget for SeparateVolumes {
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError> {
        self.parts(work).try_for_each(|(volume, part)| volume.prepare(&part))
    }

    fn cool(&mut self) -> Result<Cold, WorkloadError> {
        for volume in &mut self.volumes {
            if let Cold::No(why) = volume.cool()? {
                return Ok(Cold::No(why));
            }
        }
        Ok(Cold::Yes)
    }

    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError> {
        let start = Instant::now();
        let performed = thread::scope(|scope| {
            let perform = |(volume, part): (_, Work)| {
                let volume: &mut Library = volume;
                scope.spawn(move || volume.perform(step, &part))
            };
            let threads = self.parts(work).map(perform).collect();
            join(threads)
        })?;
        Ok(Performed {
            operations: performed.iter().map(|one| one.operations).sum(),
            worked: performed.iter().map(|one| one.worked).max().unwrap_or_default(),
            drained: start.elapsed(),
            is_certain: performed.iter().all(|one| one.is_certain),
        })
    }

    fn counted(&self) -> Result<Counted, WorkloadError> {
        let counted =
            self.volumes.iter().map(WorkTarget::counted).collect::<Result<Vec<_>, _>>()?;
        Ok(counted.into_iter().reduce(Counted::and).unwrap_or_default())
    }

    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError> {
        let mut digest = Digest::default();
        for (volume, part) in self.parts(work) {
            digest.merge(volume.digest(&part)?);
        }
        Ok(digest)
    }

    fn close(&mut self) -> Result<(), WorkloadError> {
        self.volumes.iter_mut().try_for_each(WorkTarget::close)
    }
}
