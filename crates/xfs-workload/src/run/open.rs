//! Measures how fast all threads open one file for reading and close it.
//!
//! Owns: the choice of files by the addresses of their inodes in memory. Each open uses a path of
//! two components, and is visible to unlinks and leases.
//!
//! Each open reads one cache line of the inode. Processors fetch cache lines in pairs, and changes
//! of the inode may write the other line of the pair. So the time depends on the address of the
//! inode within two pairs of lines (256 bytes). Three files are measured, whose inodes have
//! different addresses modulo 256. If the allocator has just allocated memory of the same size for
//! another purpose, the inodes that it allocates next take all these addresses in turn. Otherwise
//! nearly all inodes have the same address modulo 256. The addresses of the kernel's inodes are not
//! visible, so its three files are arbitrary.
//!
//! # Invariants
//!
//! - **I1** A figure of ferroxfs is for a file whose inode has the address that the figure's name
//!   says. The inode stays in memory while the figure is measured.

use std::fs::File;
use std::path::{Path, PathBuf};

use ferroxfs::{Node, Volume};

use super::{MeasurementId, RunDetails, Session, fill};
use crate::error::WorkloadError;
use crate::repeat::repeat;
use crate::target::WorkTarget;
use crate::target::kernel::KernelDirectory;
use crate::target::library::Library;
use crate::variant::Variant;
use crate::work::Work;

const SECTION: &str = "open";

/// Size of two pairs of cache lines in bytes. The measured address of an inode is its memory
/// address modulo this size.
const SPAN_BYTES: usize = 256;

/// The addresses of inodes, modulo `SPAN_BYTES`, for which opens are measured. Each has the name of
/// its figure in the report.
const PLACES: [(usize, &str); 3] =
    [(0, "inode at 0 of 256 bytes"), (64, "at 64 of 256"), (128, "at 128 of 256")];

/// Number of bytes that the allocator uses for an inode. Between two inodes, the measurement
/// allocates other memory of this size, so that the inodes get different addresses modulo
/// `SPAN_BYTES`.
const INODE_BYTES: usize = 192;

/// Number of files that are created: enough for each measured address to occur among their inodes.
const CANDIDATES: u64 = 256;

/// Number of opens that replace the creation of one file: an open is that much shorter. A thread
/// makes this many opens for each file that the plan gives it.
const OPENS: u64 = 20;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "it is not visible, so the kernel's three files are arbitrary";
        session.collected.note("where inodes of the kernel lie in memory", why);
    }
    // The files are in the directory of the first thread, and the work has only that thread.
    let work = Work::new(1, CANDIDATES);
    for threads in &plan.threads {
        let opens = session.work(*threads).files * OPENS;
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::LockPointer]) {
                session.begin(SECTION, variant, *threads)?;
                let opening = Opening { variant, threads: *threads, opens };
                match &plan.kernel {
                    Some(path) if variant == Variant::Kernel => {
                        by_kernel(session, path, &work, opening)?;
                    }
                    _ => by_library(session, &work, opening)?,
                }
            }
        }
    }
    Ok(())
}

/// The parameters of a measurement of opens.
#[derive(Clone, Copy)]
struct Opening {
    variant: Variant,
    threads: usize,
    /// Number of opens by each thread.
    opens: u64,
}

fn by_kernel(
    session: &mut Session<'_>,
    path: &Path,
    work: &Work,
    opening: Opening,
) -> Result<(), WorkloadError> {
    let mut directory = KernelDirectory::open(path)?;
    fill(&mut directory, work)?;
    let open = |path: &Path| File::open(path).map(drop).map_err(WorkloadError::file(path));
    for ((_, step), number) in PLACES.into_iter().zip(0..) {
        each(session, opening, step, &path_of(path, work, number), &open)?;
    }
    directory.close()
}

fn by_library(
    session: &mut Session<'_>,
    work: &Work,
    opening: Opening,
) -> Result<(), WorkloadError> {
    let store = session.store(opening.variant, work.total())?;
    let mut library = Library::open(store, opening.variant.options())?;
    fill(&mut library, work)?;
    library.cool()?;
    let volume = library.volume();
    let open = |path: &Path| Ok(volume.open_file_read_only(path).map(drop)?);
    for ((_, step), file) in PLACES.into_iter().zip(files_at_places(volume, work)?) {
        match file {
            Some((_node, path)) => each(session, opening, step, &path, &open)?,
            None => session.collected.note(step, "no inode was allocated at that position"),
        }
    }
    library.close()
}

/// Returns one file for each measured address. An element is `None` if no created inode has that
/// address. The inode keeps the address as long as the returned node exists (I1).
fn files_at_places(
    volume: &Volume,
    work: &Work,
) -> Result<[Option<(Node, PathBuf)>; PLACES.len()], WorkloadError> {
    let (mut found, mut between) = ([const { None }; PLACES.len()], Vec::new());
    for number in 0..work.files {
        between.push(vec![0_u8; INODE_BYTES]);
        let path = path_of(Path::new("/"), work, number);
        let node = volume.lookup(&path)?;
        let place = node.memory_address().map(|address| address % SPAN_BYTES);
        for ((wanted, _), file) in PLACES.iter().zip(&mut found) {
            if file.is_none() && place == Some(*wanted) {
                *file = Some((node.clone(), path.clone()));
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(found)
}

fn path_of(above: &Path, work: &Work, number: u64) -> PathBuf {
    above.join(work.folder(0)).join(work.name(number))
}

/// Measures how fast several threads open the file at `path`, and records the result.
fn each(
    session: &mut Session<'_>,
    Opening { variant, threads, opens }: Opening,
    step: &str,
    path: &Path,
    open: &(dyn Fn(&Path) -> Result<(), WorkloadError> + Sync),
) -> Result<(), WorkloadError> {
    let (performed, counted) = repeat(threads, opens, || open(path))?;
    let id = MeasurementId { section: SECTION, step, variant, threads };
    session.record(&id, performed, RunDetails { counted, ..RunDetails::default() })
}

#[cfg(test)]
mod tests;
