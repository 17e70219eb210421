//! Measures the time to make one change durable while other changes wait in the log's list of
//! commits (changes in memory that are not written to the log yet). The list is empty, partly
//! filled, or nearly as long as it can be before the log writes it by itself.
//!
//! ```text
//!  changes of other files ──► list of commits ─── limit reached ──► written unasked
//!                                    └─────────── fsync ──────────► written: this is timed
//! ```
//!
//! # Invariants
//!
//! - **I1** A time counts only if no part of the list was written before the fsync. ferroxfs's
//!   statistics show whether that is so. For the kernel, the amount written to the log shows it.
//!   The kernel does not report how full its list is.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroxfs::admin::Upkeep;
use ferroxfs::{OpenOptions, SetAttributes};

use super::{MeasurementId, RunDetails, Session, fill};
use crate::error::WorkloadError;
use crate::report::{Latency, PendingChanges};
use crate::target::kernel::KernelDirectory;
use crate::target::library::Library;
use crate::target::{Performed, WorkTarget};
use crate::variant::Variant;
use crate::work::Work;

const SECTION: &str = "fsync";

/// The number of changes of other files before each fsync, and the number of repetitions.
struct FsyncLoad {
    step: &'static str,
    others: u64,
    times: usize,
}

/// Number of changes of other files in the load that fills the list of commits partly.
const SOME: u64 = 5000;

/// Number of files that are changed to measure how much space one change takes in the list.
const PROBES: u64 = 500;

/// The ratio of the log size to the limit of the list of commits. The limit is at most
/// [`MOST_LIST_BYTES`]. At the limit the log writes the list (docs/internals/log.md).
const LIST_OF_LOG: u64 = 8;
const MOST_LIST_BYTES: u64 = 32 << 20;

/// How far the list of commits is filled for the nearly full case, in tenths of its limit.
const FULL_TENTHS: u64 = 9;

impl FsyncLoad {
    /// Returns the loads for an empty, a partly filled and a nearly full list. `full` is the number
    /// of changes of other files that makes the list nearly full.
    fn all(full: u64) -> [Self; 3] {
        [
            Self { step: "list empty", others: 0, times: 200 },
            Self { step: "some in the list", others: SOME.min(full / 2), times: 10 },
            Self { step: "list nearly full", others: full, times: 5 },
        ]
    }
}

/// The state of the log's list of commits.
struct CommitList {
    /// Number of bytes in the list, if known.
    bytes: Option<u64>,
    /// How much of the list has been written to the log so far, in an arbitrary unit, if known. Two
    /// values are only compared for equality.
    written: Option<u64>,
}

/// The files of one target whose changes are made durable.
trait FsyncFiles {
    /// Changes the permissions of the file with index `number`.
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError>;

    /// Makes all changes of the file with index `number` durable, by fsync.
    fn sync(&self, number: u64) -> Result<(), WorkloadError>;

