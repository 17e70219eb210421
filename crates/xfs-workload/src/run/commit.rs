//! Measures small transactions, once with objects of each thread only, and once with some objects
//! that all threads share.

use super::{MeasurementId, RunDetails, Session};
use crate::commit::CommitLoad;
use crate::error::WorkloadError;
use crate::variant::Variant;

const SECTION: &str = "commit";
/// Number of commits that replace the creation of one file: a commit is that much shorter. A thread
/// makes this many commits for each file that the plan gives it.
const COMMITS: u64 = 20;
/// Number of pairs of an inode and a buffer, for all threads together.
const OBJECTS: u64 = 1 << 16;
/// Number of per-CPU slots of the log for each processor, as in the log of a volume.
const SLOTS: usize = 2;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "the kernel offers no transactions without changes of files";
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
