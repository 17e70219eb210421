//! Steps over files, one after the other: what all origins have.

use super::{MeasurementId, RunDetails, Session};
use crate::error::WorkloadError;
use crate::target::{Cold, WorkTarget};
use crate::variant::Variant;
use crate::work::{Work, WorkStep};

/// A sequence of steps over the same files.
pub(super) struct Sequence {
    pub(super) section: &'static str,
    pub(super) steps: &'static [WorkStep],
    /// What else of ours it is compared with.
    pub(super) others: &'static [Variant],
    /// The steps that are reported; the others are done where those need them.
    pub(super) wants: fn(&Session<'_>, WorkStep) -> bool,
}

/// Making, walking, changing, listing and removing files, nothing in memory when a step begins.
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

/// Making and removing files in many directories, as fs_mark does, with parent pointers and without.
pub(super) const MARKS: Sequence = Sequence {
    section: "fsmark",
    steps: &[WorkStep::Create, WorkStep::Remove],
    others: &[Variant::Intents, Variant::NoParents],
    wants: |_, _| true,
};

impl Sequence {
    /// Runs it in each number of threads.
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
                variants.retain(|variant| variant.tells(*threads, session.processors.count()));
                for variant in variants {
                    session.begin(self.section, variant, *threads)?;
                    let mut target = session.target(variant, &work)?;
                    target.prepare(&work)?;
                    for step in self.steps {
                        self.perform(session, &mut *target, (variant, *step), &work)?;
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
        (variant, step): (Variant, WorkStep),
        work: &Work,
    ) -> Result<(), WorkloadError> {
        let is_wanted = (self.wants)(session, step) && concerns(variant, step);
        if !is_wanted {
            // The others need files, of the permissions that they are made with.
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
            let message = format!("{who}: {found} files after {}, not {left}", step.name());
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

/// Whether it makes a difference to a step that this decision is taken back.
fn concerns(variant: Variant, step: WorkStep) -> bool {
    match variant {
        Variant::OneList => !matches!(step, WorkStep::Walk | WorkStep::BulkstatPast),
        Variant::OneSlot => matches!(step, WorkStep::Create | WorkStep::Change | WorkStep::Remove),
        Variant::Intents => matches!(step, WorkStep::Create | WorkStep::Remove),
        _ => true,
    }
}

impl Session<'_> {
    /// Lets a target forget what is in memory, where the run is to go on. Whether it has done so is noted.
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
