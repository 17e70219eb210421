//! Looking files up in an order that no memory of inodes likes, with room for all of them and for a tenth.
//!
//! Ours is told how many inodes may stay. The kernel has no such bound: a process of its own looks the files
//! up for it, in a memory cgroup. The first time that has no bound, and shows what the inodes take; the second
//! time it has one that leaves a tenth of that beside what the process takes itself.

use std::path::Path;

use super::{MeasurementId, RunDetails, Session, fill};
use crate::error::WorkloadError;
use crate::target::kernel::KernelDirectory;
use crate::target::library::Library;
use crate::target::{Performed, WorkTarget};
use crate::variant::Variant;
use crate::work::{Work, WorkStep};
use crate::worker::{self, MemoryFootprint};

const SECTION: &str = "pressure";

/// One in so many inodes stays in memory.
const SHARE: u64 = 10;

/// InodeRoom for all inodes is for so many at least.
const LEAST_ROOM: u64 = 1 << 16;

/// Bytes of buffers for each file, of which there is room for all in both steps, so that what is short is inodes: what an
/// inode, its names and what finds them take on disk, twice.
const BUFFER_BYTES: u64 = 2 << 10;

/// How much memory there is for inodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InodeRoom {
    All,
    Tenth,
}

impl InodeRoom {
    const fn step(self) -> &'static str {
        match self {
            Self::All => "visit, room for all",
            Self::Tenth => "visit, room for a tenth",
        }
    }
}

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    for threads in &plan.threads {
        let work = session.work(*threads);
        let mut bounds = true;
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::OneList]) {
                match &plan.kernel {
                    Some(path) if variant == Variant::Kernel => {
                        bounds = by_kernel(session, path, &work, bounds)?;
                    }
                    _ => by_library(session, variant, &work)?,
                }
            }
        }
    }
    Ok(())
}

fn by_library(
    session: &mut Session<'_>,
    variant: Variant,
    work: &Work,
) -> Result<(), WorkloadError> {
    for room in [InodeRoom::All, InodeRoom::Tenth] {
        session.begin(SECTION, variant, work.threads)?;
        let inodes = match room {
            // Twice as much as there is: directories are inodes too, and the bound is no exact one.
            InodeRoom::All => (2 * work.total()).max(LEAST_ROOM),
            InodeRoom::Tenth => (work.total() / SHARE).max(1),
        };
        let buffers = usize::try_from(BUFFER_BYTES * work.total()).unwrap_or(usize::MAX);
        let options = variant.options().cached_inodes(inodes).cache_bytes(buffers);
        let mut library = Library::open(session.store(variant, work.total())?, options)?;
        visit(session, &mut library, (variant, room), work, |_, library| {
            Ok((library.perform(WorkStep::Visit, work)?, None))
        })?;
        library.close()?;
    }
    Ok(())
}

/// Returns whether memory can be bounded for it. What has failed once is not tried again with as many threads: it may
/// have taken all the time that is given to it.
fn by_kernel(
    session: &mut Session<'_>,
    path: &Path,
    work: &Work,
    bounds: bool,
) -> Result<bool, WorkloadError> {
    if let Some(found) = bounded(session, path, work, None)? {
        return Ok(bounds && bounded(session, path, work, Some(found))?.is_some());
    }
    session.begin(SECTION, Variant::Kernel, work.threads)?;
    let mut directory = KernelDirectory::open(path)?;
    visit(session, &mut directory, (Variant::Kernel, InodeRoom::All), work, |_, directory| {
        Ok((directory.perform(WorkStep::Visit, work)?, None))
    })?;
    directory.close()?;
    Ok(bounds)
}

/// Has a process in a memory cgroup look the files up, with memory for all inodes, or for a tenth of what they
/// were found to take. Returns what they take. `None`: it cannot be done, for a reason that is noted.
fn bounded(
    session: &mut Session<'_>,
    path: &Path,
    work: &Work,
    found: Option<MemoryFootprint>,
) -> Result<Option<MemoryFootprint>, WorkloadError> {
    session.begin(SECTION, Variant::Kernel, work.threads)?;
    let worker = session.watcher.worker();
    let left = found.map(|found| (found, found.inodes_bytes / SHARE));
    let room = if left.is_some() { InodeRoom::Tenth } else { InodeRoom::All };
    let mut directory = KernelDirectory::open(path)?;
    let mut taken = None;
    let visited = visit(session, &mut directory, (Variant::Kernel, room), work, |session, _| {
        let limit = left.map(|(found, bytes)| found.limit(bytes));
        let visited = worker::visit(worker, limit, path, work, &|| session.watcher.is_over())?;
        let footprint = match left {
            Some(_) => visited.footprint,
            None => visited.footprint.check_counted(work.total())?,
        };
        taken = Some(footprint);
        let bytes = left.map_or(footprint.inodes_bytes, |(_, bytes)| bytes);
        Ok((visited.performed, Some(bytes)))
    });
    directory.close()?;
    match visited {
        Err(WorkloadError::Unavailable { why, .. }) => {
            session.collected.note(format!("{} by the kernel", InodeRoom::Tenth.step()), why);
            Ok(None)
        }
        visited => visited.map(|()| taken),
    }
}

/// Makes the files, has them looked up with nothing in memory, and records what came of it. `look` returns how many
/// bytes of memory were for inodes, if somebody knows.
fn visit<T: WorkTarget>(
    session: &mut Session<'_>,
    target: &mut T,
    (variant, room): (Variant, InodeRoom),
    work: &Work,
    look: impl FnOnce(&Session<'_>, &mut T) -> Result<(Performed, Option<u64>), WorkloadError>,
) -> Result<(), WorkloadError> {
    fill(target, work)?;
    let is_cold = session.cool(target, variant)?;
    let before = target.counted()?;
    let (performed, inodes_bytes) = look(session, target)?;
    let counted = target.counted()?.since(&before);
    let digest = Some(target.digest(work)?.to_string());
    let id = MeasurementId { section: SECTION, step: room.step(), variant, threads: work.threads };
    let details = RunDetails { counted, digest, is_cold, inodes_bytes, ..RunDetails::default() };
    session.record(&id, performed, details)
}
