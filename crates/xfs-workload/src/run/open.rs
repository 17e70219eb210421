//! One file, opened for reading and closed by all threads at once.
//!
//! Owns: which files, and where in memory their inodes lie. Each open is one that an unlink and a lease take notice
//! of, of a path of two components.
//!
//! What is read of an inode at each open is a cache line by itself, whose place within the line is the same for all files.
//! Where the line lies is not: processors fetch lines in pairs, and the other one of the pair is written by
//! who changes the inode. So three files are tried whose lines lie at different places within two such pairs. An
//! allocator that has just given memory of the same size to somebody gives the inodes that follow all places in turn;
//! else they nearly all lie alike. Where the kernel puts its inodes nobody can see: its three files are as they come.
//!
//! # Invariants
//!
//! - **I1** A figure of ours is of a file whose inode lies where its name says. The inode stays in memory as long as
//!   the file is opened.

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

/// Bytes within which it counts where an inode lies: two pairs of cache lines.
const SPAN_BYTES: usize = 256;

/// Where the inodes lie that are tried, in bytes from the beginning of such a span, and what that is called.
const PLACES: [(usize, &str); 3] =
    [(0, "inode at 0 of 256 bytes"), (64, "at 64 of 256"), (128, "at 128 of 256")];

/// Bytes that an inode takes of the allocator, so that as many are taken in between.
const INODE_BYTES: usize = 192;

/// Files among which there is one for each place.
const CANDIDATES: u64 = 256;

/// Opening is quicker than making: so many opens for each file that others would make.
const OPENS: u64 = 20;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "nobody can see it: its three files are as they come";
        session.collected.note("where inodes of the kernel lie in memory", why);
    }
    // The files lie in the directory of the first of all threads, of which there is just this one.
    let work = Work::new(1, CANDIDATES);
    for threads in &plan.threads {
        let opens = session.work(*threads).files * OPENS;
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::LockPointer]) {
                session.begin(SECTION, variant, *threads)?;
                let id = (variant, *threads, opens);
                match &plan.kernel {
                    Some(path) if variant == Variant::Kernel => {
                        by_kernel(session, path, &work, id)?;
                    }
                    _ => by_library(session, &work, id)?,
                }
            }
        }
    }
    Ok(())
}

fn by_kernel(
    session: &mut Session<'_>,
    path: &Path,
    work: &Work,
    id: (Variant, usize, u64),
) -> Result<(), WorkloadError> {
    let mut directory = KernelDirectory::open(path)?;
    fill(&mut directory, work)?;
    let open = |path: &Path| File::open(path).map(drop).map_err(WorkloadError::file(path));
    for ((_, step), number) in PLACES.into_iter().zip(0..) {
        each(session, id, (step, path_of(path, work, number)), &open)?;
    }
    directory.close()
}

fn by_library(
    session: &mut Session<'_>,
    work: &Work,
    id: (Variant, usize, u64),
) -> Result<(), WorkloadError> {
    let store = session.store(id.0, work.total())?;
    let mut library = Library::open(store, id.0.options())?;
    fill(&mut library, work)?;
    library.cool()?;
    let volume = library.volume();
    let open = |path: &Path| Ok(volume.open_file_read_only(path).map(drop)?);
    for ((_, step), file) in PLACES.into_iter().zip(files_at_places(volume, work)?) {
        match file {
            Some((_node, path)) => each(session, id, (step, path), &open)?,
            None => session.collected.note(step, "no inode came to lie there"),
        }
    }
    library.close()
}

/// A file for each of the places, whose inode lies there as long as its node is held (I1). None of the files is
/// in memory yet.
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

/// Opens a file so often in each of so many threads.
fn each(
    session: &mut Session<'_>,
    (variant, threads, opens): (Variant, usize, u64),
    (step, path): (&str, PathBuf),
    open: &(dyn Fn(&Path) -> Result<(), WorkloadError> + Sync),
) -> Result<(), WorkloadError> {
    let (performed, counted) = repeat(threads, opens, || open(&path))?;
    let id = MeasurementId { section: SECTION, step, variant, threads };
    session.record(&id, performed, RunDetails { counted, ..RunDetails::default() })
}

#[cfg(test)]
mod tests;
