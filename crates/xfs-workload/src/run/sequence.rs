//! Runs sequences of steps over the same files, as the published benchmarks do that these workloads
//! repeat.

use super::{MeasurementId, RunDetails, Session};
use crate::error::WorkloadError;
use crate::target::{Cold, WorkTarget};
use crate::variant::Variant;
use crate::work::{Work, WorkStep};

/// A sequence of steps over the same files.
pub(super) struct Sequence {
    pub(super) section: &'static str,
    pub(super) steps: &'static [WorkStep],
    /// The variants of the library that run in addition to the library itself.
    pub(super) others: &'static [Variant],
    /// A function that returns whether a step is reported. Other steps run only because a later
    /// step needs their files.
    pub(super) wants: fn(&Session<'_>, WorkStep) -> bool,
}

/// Creating, walking, changing, listing and removing files, each step with cold caches.
pub(super) const FILES: Sequence = Sequence {
    section: "files",
    steps: &[
        WorkStep::Create,
        WorkStep::Walk,
        WorkStep::WalkThrough,
        WorkStep::Change,
        WorkStep::BulkstatPast,
        WorkStep::Bulkstat,
        WorkStep::Remove,
    ],
    others: &[Variant::OneList, Variant::OneSlot, Variant::Intents, Variant::Apart],
    wants: |session, step| session.plan.wants(step),
};

/// Creating and removing files in many directories, as fs_mark does, with and without parent
/// pointers.
pub(super) const MARKS: Sequence = Sequence {
    section: "fsmark",
    steps: &[WorkStep::Create, WorkStep::Remove],
    others: &[Variant::Intents, Variant::NoParents],
    wants: |_, _| true,
};

/// A step and the variant that performs it.
#[derive(Clone, Copy)]
struct MeasuredStep {
    variant: Variant,
    step: WorkStep,
}

impl Sequence {
    /// Runs the sequence with each number of threads in the plan, as often as the plan says. `work`
    /// adapts the plan's amount of work to this sequence.
    pub(super) fn run(
        &self,
        session: &mut Session<'_>,
        work: impl Fn(Work) -> Work,
    ) -> Result<(), WorkloadError> {
        if !self.steps.iter().any(|step| (self.wants)(session, *step)) {
            return Ok(());
        }
        let plan = session.plan;
        for threads in &plan.threads {
            let work = work(session.work(*threads));
            for _ in 0..plan.runs {
                let mut variants = plan.variants(self.others);
                variants
                    .retain(|variant| variant.is_meaningful(*threads, session.processors.count()));
                for variant in variants {
                    session.begin(self.section, variant, *threads)?;
                    let mut target = session.target(variant, &work)?;
                    target.prepare(&work)?;
                    for step in self.steps {
                        let measured = MeasuredStep { variant, step: *step };
                        self.perform(session, &mut *target, measured, &work)?;
                    }
                    target.close()?;
                }
            }
        }
        Ok(())
    }

    fn perform(
        &self,
        session: &mut Session<'_>,
        target: &mut dyn WorkTarget,
        MeasuredStep { variant, step }: MeasuredStep,
        work: &Work,
    ) -> Result<(), WorkloadError> {
        let is_wanted = (self.wants)(session, step) && concerns(variant, step);
        if !is_wanted {
            // Other steps need files with the initial permissions.
            if step == WorkStep::Create {
                target.perform(step, work)?;
            }
            return Ok(());
        }
        let is_cold = session.cool(target, variant)?;
        let before = target.counted()?;
        let performed = match target.perform(step, work) {
            Err(WorkloadError::Unavailable { what, why }) => {
                session.collected.note(what, why);
                return Ok(());
            }
            performed => performed?,
        };
        performed.check_least(work.total(), step)?;
        let counted = target.counted()?.since(&before);
        let digest = target.digest(work)?;
        let left = if step == WorkStep::Remove { 0 } else { work.total() };
        if digest.files() != left {
            let (who, found) = (variant.name(), digest.files());
            let message = format!("{who} has {found} files after {}, expected {left}", step.name());
            return Err(WorkloadError::Disagreement(message));
        }
        let (section, step, threads) = (self.section, step.name(), work.threads);
        let id = MeasurementId { section, step, variant, threads };
        let details = RunDetails {
            counted,
            digest: Some(digest.to_string()),
            is_cold,
            ..RunDetails::default()
        };
        session.record(&id, performed, details)
    }
}

/// Returns whether the design decision that `variant` reverts affects a step.
fn concerns(variant: Variant, step: WorkStep) -> bool {
    match variant {
        Variant::OneList => !matches!(step, WorkStep::Walk | WorkStep::BulkstatPast),
        Variant::OneSlot => matches!(step, WorkStep::Create | WorkStep::Change | WorkStep::Remove),
        Variant::Intents => matches!(step, WorkStep::Create | WorkStep::Remove),
        _ => true,
    }
}

impl Session<'_> {
    /// Drops the caches of a target. Returns whether they are cold now. If not, records the reason.
    /// Returns an error if the run must end.
    pub(super) fn cool(
        &mut self,
        target: &mut dyn WorkTarget,
        variant: Variant,
    ) -> Result<bool, WorkloadError> {
        if self.watcher.is_over() {
            return Err(WorkloadError::Interrupted);
        }
        match target.cool()? {
            Cold::Yes => Ok(true),
            Cold::No(why) => {
                self.collected.note(format!("{} with nothing in memory", variant.name()), why);
                Ok(false)
            }
        }
    }
}
