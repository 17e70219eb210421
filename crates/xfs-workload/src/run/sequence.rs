//! Steps over files, one after the other: what all origins have.

use super::{Beside, Session, Subject};
use crate::error::WorkloadError;
use crate::target::{Cold, Target};
use crate::variant::Variant;
use crate::work::{Step, Work};

/// A sequence of steps over the same files.
pub(super) struct Sequence {
    pub(super) section: &'static str,
    pub(super) steps: &'static [Step],
    /// What else of ours it is compared with.
    pub(super) others: &'static [Variant],
    /// The steps that are reported; the others are done where those need them.
    pub(super) wants: fn(&Session<'_>, Step) -> bool,
}

/// Making, walking, changing, listing and removing files, nothing in memory when a step begins.
pub(super) const FILES: Sequence = Sequence {
    section: "files",
    steps: &[
        Step::Create,
        Step::Walk,
        Step::WalkThrough,
        Step::Change,
        Step::BulkstatPast,
        Step::Bulkstat,
        Step::Remove,
    ],
    others: &[Variant::OneList, Variant::OneSlot, Variant::Intents, Variant::Apart],
    wants: |session, step| session.plan.wants(step),
};

/// Making and removing files in many directories, as fs_mark does, with parent pointers and without.
pub(super) const MARKS: Sequence = Sequence {
    section: "fsmark",
    steps: &[Step::Create, Step::Remove],
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
        target: &mut dyn Target,
        (variant, step): (Variant, Step),
        work: &Work,
    ) -> Result<(), WorkloadError> {
        let is_wanted = (self.wants)(session, step) && concerns(variant, step);
        if !is_wanted {
            // The others need files, of the permissions that they are made with.
            if step == Step::Create {
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
        let left = if step == Step::Remove { 0 } else { work.total() };
        if digest.files() != left {
            let (who, found) = (variant.name(), digest.files());
            let message = format!("{who}: {found} files after {}, not {left}", step.name());
            return Err(WorkloadError::Disagreement(message));
        }
        let (section, step, threads) = (self.section, step.name(), work.threads);
        let subject = Subject { section, step, variant, threads };
        let beside =
            Beside { counted, digest: Some(digest.to_string()), is_cold, ..Beside::default() };
        session.record(&subject, performed, beside)
    }
}

/// Whether it makes a difference to a step that this decision is taken back.
fn concerns(variant: Variant, step: Step) -> bool {
    match variant {
        Variant::OneList => !matches!(step, Step::Walk | Step::BulkstatPast),
        Variant::OneSlot => matches!(step, Step::Create | Step::Change | Step::Remove),
        Variant::Intents => matches!(step, Step::Create | Step::Remove),
        _ => true,
    }
}

impl Session<'_> {
    /// Lets a target forget what is in memory, where the run is to go on. Whether it has done so is noted.
    pub(super) fn cool(
        &mut self,
        target: &mut dyn Target,
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
