//! Measures listings of all inodes of one large volume, which is filled only once.

use super::{MeasurementId, RunDetails, Session, fill};
use crate::error::WorkloadError;
use crate::store::Store;
use crate::target::WorkTarget;
use crate::target::kernel::KernelDirectory;
use crate::target::library::Library;
use crate::variant::Variant;
use crate::work::{Work, WorkStep};

const SECTION: &str = "stream";

/// Number of files per directory. Directories stay short, because the workload measures inodes and
/// not long directories.
const DIRECTORY_FILES: u64 = 1000;

const STEPS: [WorkStep; 2] = [WorkStep::BulkstatPast, WorkStep::Bulkstat];

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    let fillers = session.processors.count();
    let files = plan.inodes.div_ceil(fillers as u64).max(1);
    let all = Work { directories: files.div_ceil(DIRECTORY_FILES), ..Work::new(fillers, files) };
    session.begin(&format!("{SECTION}: creating {} files", all.total()), Variant::Ours, fillers)?;
    let store = session.store(Variant::Ours, all.total())?;
    let mut library = Library::open(store.clone(), Variant::Ours.options())?;
    fill(&mut library, &all)?;
    library.close()?;
    let mut directory = match &plan.kernel {
        None => None,
        Some(path) => {
            session.begin(&format!("{SECTION}: creating files"), Variant::Kernel, fillers)?;
            let mut directory = KernelDirectory::open(path)?;
            fill(&mut directory, &all)?;
            Some(directory)
        }
    };
    for threads in &plan.threads {
        let work = Work { threads: *threads, ..all };
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::OneList]) {
                session.begin(SECTION, variant, *threads)?;
                match (variant, &mut directory) {
                    (Variant::Kernel, None) => {}
                    (Variant::Kernel, Some(directory)) => list(session, directory, variant, &work)?,
                    _ => list_ours(session, &store, variant, &work)?,
                }
            }
        }
    }
    directory.map_or(Ok(()), |mut directory| directory.close())
}

fn list_ours(
    session: &mut Session<'_>,
    store: &Store,
    variant: Variant,
    work: &Work,
) -> Result<(), WorkloadError> {
    let mut library = Library::open(store.clone(), variant.options())?;
    list(session, &mut library, variant, work)?;
    library.close()
}

fn list(
    session: &mut Session<'_>,
    target: &mut dyn WorkTarget,
    variant: Variant,
    work: &Work,
) -> Result<(), WorkloadError> {
    for step in STEPS {
        // A step that bypasses the cache does not use the list of cached inodes.
        if variant == Variant::OneList && step == WorkStep::BulkstatPast {
            continue;
        }
        let is_cold = session.cool(target, variant)?;
        let before = target.counted()?;
        let performed = match target.perform(step, work) {
            Err(WorkloadError::Unavailable { what, why }) => {
                session.collected.note(what, why);
                continue;
            }
            performed => performed?,
        };
        performed.check_least(session.plan.inodes, step)?;
        let counted = target.counted()?.since(&before);
        let (section, step, threads) = (SECTION, step.name(), work.threads);
        let id = MeasurementId { section, step, variant, threads };
        let details = RunDetails { counted, is_cold, ..RunDetails::default() };
        session.record(&id, performed, details)?;
    }
    Ok(())
}
