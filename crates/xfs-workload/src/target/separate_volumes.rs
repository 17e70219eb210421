//! A volume of ours for each thread: what threads gain that share nothing but the machine.
//!
//! What one volume for all threads falls short of this is the price of what they share in it; the rest of
//! what more threads do not bring is the machine's.

use std::thread;
use std::time::Instant;

use super::library::Library;
use super::{Cold, Performed, WorkTarget};
use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::parallel::join;
use crate::work::{Work, WorkStep};

/// Volumes, of which each thread has one.
pub(crate) struct SeparateVolumes {
    volumes: Vec<Library>,
}

impl SeparateVolumes {
    /// These volumes, one for each thread.
    pub(crate) const fn new(volumes: Vec<Library>) -> Self {
        Self { volumes }
    }

    /// Each volume with its part of the work: what the thread of that number does.
    fn parts(&mut self, work: &Work) -> impl Iterator<Item = (&mut Library, Work)> {
        assert_eq!(self.volumes.len(), work.threads, "each thread has a volume");
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
