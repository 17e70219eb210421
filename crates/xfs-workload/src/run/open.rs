//! One file, opened for reading and closed by all threads at once.
//!
//! Owns: the choice of files, and where their inodes lie in memory. Each open uses a path of two
//! components, and is visible to unlinks and leases.
//!
//! Each open reads one cache line of the inode. The position within the line is the same for all
//! files. The position of the line in memory is not the same: processors fetch lines in pairs, and
//! the other line of the pair may be written by changes of the inode. So three files are tried
//! whose lines lie at different positions within two such pairs. If the allocator has just
//! allocated memory of the same size for another purpose, the following inodes take all positions
//! in turn. Otherwise nearly all inodes lie alike. The positions of the kernel's inodes are not
//! visible, so its three files are arbitrary.
//!
//! # Invariants
//!
//! - **I1** A figure of ours is for a file whose inode lies where the figure's name says. The inode
//!   stays in memory as long as the file is being opened.

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

/// The span within which the position of an inode matters: two pairs of cache lines.
const SPAN_BYTES: usize = 256;

/// The positions of inodes that are tried, in bytes from the start of such a span, and their names.
const PLACES: [(usize, &str); 3] =
    [(0, "inode at 0 of 256 bytes"), (64, "at 64 of 256"), (128, "at 128 of 256")];

/// Bytes that the allocator spends on an inode. The allocations between two inodes have this size.
const INODE_BYTES: usize = 192;

/// Number of files, among which there is one for each position.
const CANDIDATES: u64 = 256;

/// Opens per file of other workloads, because an open is faster than a creation.
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

/// Opens to measure.
#[derive(Clone, Copy)]
struct Opening {
    variant: Variant,
    threads: usize,
    /// The number of opens of each thread.
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

/// Returns a file for each position of an inode in memory. The inode stays at that position as long
/// as its node is held (I1). None of the files is in memory yet.
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

/// Opens a file `opens` times in each thread.
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
