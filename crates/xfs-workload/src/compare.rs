//! Collects measurements: keeps the best run of each one, and checks that all variants (ferroxfs,
//! the kernel, and others) do the same work.

use crate::error::WorkloadError;
use crate::report::{Measurement, NotMeasured};
use crate::variant::Variant;

/// The measurements collected so far, while a plan of workloads runs.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) not_measured: Vec<NotMeasured>,
}

impl Collected {
    /// Adds the measurement of one run.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Disagreement`] if this run of a step did other work than an earlier run of
    /// the same step, or left other files (I1 of the crate).
    pub(crate) fn add(&mut self, new: Measurement) -> Result<(), WorkloadError> {
        for other in self.measurements.iter().filter(|other| other.is_beside(&new)) {
            // The kernel's bulkstat also lists files of other programs, and each volume has its own
            // root.
            let has_others =
                |one: &Measurement| matches!(one.variant, Variant::Kernel | Variant::Apart);
            if !has_others(other) && !has_others(&new) && other.operations != new.operations {
                return Err(WorkloadError::Disagreement(format!(
                    "{} with {} threads: {} did {} operations, {} did {}",
                    new.step,
                    new.threads,
                    other.variant.name(),
                    other.operations,
                    new.variant.name(),
                    new.operations,
                )));
            }
            let Some((theirs, ours)) = other.digest.as_ref().zip(new.digest.as_ref()) else {
                continue;
            };
            if theirs != ours {
                return Err(WorkloadError::Disagreement(format!(
                    "after {} with {} threads: {} left {theirs}, {} left {ours}",
                    new.step,
                    new.threads,
                    other.variant.name(),
                    new.variant.name(),
                )));
            }
        }
        let Some(best) = self.measurements.iter_mut().find(|one| one.is_of(&new)) else {
            self.measurements.push(new);
            return Ok(());
        };
        let runs = best.runs + new.runs;
        if new.drained_seconds < best.drained_seconds {
            *best = new;
        }
        best.runs = runs;
        Ok(())
    }

    /// Records that a measurement could not be made, and the reason. Does nothing if this is
    /// recorded already.
    pub(crate) fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let note = NotMeasured { what: what.into(), why: why.into() };
        if !self.not_measured.contains(&note) {
            self.not_measured.push(note);
        }
    }
}

#[cfg(test)]
mod tests;
