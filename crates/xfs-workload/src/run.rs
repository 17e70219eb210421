//! Runs a plan. Variants that are compared take turns, so that other load on the machine affects
//! all of them.

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

/// Observes the run of a plan, and can end it.
pub trait Watcher {
    /// Called when a part of the run, such as the measurement of one variant, begins. `what`
    /// describes this part.
    fn begin(&mut self, what: &str);

    /// Returns whether the run must end early. If so, it fails with [`WorkloadError::Interrupted`].
    fn is_over(&self) -> bool;

    /// Returns the command that starts a process which calls [`serve`](crate::serve) with its
    /// standard input and output. That process looks files up through the kernel with little
    /// memory. `None` skips the measurements that need this process.
    fn worker(&self) -> Option<Command> {
        None
    }
}

/// Runs the plan. During the run, the calling thread is confined to some processors. After the run,
/// the thread may use all processors again.
///
/// # Errors
///
/// The first failure. A part that this machine or this user cannot run is not an error: the report
/// names it.
pub fn run(plan: &Plan, watcher: &mut dyn Watcher) -> Result<Report, WorkloadError> {
    let machine = Machine::this()?;
    let processors = Processors::available()?;
    // If the path is not a directory on XFS, the first workload that uses it reports that.
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

/// A run of a plan in progress.
struct Session<'a> {
    plan: &'a Plan,
    processors: Processors,
    watcher: &'a mut dyn Watcher,
    collected: Collected,
}

/// Returns `work` with one directory per ten files, as fs_mark has it, unless the plan sets the
/// number of directories.
fn in_many_directories(work: Work) -> Work {
    let directories = match work.directories {
        0 => (work.files / FILES_OF_A_DIRECTORY).max(1),
        directories => directories,
    };
    Work { directories, ..work }
}

const FILES_OF_A_DIRECTORY: u64 = 10;

/// The identity of one figure in the report: section, step, variant and number of threads.
struct MeasurementId<'a> {
    section: &'a str,
    step: &'a str,
    variant: Variant,
    threads: usize,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), WorkloadError> {
        if self.plan.kernel.is_none() {
            self.collected.note("the kernel's XFS", "no directory on the kernel's XFS was given");
        }
        if self.plan.kernel.is_some() && self.plan.folder.is_none() {
            let why =
                "our volumes are in memory, where a flush costs nothing; use --folder for a device";
            self.collected.note("ferroxfs on a device like the kernel's", why);
        }
        if !self.plan.before {
            self.collected.note("single decisions reverted", "not requested");
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
                // Steps of the file sequence.
                Workload::Create
                | Workload::Walk
                | Workload::Chmod
                | Workload::Bulkstat
                | Workload::Unlink => {}
            }
        }
        Ok(())
    }

    /// Announces a part of the run to the watcher, and confines the calling thread to as many
    /// processors as the part has threads.
    fn begin(&mut self, what: &str, variant: Variant, threads: usize) -> Result<(), WorkloadError> {
        if self.watcher.is_over() {
            return Err(WorkloadError::Interrupted);
        }
        self.watcher.begin(&format!("{what}, {threads} threads, {}", variant.name()));
        self.processors.confine(threads)
    }

    /// Returns the work (threads, files and names) that the plan sets for this many threads.
    fn work(&self, threads: usize) -> Work {
        let files = self.plan.files_of(threads, self.processors.count());
        Work { directories: self.plan.directories, ..Work::new(threads, files) }
    }

    /// Creates a volume with room for `files` files, and returns its device.
    fn store(&self, variant: Variant, files: u64) -> Result<Store, WorkloadError> {
        let Plan { groups, log_bytes, .. } = *self.plan;
        let volume = NewVolume { files, groups, log_bytes, parents: variant.has_parents() };
        match &self.plan.folder {
            Some(folder) => Store::in_folder(folder, &volume),
            None => Store::in_memory(&volume),
        }
    }

    /// Returns the target (a volume or a directory) on which a variant does its work.
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

    /// Creates and opens a volume of ferroxfs with room for `files` files.
    fn library(&self, variant: Variant, files: u64) -> Result<Library, WorkloadError> {
        Library::open(self.store(variant, files)?, variant.options())
    }

    /// Adds the times and details of one run to the collected measurements.
    fn record(
        &mut self,
        id: &MeasurementId<'_>,
        performed: Performed,
        details: RunDetails,
    ) -> Result<(), WorkloadError> {
        let RunDetails { counted, digest, is_cold, latency, pending, inodes_bytes } = details;
        if !performed.is_certain {
            let what = format!("the end of {} by the {}", id.step, id.variant.name());
            let why = "other programs create or remove files on that volume, so the true end may be later than the figure";
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
            pending,
            inodes_bytes,
        })
    }
}

/// Creates the directories and files that a measured step needs. The time that this takes is not
/// measured.
fn fill(target: &mut dyn WorkTarget, work: &Work) -> Result<(), WorkloadError> {
    target.prepare(work)?;
    target.perform(WorkStep::Create, work).map(drop)
}

/// The results of a run in addition to its times.
#[derive(Default)]
struct RunDetails {
    counted: Counted,
    digest: Option<String>,
    is_cold: bool,
    latency: Option<Latency>,
    pending: Option<PendingChanges>,
    inodes_bytes: Option<u64>,
}
