//! Looking files up in an order that no memory of inodes likes, with room for all of them and for a tenth.

use super::{Beside, Session, Subject, fill};
use crate::error::WorkloadError;
use crate::target::Target;
use crate::target::library::Library;
use crate::variant::Variant;
use crate::work::{Step, Work};

const SECTION: &str = "pressure";

/// One in so many inodes stays in memory.
const SHARE: u64 = 10;

/// How much memory there is for inodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    All,
    Tenth,
}

impl Room {
    const fn step(self) -> &'static str {
        match self {
            Self::All => "visit, room for all",
            Self::Tenth => "visit, room for a tenth",
        }
    }
}

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "the kernel has no bound of its own for the inodes of a volume";
        session.collected.note(format!("{} by the kernel", Room::Tenth.step()), why);
    }
    for threads in &plan.threads {
        let work = session.work(*threads);
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::OneList]) {
                for room in [Room::All, Room::Tenth] {
                    if variant == Variant::Kernel && room == Room::Tenth {
                        continue;
                    }
                    session.begin(SECTION, variant, *threads)?;
                    let mut target = target(session, (variant, room), &work)?;
                    visit(session, &mut *target, (variant, room), &work)?;
                    target.close()?;
                }
            }
        }
    }
    Ok(())
}

fn target(
    session: &Session<'_>,
    (variant, room): (Variant, Room),
    work: &Work,
) -> Result<Box<dyn Target>, WorkloadError> {
    if room == Room::All {
        return session.target(variant, work);
    }
    let options = variant.options().cached_inodes((work.total() / SHARE).max(1));
    Ok(Box::new(Library::open(session.store(variant, work.total())?, options)?))
}

fn visit(
    session: &mut Session<'_>,
    target: &mut dyn Target,
    (variant, room): (Variant, Room),
    work: &Work,
) -> Result<(), WorkloadError> {
    fill(target, work)?;
    let is_cold = session.cool(target, variant)?;
    let before = target.counted()?;
    let performed = target.perform(Step::Visit, work)?;
    let counted = target.counted()?.since(&before);
    let digest = Some(target.digest(work)?.to_string());
    let subject = Subject { section: SECTION, step: room.step(), variant, threads: work.threads };
    session.record(&subject, performed, Beside { counted, digest, is_cold, latency: None })
}
