//! The order of a run: everything that is compared takes turns, so that what else the machine does
//! meets all of them alike.

mod commit;
mod fsync;
mod open;
mod pressure;
mod sequence;
mod stream;

use std::process::Command;

use crate::compare::Collected;
use crate::counted::Counted;
use crate::error::WorkloadError;
use crate::machine::Machine;
use crate::plan::{Plan, Workload};
use crate::processors::Processors;
use crate::report::{Latency, Measurement, PendingChanges, Report, SCHEMA_VERSION};
use crate::target::kernel::KernelDirectory;
use crate::target::library::Library;
use crate::target::separate_volumes::SeparateVolumes;
use crate::target::{Performed, WorkTarget};
use crate::variant::Variant;
use crate::work::{Work, WorkStep};
use crate::{NewVolume, Store};
use sequence::{FILES, MARKS};

/// What a run tells of itself while it goes on.
pub trait Watcher {
    /// Something begins.
    fn begin(&mut self, what: &str);

    /// Whether the run is to end, with [`WorkloadError::Interrupted`].
    fn is_over(&self) -> bool;

    /// How to start a process that calls [`serve`](crate::serve) with its standard input and output: the kernel is
    /// given little memory in such a one. `None`: that is left out.
    fn worker(&self) -> Option<Command> {
        None
    }
}

/// Runs everything. The calling thread may use all its processors again afterwards.
///
/// # Errors
///
/// What went wrong. What this machine or this user cannot do is no error: it stands in the report.
pub fn run(plan: &Plan, watcher: &mut dyn Watcher) -> Result<Report, WorkloadError> {
    let machine = Machine::this()?;
    let processors = Processors::available()?;
    // Whoever works in a directory that is none says so.
    let directory = plan.kernel.as_ref().and_then(|path| KernelDirectory::open(path).ok());
    let kernel_volume = directory.and_then(|directory| directory.volume().ok());
    let mut session = Session { plan, processors, watcher, collected: Collected::default() };
    let outcome = session.run();
    session.processors.confine(session.processors.count())?;
    outcome?;
    let Collected { measurements, not_measured } = session.collected;
    Ok(Report {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        counts_writes: cfg!(feature = "count"),
        is_optimised: !cfg!(debug_assertions),
        machine,
        plan: plan.clone(),
        kernel_volume,
        measurements,
        not_measured,
    })
}

/// A run under way.
struct Session<'a> {
    plan: &'a Plan,
    processors: Processors,
    watcher: &'a mut dyn Watcher,
    collected: Collected,
}

/// As many as fs_mark is told to use for so many files, unless it is said.
fn in_many_directories(work: Work) -> Work {
    let directories = match work.directories {
        0 => (work.files / FILES_OF_A_DIRECTORY).max(1),
        directories => directories,
    };
    Work { directories, ..work }
}

const FILES_OF_A_DIRECTORY: u64 = 10;

/// What one figure is of.
struct MeasurementId<'a> {
    section: &'a str,
    step: &'a str,
    variant: Variant,
    threads: usize,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), WorkloadError> {
        if self.plan.kernel.is_none() {
            self.collected.note("the kernel's XFS", "no directory of it was given");
        }
        if self.plan.kernel.is_some() && self.plan.folder.is_none() {
            let why = "volumes of ours lie in memory, where a flush costs nothing; --folder puts them elsewhere";
            self.collected.note("ferroxfs on a device like the kernel's", why);
        }
        if !self.plan.before {
            self.collected.note("single decisions taken back", "it was not asked for");
        }
        FILES.run(self, |work| work)?;
        for workload in &self.plan.workloads {
            match workload {
                Workload::Open => open::run(self)?,
                Workload::Commit => commit::run(self)?,
                Workload::Fsmark => MARKS.run(self, in_many_directories)?,
                Workload::Pressure => pressure::run(self)?,
                Workload::Stream => stream::run(self)?,
                Workload::Fsync => fsync::run(self)?,
                // Steps of the sequence over files.
                Workload::Create
                | Workload::Walk
                | Workload::Chmod
                | Workload::Bulkstat
                | Workload::Unlink => {}
            }
        }
        Ok(())
    }

    /// Says what begins, and confines it to as many processors as there are threads.
    fn begin(&mut self, what: &str, variant: Variant, threads: usize) -> Result<(), WorkloadError> {
        if self.watcher.is_over() {
            return Err(WorkloadError::Interrupted);
        }
        self.watcher.begin(&format!("{what}, {threads} threads, {}", variant.name()));
        self.processors.confine(threads)
    }

    /// How much each of so many threads does of what the plan says for files.
    fn work(&self, threads: usize) -> Work {
        let files = self.plan.files_of(threads, self.processors.count());
        Work { directories: self.plan.directories, ..Work::new(threads, files) }
    }

    /// A new volume for so many files.
    fn store(&self, variant: Variant, files: u64) -> Result<Store, WorkloadError> {
        let Plan { groups, log_bytes, .. } = *self.plan;
        let volume = NewVolume { files, groups, log_bytes, parents: variant.has_parents() };
        match &self.plan.folder {
            Some(folder) => Store::in_folder(folder, &volume),
            None => Store::in_memory(&volume),
        }
    }

    /// Who does the work.
    fn target(&self, variant: Variant, work: &Work) -> Result<Box<dyn WorkTarget>, WorkloadError> {
        match &self.plan.kernel {
            Some(path) if variant == Variant::Kernel => Ok(Box::new(KernelDirectory::open(path)?)),
            _ if variant == Variant::Apart => {
                let volumes = (0..work.threads).map(|_| self.library(variant, work.files));
                Ok(Box::new(SeparateVolumes::new(volumes.collect::<Result<_, _>>()?)))
            }
            _ => Ok(Box::new(self.library(variant, work.total())?)),
        }
    }

    /// A new volume for so many files, opened.
    fn library(&self, variant: Variant, files: u64) -> Result<Library, WorkloadError> {
        Library::open(self.store(variant, files)?, variant.options())
    }

    /// Adds what one run of something has come to.
    fn record(
        &mut self,
        id: &MeasurementId<'_>,
        performed: Performed,
        details: RunDetails,
    ) -> Result<(), WorkloadError> {
        let RunDetails { counted, digest, is_cold, latency, behind, inodes_bytes } = details;
        if !performed.is_certain {
            let what = format!("the end of {} by the {}", id.step, id.variant.name());
            let why =
                "others make or remove files on its volume: it may be later than what is shown";
            self.collected.note(what, why);
        }
        self.collected.add(Measurement {
            section: id.section.to_owned(),
            step: id.step.to_owned(),
            variant: id.variant,
            threads: id.threads,
            processors: id.threads.min(self.processors.count()),
            operations: performed.operations,
            worked_seconds: performed.worked.as_secs_f64(),
            drained_seconds: performed.drained.as_secs_f64(),
            runs: 1,
            is_cold,
            digest,
            counted,
            latency,
            behind,
            inodes_bytes,
        })
    }
}

/// Makes the files, without timing it.
fn fill(target: &mut dyn WorkTarget, work: &Work) -> Result<(), WorkloadError> {
    target.prepare(work)?;
    target.perform(WorkStep::Create, work).map(drop)
}

/// What is known of a run beside its times.
#[derive(Default)]
struct RunDetails {
    counted: Counted,
    digest: Option<String>,
    is_cold: bool,
    latency: Option<Latency>,
    behind: Option<PendingChanges>,
    inodes_bytes: Option<u64>,
}
