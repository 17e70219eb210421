//! How long it takes to make one change durable: with nothing else in the log's list, and with much.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroxfs::Changes;

use super::{Beside, Session, Subject, fill};
use crate::counted::Counted;
use crate::error::WorkloadError;
use crate::report::Latency;
use crate::target::kernel::Directory;
use crate::target::library::Library;
use crate::target::{Performed, Target};
use crate::variant::Variant;
use crate::work::{Work, folder};

const SECTION: &str = "fsync";

/// Changes of other files before each fsync, and how often that is done.
const LOADS: [(&str, u64, usize); 2] =
    [("nothing else to write", 0, 200), ("much else to write", 5000, 20)];

/// Who has the files.
trait Files {
    /// Changes the permissions of a file.
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError>;

    /// Makes it durable.
    fn sync(&self, number: u64) -> Result<(), WorkloadError>;
}

pub(super) fn run(session: &mut Session<'_>) -> Result<(), WorkloadError> {
    let plan = session.plan;
    let most = LOADS.iter().map(|(_, others, _)| *others).max().unwrap_or(0);
    // The first file is the one that is synced.
    let work = Work::new(1, most.min(plan.files) + 1);
    for _ in 0..plan.runs {
        for variant in plan.variants(&[Variant::OneSlot]) {
            session.begin(SECTION, variant, 1)?;
            match &plan.kernel {
                Some(path) if variant == Variant::Kernel => {
                    let mut directory = Directory::open(path)?;
                    fill(&mut directory, &work)?;
                    let files = Theirs { above: &path.join(folder(0)), work };
                    loads(session, variant, &files, &work)?;
                    directory.close()?;
                }
                _ => {
                    let store = session.store(variant, work.total())?;
                    let mut library = Library::open(store, variant.options())?;
                    fill(&mut library, &work)?;
                    loads(session, variant, &Ours { volumes: &library, work }, &work)?;
                    library.close()?;
                }
            }
        }
    }
    Ok(())
}

fn loads(
    session: &mut Session<'_>,
    variant: Variant,
    files: &dyn Files,
    work: &Work,
) -> Result<(), WorkloadError> {
    for (step, others, times) in LOADS {
        let others = others.min(work.files - 1);
        let mut durations = Vec::new();
        for round in 0..times {
            // Another mode each time, so that there is something to write.
            let mode = if round % 2 == 0 { 0o600 } else { 0o640 };
            (1..=others).try_for_each(|number| files.change(number, mode))?;
            files.change(0, mode)?;
            let start = Instant::now();
            files.sync(0)?;
            durations.push(start.elapsed());
        }
        let all = durations.iter().sum();
        let operations = times as u64;
        let performed = Performed { operations, worked: all, drained: all, is_certain: true };
        let subject = Subject { section: SECTION, step, variant, threads: 1 };
        let latency = Some(latency(durations));
        let counted = Counted::default();
        let beside = Beside { counted, digest: None, is_cold: false, latency };
        session.record(&subject, performed, beside)?;
    }
    Ok(())
}

fn latency(mut durations: Vec<Duration>) -> Latency {
    durations.sort();
    let at = |index: usize| durations.get(index).map_or(0.0, Duration::as_secs_f64);
    let last = durations.len().saturating_sub(1);
    Latency { median_seconds: at(last / 2), worst_seconds: at(last) }
}

struct Ours<'a> {
    volumes: &'a Library,
    work: Work,
}

impl Ours<'_> {
    fn node(&self, number: u64) -> Result<ferroxfs::Node, WorkloadError> {
        let path = Path::new("/").join(folder(0)).join(self.work.name(number));
        Ok(self.volumes.volume().lookup(path)?)
    }
}

impl Files for Ours<'_> {
    fn change(&self, number: u64, mode: u16) -> Result<(), WorkloadError> {
        let changes = Changes { mode: Some(mode), ..Changes::default() };
        Ok(self.node(number)?.change(&changes)?)
    }

    fn sync(&self, number: u64) -> Result<(), WorkloadError> {
        Ok(self.node(number)?.open()?.sync_all()?)
    }
}

struct Theirs<'a> {
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
}
