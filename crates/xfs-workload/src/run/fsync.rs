//! How long it takes to make one change durable: with nothing else in the log's list of what was committed, with
//! some, and with as much as it holds before it is written unasked.
//!
//! ```text
//!  changes of other files ──► list of commits ─── limit reached ──► written unasked
//!                                    └─────────── fsync ──────────► written: this is timed
//! ```
//!
//! # Invariants
//!
//! - **I1** A time counts only if nothing of the list was written before the fsync. Ours says so by its
//!   statistics, and the kernel by what it has written to the log; how full its list is it does not say.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroxfs::{OpenOptions, SetAttributes, Upkeep};

use super::{Beside, Session, Subject, fill};
use crate::error::WorkloadError;
use crate::report::{Behind, Latency};
use crate::target::kernel::Directory;
use crate::target::library::Library;
use crate::target::{Performed, Target};
use crate::variant::Variant;
use crate::work::Work;

const SECTION: &str = "fsync";

/// Changes of other files before each fsync, and how often that is done.
struct Load {
    step: &'static str,
    others: u64,
    times: usize,
}

/// How many there are in the middle.
const SOME: u64 = 5000;

/// Files by which it is found out how much a change puts into the list.
const PROBES: u64 = 500;

/// The list is written unasked at this part of the log, and at [`MOST_LIST_BYTES`] in any case (docs/internals/log.md).
const LIST_OF_LOG: u64 = 8;
const MOST_LIST_BYTES: u64 = 32 << 20;

/// What is called full: nine tenths of that.
const FULL_TENTHS: u64 = 9;

impl Load {
    /// All of them, where so many changes make the list full.
    fn all(full: u64) -> [Self; 3] {
        [
            Self { step: "list empty", others: 0, times: 200 },
            Self { step: "some in the list", others: SOME.min(full / 2), times: 10 },
            Self { step: "list nearly full", others: full, times: 5 },
        ]
    }
}

/// What is known of the list of commits.
struct List {
    /// Bytes in it, where they are told.
    bytes: Option<u64>,
    /// How much has been written of it so far, in whatever unit, where that is told.
    written: Option<u64>,
}

/// Who has the files.
trait Files {
    /// Changes the permissions of a file.
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError>;

    /// Makes it durable.
    fn sync(&self, number: u64) -> Result<(), WorkloadError>;

    /// How the list stands.
    fn list(&self) -> Result<List, WorkloadError>;
}

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    if plan.kernel.is_some() {
        let why =
            "it does not say; it was given the changes that fill ours, for a log of the same size";
        session.collected.note("how full the kernel's list of commits was", why);
    }
    session.begin(SECTION, Variant::Ours, 1)?;
    let full = changes_of_full_list(session)?;
    let loads = Load::all(full);
    // The first file is the one that is synced.
    let work = Work::new(1, full + 1);
    for _ in 0..plan.runs {
        for variant in plan.variants(&[Variant::OneSlot]) {
            session.begin(SECTION, variant, 1)?;
            match &plan.kernel {
                Some(path) if variant == Variant::Kernel => {
                    let mut directory = Directory::open(path)?;
                    fill(&mut directory, &work)?;
                    session.cool(&mut directory, variant)?;
                    let above = path.join(work.folder(0));
                    let files = Theirs { directory: &directory, above: &above, work };
                    time_all(session, variant, &files, &loads)?;
                    directory.close()?;
                }
                _ => {
                    let store = session.store(variant, work.total())?;
                    let mut library = Library::open(store, options(variant))?;
                    fill(&mut library, &work)?;
                    session.cool(&mut library, variant)?;
                    time_all(session, variant, &Ours { library: &library, work }, &loads)?;
                    library.close()?;
                }
            }
        }
    }
    Ok(())
}

/// How ours is opened: nothing is forced in the background while the list fills (I1). The kernel does so every
/// thirty seconds.
fn options(variant: Variant) -> OpenOptions {
    variant.options().upkeep(Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST))
}

/// How many changes of different files there are in a list that is nearly as large as it gets.
fn changes_of_full_list(session: &Session<'_>) -> Result<u64, WorkloadError> {
    let work = Work::new(1, PROBES);
    let store = session.store(Variant::Ours, PROBES)?;
    let mut library = Library::open(store, options(Variant::Ours))?;
    fill(&mut library, &work)?;
    // What is not in place yet of an inode is put into the list again with each change.
    library.cool()?;
    let files = Ours { library: &library, work };
    (0..PROBES).try_for_each(|number| files.change(number, 0o640))?;
    let bytes = files.list()?.bytes.unwrap_or_default();
    library.close()?;
    let limit = (session.plan.log_bytes / LIST_OF_LOG).min(MOST_LIST_BYTES);
    Ok(limit * FULL_TENTHS / 10 * PROBES / bytes.max(1))
}

