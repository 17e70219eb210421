//! Operations one after the other, for a program that counts the instructions of this process.
//!
//! Owns: the operations, their order, and the marks between them. Does **not** own: counting
//! (`account`).
//!
//! ```text
//!  boundary  create  boundary  (close, open)  boundary  walk  boundary  …
//! ```
//!
//! Each operation stands between two calls of [`operation_boundary`], with nothing else between
//! them. It includes its deferred work: the log is forced before the second call.

use std::path::Path;

use ferroxfs::OpenOptions;

use crate::commit::CommitLoad;
use crate::error::WorkloadError;
use crate::repeat::repeat;
use crate::store::{NewVolume, Store};
use crate::target::WorkTarget;
use crate::target::library::Library;
use crate::work::{Work, WorkStep};

/// An operation whose instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A step of the workloads over files.
    Step(WorkStep),
    /// Opens and closes a file of a subdirectory.
    Open,
    /// Commits a transaction to a log without a volume.
    Commit,
}

impl Operation {
    /// All operations, in the order in which they run.
    pub const ALL: [Self; 10] = [
        Self::Step(WorkStep::Create),
        Self::Step(WorkStep::Walk),
        Self::Step(WorkStep::WalkThrough),
        Self::Step(WorkStep::Visit),
        Self::Step(WorkStep::Change),
        Self::Step(WorkStep::BulkstatPast),
        Self::Step(WorkStep::Bulkstat),
        Self::Open,
        Self::Step(WorkStep::Remove),
        Self::Commit,
    ];

    /// Returns the name of the operation in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step(WorkStep::Visit) => "lookup",
            Self::Step(step) => step.name(),
            Self::Open => "open",
            Self::Commit => "commit",
        }
    }
}

/// Marks the beginning or the end of an operation. A tool that counts instructions stops at each
/// call of this function, which it knows by its name.
#[inline(never)]
pub fn operation_boundary(operation: usize) {
    std::hint::black_box(operation);
}

const LOG_BYTES: u64 = 64 << 20;
const GROUPS: u64 = 4;

/// Performs each operation with this many files. Each but the first begins with cold caches.
/// Returns the number of operations between each pair of boundaries, in the order of
/// [`Operation::ALL`].
///
/// # Errors
///
/// The first error.
pub fn run_operations(files: u64) -> Result<Vec<u64>, WorkloadError> {
    let work = Work::new(1, files);
    let shape = NewVolume { files, groups: GROUPS, log_bytes: LOG_BYTES, parents: true };
    let mut library = Library::open(Store::in_memory(&shape)?, OpenOptions::new())?;
    library.prepare(&work)?;
    let mut counts = Vec::new();
    for (index, operation) in Operation::ALL.into_iter().enumerate() {
        if index > 0 {
            library.cool()?;
        }
        let count = match operation {
            Operation::Step(step) => {
                operation_boundary(index);
                let performed = library.perform(step, &work)?;
                operation_boundary(index);
                performed.operations
            }
            Operation::Open => opened(&library, &work, index)?,
            Operation::Commit => committed(files, index)?,
        };
        counts.push(count);
    }
    library.close()?;
    Ok(counts)
}

/// Opens a file as many times as there are files.
fn opened(library: &Library, work: &Work, index: usize) -> Result<u64, WorkloadError> {
    let path = Path::new("/").join(work.folder(0)).join(work.name(0));
    let open = || Ok(library.volume().open_file_read_only(&path).map(drop)?);
    open()?;
    operation_boundary(index);
    let (performed, _) = repeat(1, work.files, open)?;
    operation_boundary(index);
    Ok(performed.operations + performed.operations / 10)
}

/// Commits small transactions to a new log: 16 for each of `files`. `index` is the number of the
/// operation, for the boundaries that the counting program looks for. Returns the number of
/// commits.
fn committed(files: u64, index: usize) -> Result<u64, WorkloadError> {
    const COMMITS_OF_A_FILE: u64 = 16;
    let load = CommitLoad {
        threads: 1,
        slots: 8,
        commits: files * COMMITS_OF_A_FILE,
        objects: 2048,
        log_bytes: *crate::commit::LOG_BYTES.start(),
        shares: false,
    };
    let (performed, _) = load.run_between(|| operation_boundary(index))?;
    Ok(performed.operations)
}
