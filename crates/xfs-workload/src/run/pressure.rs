//! Measures lookups in an order that defeats caching, once with memory for all inodes and once with
//! memory for a tenth of them.
//!
//! An option limits how many inodes the library caches. The kernel has no such setting, so a
//! separate process looks files up through the kernel in a memory cgroup. The first pass has no
//! limit, and shows how much memory the inodes take. The limit of the second pass leaves a tenth of
//! this memory for inodes, in addition to the memory of the process itself.

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

/// The ratio of all inodes to those that fit in memory in the second pass.
const SHARE: u64 = 10;

/// The smallest limit of the inode cache, in inodes, for the pass in which all inodes must fit.
const LEAST_ROOM: u64 = 1 << 16;

/// Number of bytes of the buffer cache per file. It suffices for all files in either pass, so that
/// only the memory for inodes is short. It is twice the disk space of an inode, its names and its
/// index entries.
const BUFFER_BYTES: u64 = 2 << 10;

/// The part of all inodes that fits in memory.
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
            // Twice the number of files: directories are inodes too, and the limit is not exact.
            InodeRoom::All => (2 * work.total()).max(LEAST_ROOM),
            InodeRoom::Tenth => (work.total() / SHARE).max(1),
        };
        let buffers = usize::try_from(BUFFER_BYTES * work.total()).unwrap_or(usize::MAX);
        let options = variant.options().cached_inodes(inodes).cache_bytes(buffers);
        let mut library = Library::open(session.store(variant, work.total())?, options)?;
        visit(session, &mut library, Visit { variant, room }, work, |_, library| {
            Ok((library.perform(WorkStep::Visit, work)?, None))
        })?;
        library.close()?;
    }
    Ok(())
}

/// Measures lookups through the kernel: first without a memory limit, and then, if `bounds` is set,
/// with one. Returns whether the limit works. If it does not, later calls must not set `bounds`:
/// each attempt may take as long as the time limit of a worker.
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
    visit(
        session,
        &mut directory,
        Visit { variant: Variant::Kernel, room: InodeRoom::All },
        work,
        |_, directory| Ok((directory.perform(WorkStep::Visit, work)?, None)),
    )?;
    directory.close()?;
    Ok(bounds)
}

/// Runs the lookups in a process in a memory cgroup. `found` is the memory that an earlier run
/// took. The limit of the group then leaves a tenth of the memory that the inodes took in that run.
/// Without `found` there is no limit. Returns the memory that this run takes. Returns `None`, and
/// records the reason, if this machine cannot run a process in a memory cgroup.
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
    let visited = visit(
        session,
        &mut directory,
        Visit { variant: Variant::Kernel, room },
        work,
        |session, _| {
            let limit = left.map(|(found, bytes)| found.limit(bytes));
            let visited = worker::visit(worker, limit, path, work, &|| session.watcher.is_over())?;
            let footprint = match left {
                Some(_) => visited.footprint,
                None => visited.footprint.check_counted(work.total())?,
            };
            taken = Some(footprint);
            let bytes = left.map_or(footprint.inodes_bytes, |(_, bytes)| bytes);
            Ok((visited.performed, Some(bytes)))
        },
    );
    directory.close()?;
    match visited {
        Err(WorkloadError::Unavailable { why, .. }) => {
            session.collected.note(format!("{} by the kernel", InodeRoom::Tenth.step()), why);
            Ok(None)
        }
        visited => visited.map(|()| taken),
    }
}

/// One measurement of lookups: the variant that performs them (ferroxfs or the kernel), and the
/// part of the inodes that fits in memory.
#[derive(Clone, Copy)]
struct Visit {
    variant: Variant,
    room: InodeRoom,
}

/// Creates the files, runs `look` with cold caches, and records the result. `look` looks the files
/// up. It returns the times of the lookups and, if known, the memory in bytes that the inodes take.
fn visit<T: WorkTarget>(
    session: &mut Session<'_>,
    target: &mut T,
    Visit { variant, room }: Visit,
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