    /// Returns the state of the log's list of commits.
    fn list(&self) -> Result<CommitList, WorkloadError>;
}

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why = "the kernel does not report it; it got the changes that fill our list, for a log of the same size";
        session.collected.note("how full the kernel's list of commits was", why);
    }
    session.begin(SECTION, Variant::Ours, 1)?;
    let full = changes_of_full_list(session)?;
    let loads = FsyncLoad::all(full);
    // The first file is the one that is synced.
    let work = Work::new(1, full + 1);
    for _ in 0..plan.runs {
        for variant in plan.variants(&[Variant::OneSlot]) {
            session.begin(SECTION, variant, 1)?;
            match &plan.kernel {
                Some(path) if variant == Variant::Kernel => {
                    let mut directory = KernelDirectory::open(path)?;
                    fill(&mut directory, &work)?;
                    session.cool(&mut directory, variant)?;
                    let above = path.join(work.folder(0));
                    let files = KernelFiles { directory: &directory, above: &above, work };
                    time_all(session, variant, &files, &loads)?;
                    directory.close()?;
                }
                _ => {
                    let store = session.store(variant, work.total())?;
                    let mut library = Library::open(store, options(variant))?;
                    fill(&mut library, &work)?;
                    session.cool(&mut library, variant)?;
                    time_all(session, variant, &LibraryFiles { library: &library, work }, &loads)?;
                    library.close()?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the options for opening the volume of ferroxfs. With these options the background force
/// of the log is so rare that it does not empty the list of commits while the measurement fills the
/// list (I1). In the kernel, this force comes every thirty seconds.
fn options(variant: Variant) -> OpenOptions {
    variant.options().upkeep(Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST))
}

/// Returns the number of changes of different files that nearly fill the log's list of commits.
fn changes_of_full_list(session: &Session<'_>) -> Result<u64, WorkloadError> {
    let work = Work::new(1, PROBES);
    let store = session.store(Variant::Ours, PROBES)?;
    let mut library = Library::open(store, options(Variant::Ours))?;
    fill(&mut library, &work)?;
    // An inode that is not yet written in place enters the list again with each change.
    library.cool()?;
    let files = LibraryFiles { library: &library, work };
    (0..PROBES).try_for_each(|number| files.change(number, 0o640))?;
    let bytes = files.list()?.bytes.unwrap_or_default();
    library.close()?;
    let limit = (session.plan.log_bytes / LIST_OF_LOG).min(MOST_LIST_BYTES);
    Ok(limit * FULL_TENTHS / 10 * PROBES / bytes.max(1))
}

fn time_all(
    session: &mut Session<'_>,
    variant: Variant,
    files: &dyn FsyncFiles,
    loads: &[FsyncLoad],
) -> Result<(), WorkloadError> {
    for load in loads {
        let Some(FsyncTimes { durations, list_bytes }) = time(session, files, load)? else {
            let what = format!("fsync by {}, {}", variant.name(), load.step);
            let why = "the list of commits is always written earlier";
            session.collected.note(what, why);
            continue;
        };
        let (all, operations) = (durations.iter().sum(), durations.len() as u64);
        let performed = Performed { operations, worked: all, drained: all, is_certain: true };
        let id = MeasurementId { section: SECTION, step: load.step, variant, threads: 1 };
        let pending = Some(PendingChanges { changes: load.others, list_bytes });
        let details =
            RunDetails { latency: Some(latency(durations)), pending, ..RunDetails::default() };
        session.record(&id, performed, details)?;
    }
    Ok(())
}

/// The times of fsync under one load, and the size of the log's list of commits before them.
struct FsyncTimes {
    /// The duration of each fsync.
    durations: Vec<Duration>,
    /// A lower bound of the number of bytes in the log's list of commits before the fsync, if
    /// known.
    list_bytes: Option<u64>,
}

/// Measures fsync under a load. Returns `None` if in every attempt the log wrote a part of the list
/// before the fsync (I1).
fn time(
    session: &Session<'_>,
    files: &dyn FsyncFiles,
    load: &FsyncLoad,
) -> Result<Option<FsyncTimes>, WorkloadError> {
    let (mut durations, mut list_bytes) = (Vec::new(), None);
    for round in 0..2 * load.times {
        if durations.len() == load.times {
            break;
        }
        if session.watcher.is_over() {
            return Err(WorkloadError::Interrupted);
        }
        // The mode alternates, so that each change is a real one.
        let mode = if round % 2 == 0 { 0o600 } else { 0o640 };
        let before = files.list()?;
        (1..=load.others).try_for_each(|number| files.change(number, mode))?;
        files.change(0, mode)?;
        let list = files.list()?;
        let start = Instant::now();
        files.sync(0)?;
        let duration = start.elapsed();
        // I1: no part of the list was written before the fsync.
        if list.written == before.written {
            durations.push(duration);
            list_bytes =
                list.bytes.map(|bytes| list_bytes.map_or(bytes, |least: u64| least.min(bytes)));
        }
    }
    Ok((durations.len() == load.times).then_some(FsyncTimes { durations, list_bytes }))
}

fn latency(mut durations: Vec<Duration>) -> Latency {
    durations.sort();
    let at = |index: usize| durations.get(index).map_or(0.0, Duration::as_secs_f64);
    let last = durations.len().saturating_sub(1);
    Latency { median_seconds: at(last / 2), worst_seconds: at(last) }
}

struct LibraryFiles<'a> {
    library: &'a Library,
    work: Work,
}

impl LibraryFiles<'_> {
    fn node(&self, number: u64) -> Result<ferroxfs::Node, WorkloadError> {
        let path = Path::new("/").join(self.work.folder(0)).join(self.work.name(number));
        Ok(self.library.volume().lookup(path)?)
    }
}

impl FsyncFiles for LibraryFiles<'_> {
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError> {
        let changes = SetAttributes::new().mode(mode);
        Ok(self.node(number)?.set_attributes(&changes)?)
    }

    fn sync(&self, number: u64) -> Result<(), WorkloadError> {
        Ok(self.node(number)?.open()?.sync_all()?)
    }

    fn list(&self) -> Result<CommitList, WorkloadError> {
        let checkpoints = self.library.volume().statistics()?.checkpoints;
        Ok(CommitList {
            bytes: Some(checkpoints.gathered_bytes),
            written: Some(checkpoints.written),
        })
    }
}

struct KernelFiles<'a> {
    directory: &'a KernelDirectory,
    above: &'a Path,
    work: Work,
}

impl FsyncFiles for KernelFiles<'_> {
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError> {
        let path = self.above.join(self.work.name(number));
        let changed = fs::set_permissions(&path, Permissions::from_mode(mode.into()));
        changed.map_err(WorkloadError::file(&path))
    }

    fn sync(&self, number: u64) -> Result<(), WorkloadError> {
        let path = self.above.join(self.work.name(number));
        File::open(&path).and_then(|file| file.sync_all()).map_err(WorkloadError::file(&path))
    }

    fn list(&self) -> Result<CommitList, WorkloadError> {
        Ok(CommitList { bytes: None, written: self.directory.counted()?.log_bytes })
    }
}
