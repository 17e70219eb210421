//! The sequence over files that all origins have: make, walk, change, list, remove.

use super::{Beside, Session, Subject};
use crate::error::WorkloadError;
use crate::target::{Cold, Target};
use crate::variant::Variant;
use crate::work::{Step, Work};

const STEPS: [Step; 6] =
    [Step::Create, Step::Walk, Step::Change, Step::BulkstatPast, Step::Bulkstat, Step::Remove];

const BEFORE: [Variant; 3] = [Variant::OneList, Variant::OneSlot, Variant::Intents];

pub(super) const SECTION: &str = "files";

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if !STEPS.into_iter().any(|step| plan.wants(step)) {
        return Ok(());
    }
    for threads in &plan.threads {
        let work = session.work(*threads);
        for _ in 0..plan.runs {
            for variant in plan.variants(&BEFORE) {
                session.begin(SECTION, variant, *threads)?;
                let mut target = session.target(variant, &work)?;
                target.prepare(&work)?;
                for step in STEPS {
                    perform(session, &mut *target, (variant, step), &work)?;
                }
                target.close()?;
            }
        }
    }
    Ok(())
}

/// Whether it makes a difference to a step that this decision is taken back.
fn concerns(variant: Variant, step: Step) -> bool {
    match variant {
        Variant::OneList => step != Step::BulkstatPast,
        Variant::OneSlot => matches!(step, Step::Create | Step::Change | Step::Remove),
        Variant::Intents => matches!(step, Step::Create | Step::Remove),
        _ => true,
    }
}

fn perform(
    session: &mut Session<'_>,
    target: &mut dyn Target,
    (variant, step): (Variant, Step),
    work: &Work,
) -> Result<(), WorkloadError> {
    let is_wanted = session.plan.wants(step) && concerns(variant, step);
    if !is_wanted {
        // The others need files, of the permissions that they are made with.
        if step == Step::Create {
            target.perform(step, work)?;
        }
        return Ok(());
    }
    let is_cold = match target.cool()? {
        Cold::Yes => true,
        Cold::No(why) => {
            session.collected.note(format!("{} with nothing in memory", variant.name()), why);
            false
        }
    };
    let before = target.counted()?;
    let performed = match target.perform(step, work) {
        Err(WorkloadError::Unavailable { what, why }) => {
            session.collected.note(what, why);
            return Ok(());
        }
        performed => performed?,
    };
    let counted = target.counted()?.since(&before);
    let digest = target.digest(work)?;
    let left = if step == Step::Remove { 0 } else { work.total() };
    if digest.files() != left {
        let (who, found) = (variant.name(), digest.files());
        let message = format!("{who}: {found} files after {}, not {left}", step.name());
        return Err(WorkloadError::Disagreement(message));
    }
    let subject = Subject { section: SECTION, step: step.name(), variant, threads: work.threads };
    let beside = Beside { counted, digest: Some(digest.to_string()), is_cold };
    session.record(&subject, performed, beside)
}
