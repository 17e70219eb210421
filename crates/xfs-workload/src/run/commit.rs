//! Small transactions, on objects of each thread's own and with some that all share.

use super::{MeasurementId, RunDetails, Session};
use crate::commit::CommitLoad;
use crate::error::WorkloadError;
use crate::variant::Variant;

const SECTION: &str = "commit";
/// Committing is quicker than making files: so many for each file that others would make.
const COMMITS: u64 = 20;
/// Pairs of objects, all threads together.
const OBJECTS: u64 = 1 << 16;
/// Slots for each processor, as a log is opened with.
const SLOTS: usize = 2;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "its transactions are not to be had without a change of files";
        session.collected.note("commits of the kernel", why);
    }
    for threads in &plan.threads {
        for _ in 0..plan.runs {
            for variant in [Variant::Ours, Variant::OneSlot] {
                if variant.is_before() && !plan.before {
                    continue;
                }
                session.begin(SECTION, variant, *threads)?;
                for (step, shares) in [("private objects", false), ("one in eight shared", true)] {
                    let slots = match variant {
                        Variant::OneSlot => 1,
                        _ => session.processors.count() * SLOTS,
                    };
                    let commits = session.work(*threads).total() * COMMITS;
                    let load = CommitLoad {
                        threads: *threads,
                        slots,
                        commits,
                        objects: OBJECTS.min(commits),
                        log_bytes: plan.log_bytes,
                        shares,
                    };
                    let (performed, counted) = load.run()?;
                    let id = MeasurementId { section: SECTION, step, variant, threads: *threads };
                    let details = RunDetails { counted, ..RunDetails::default() };
                    session.record(&id, performed, details)?;
                }
            }
        }
    }
    Ok(())
}