fn time_all(
    session: &mut Session<'_>,
    variant: Variant,
    files: &dyn Files,
    loads: &[Load],
) -> Result<(), WorkloadError> {
    for load in loads {
        let Some(Timed { durations, list_bytes }) = time(session, files, load)? else {
            let what = format!("fsync by {}, {}", variant.name(), load.step);
            let why = "its list of commits is written before it comes to that";
            session.collected.note(what, why);
            continue;
        };
        let (all, operations) = (durations.iter().sum(), durations.len() as u64);
        let performed = Performed { operations, worked: all, drained: all, is_certain: true };
        let subject = Subject { section: SECTION, step: load.step, variant, threads: 1 };
        let behind = Some(Behind { changes: load.others, list_bytes });
        let beside = Beside { latency: Some(latency(durations)), behind, ..Beside::default() };
        session.record(&subject, performed, beside)?;
    }
    Ok(())
}

/// What counts of one load.
struct Timed {
    /// How long each fsync took.
    durations: Vec<Duration>,
    /// Bytes in the list, at least.
    list_bytes: Option<u64>,
}

/// Times a load. `None`: however often it is tried, something of the list has been written before (I1).
fn time(
    session: &Session<'_>,
    files: &dyn Files,
    load: &Load,
) -> Result<Option<Timed>, WorkloadError> {
    let (mut durations, mut list_bytes) = (Vec::new(), None);
    for round in 0..2 * load.times {
        if durations.len() == load.times {
            break;
        }
        if session.watcher.is_over() {
            return Err(WorkloadError::Interrupted);
        }
        // Another mode each time, so that there is something to write.
        let mode = if round % 2 == 0 { 0o600 } else { 0o640 };
        let before = files.list()?;
        (1..=load.others).try_for_each(|number| files.change(number, mode))?;
        files.change(0, mode)?;
        let list = files.list()?;
        let start = Instant::now();
        files.sync(0)?;
        let duration = start.elapsed();
        if list.written == before.written {
            durations.push(duration);
            list_bytes =
                list.bytes.map(|bytes| list_bytes.map_or(bytes, |least: u64| least.min(bytes)));
        }
    }
    Ok((durations.len() == load.times).then_some(Timed { durations, list_bytes }))
}

fn latency(mut durations: Vec<Duration>) -> Latency {
    durations.sort();
    let at = |index: usize| durations.get(index).map_or(0.0, Duration::as_secs_f64);
    let last = durations.len().saturating_sub(1);
    Latency { median_seconds: at(last / 2), worst_seconds: at(last) }
}

struct Ours<'a> {
    library: &'a Library,
    work: Work,
}

impl Ours<'_> {
    fn node(&self, number: u64) -> Result<ferroxfs::Node, WorkloadError> {
        let path = Path::new("/").join(self.work.folder(0)).join(self.work.name(number));
        Ok(self.library.volume().lookup(path)?)
    }
}

impl Files for Ours<'_> {
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError> {
        let changes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        Ok(self.node(number)?.set_attributes(&changes)?)
    }

    fn sync(&self, number: u64) -> Result<(), WorkloadError> {
        Ok(self.node(number)?.open()?.sync_all()?)
    }

    fn list(&self) -> Result<List, WorkloadError> {
        let checkpoints = self.library.volume().statistics()?.checkpoints;
        Ok(List { bytes: Some(checkpoints.gathered_bytes), written: Some(checkpoints.written) })
    }
}

struct Theirs<'a> {
    directory: &'a Directory,
    above: &'a Path,
    work: Work,
}

impl Files for Theirs<'_> {
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError> {
        let path = self.above.join(self.work.name(number));
        let changed = fs::set_permissions(&path, Permissions::from_mode(mode.into()));
        changed.map_err(WorkloadError::file(&path))
    }

    fn sync(&self, number: u64) -> Result<(), WorkloadError> {
        let path = self.above.join(self.work.name(number));
        File::open(&path).and_then(|file| file.sync_all()).map_err(WorkloadError::file(&path))
    }

    fn list(&self) -> Result<List, WorkloadError> {
        Ok(List { bytes: None, written: self.directory.counted()?.log_bytes })
    }
}
