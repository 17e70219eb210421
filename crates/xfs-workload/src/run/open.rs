//! One file, opened for reading and closed by all threads at once.
//!
//! The path has two components. Each open is one that an unlink and a lease take notice of. Three files
//! are tried, one after the other, whose inodes lie elsewhere in memory: how they lie beside what others
//! write is what such a figure may depend on.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Beside, Session, Subject, fill};
use crate::error::WorkloadError;
use crate::repeat::repeat;
use crate::target::Target;
use crate::target::kernel::Directory;
use crate::target::library::Library;
use crate::variant::Variant;
use crate::work::{Work, folder};

const SECTION: &str = "open";
const FILES: [&str; 3] = ["file 1", "file 2", "file 3"];
/// Opening is quicker than making: so many opens for each file that others would make.
const OPENS: u64 = 20;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    // The files lie in the directory of the first of all threads, of which there is just this one.
    let work = Work::new(1, FILES.len() as u64);
    for threads in &plan.threads {
        let opens = session.work(*threads).files * OPENS;
        for _ in 0..plan.runs {
            for variant in plan.variants(&[Variant::LockPointer]) {
                session.begin(SECTION, variant, *threads)?;
                match &plan.kernel {
                    Some(path) if variant == Variant::Kernel => {
                        let mut directory = Directory::open(path)?;
                        fill(&mut directory, &work)?;
                        let open = |path: &Path| {
                            File::open(path).map(drop).map_err(WorkloadError::file(path))
                        };
                        each(session, (variant, *threads, opens), &path.join(folder(0)), &open)?;
                        directory.close()?;
                    }
                    _ => {
                        let store = session.store(variant, work.total())?;
                        let mut library = Library::open(store, variant.options())?;
                        fill(&mut library, &work)?;
                        let volume = library.volume();
                        let open = |path: &Path| Ok(volume.open_file_read_only(path).map(drop)?);
                        let above = Path::new("/").join(folder(0));
                        each(session, (variant, *threads, opens), &above, &open)?;
                        library.close()?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Opens each of the files so often in each of so many threads.
fn each(
    session: &mut Session<'_>,
    (variant, threads, opens): (Variant, usize, u64),
    above: &Path,
    open: &(dyn Fn(&Path) -> Result<(), WorkloadError> + Sync),
) -> Result<(), WorkloadError> {
    let work = Work::new(1, FILES.len() as u64);
    for (number, step) in (0..).zip(FILES) {
        let path: PathBuf = above.join(work.name(number));
        let (performed, counted) = repeat(threads, opens, || open(&path))?;
        let subject = Subject { section: SECTION, step, variant, threads };
        let beside = Beside { counted, ..Beside::default() };
        session.record(&subject, performed, beside)?;
    }
    Ok(())
}
