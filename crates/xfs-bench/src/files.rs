//! Measures the speed of creating, walking, changing and removing empty files, compared with the
//! kernel's XFS.
//!
//! Each thread works in a directory of its own, on an image in memory. Before all steps except the
//! first the volume is closed and opened again, so that the caches are cold. The time of creation
//! ends when the log has been forced, and that of removal when the inodes are free. ferroxfs is
//! used through the library, and the kernel's XFS through system calls. N threads, and the threads
//! of ferroxfs's log, are confined to N processors. The kernel's own threads are not.

mod mounted;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroxfs::OpenOptions;
use xfs_oracle::Xfsprogs;
use xfs_workload::{
    Counted, Library, Processors, Store, Work, WorkStep, WorkTarget, WorkloadError,
};

use crate::error::BenchError;
pub(crate) use mounted::Mounted;

/// Arguments of the files benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Number of files per thread
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Whether the volume has parent pointers: 0 or 1
    #[arg(long, default_value_t = 1)]
    parent: u8,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Number of runs; the fastest counts
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Measure only ferroxfs, for profiling
    #[arg(long)]
    alone: bool,
}

const STEPS: [WorkStep; 4] = [WorkStep::Create, WorkStep::Walk, WorkStep::Change, WorkStep::Remove];

/// The result of one step of the workload: its duration, and the counters of the volume.
#[derive(Clone)]
struct StepOutcome {
    elapsed: Duration,
    counted: Counted,
}

/// Runs all steps and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    println!(
        "| threads | step | ours, per second | kernel, per second | ours / kernel | transactions each, \
         ours | kernel | bytes logged each, ours | kernel | volume-wide writes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for threads in &arguments.threads {
        processors.confine(*threads)?;
        let work = arguments.work(*threads);
        let ours = fastest(arguments, &work, &library)?;
        let kernel = match arguments.alone {
            true => Vec::new(),
            false => fastest(arguments, &work, &kernel)?,
        };
        let files = work.total() as f64;
        for (index, (step, ours)) in STEPS.into_iter().zip(&ours).enumerate() {
            let kernel = kernel.get(index);
            let rate = |outcome: &StepOutcome| files / outcome.elapsed.as_secs_f64();
            let per_file = |count: Option<u64>| count.map(|count| count as f64 / files);
            let each = |outcome: &StepOutcome| per_file(outcome.counted.transactions);
            let bytes = |outcome: &StepOutcome| per_file(outcome.counted.log_bytes);
            let volume = ours.counted.shared.as_ref().map_or("-".to_owned(), |shared| {
                format!("1 in {:.0}", files / shared.volume.total().max(1) as f64)
            });
            println!(
                "| {threads} | {step:?} | {:.0} | {} | {} | {} | {} | {} | {} | {volume} |",
                rate(ours),
                shown(kernel.map(rate), 0),
                shown(kernel.map(|kernel| rate(ours) / rate(kernel)), 2),
                shown(each(ours), 2),
                shown(kernel.and_then(each), 2),
                shown(bytes(ours), 0),
                shown(kernel.and_then(bytes), 0),
            );
        }
    }
    Ok(())
}

/// Formats a number for a cell of a table, with `digits` digits after the point. `None` is shown as
/// `-`.
pub(crate) fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

impl Arguments {
    const fn work(&self, threads: usize) -> Work {
        Work::new(threads, self.files)
    }
}

/// A function that opens the volume in an image as a target of workloads.
pub(crate) type Open = dyn Fn(&Path) -> Result<Box<dyn WorkTarget>, WorkloadError>;

/// Opens the volume in an image with ferroxfs's library.
fn library(image: &Path) -> Result<Box<dyn WorkTarget>, WorkloadError> {
    Ok(Box::new(Library::open(Store::open(image)?, OpenOptions::new())?))
}

/// Mounts the volume in an image in the kernel.
fn kernel(image: &Path) -> Result<Box<dyn WorkTarget>, WorkloadError> {
    Ok(Box::new(Mounted::new(image)?))
}

/// Returns the best result of each step over all runs.
fn fastest(
    arguments: &Arguments,
    work: &Work,
    open: &Open,
) -> Result<Vec<StepOutcome>, BenchError> {
    let mut best: Vec<StepOutcome> = Vec::new();
    for _ in 0..arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let image = make(folder.path(), arguments.parent, work)?;
        let mut target = open(&image)?;
        target.prepare(work)?;
        for (index, step) in STEPS.into_iter().enumerate() {
            if step != WorkStep::Create {
                target.cool()?;
            }
            let outcome = measure(&mut *target, step, work)?;
            match best.get_mut(index) {
                Some(best) if outcome.elapsed < best.elapsed => *best = outcome,
                Some(_) => {}
                None => best.push(outcome),
            }
        }
        target.close()?;
    }
    Ok(best)
}

fn measure(
    target: &mut dyn WorkTarget,
    step: WorkStep,
    work: &Work,
) -> Result<StepOutcome, BenchError> {
    let before = target.counted()?;
    let elapsed = target.perform(step, work)?.drained;
    Ok(StepOutcome { elapsed, counted: target.counted()?.since(&before) })
}

/// Makes an empty volume in `folder` with room for the files of `work`. Returns its path.
pub(crate) fn make(folder: &Path, parent: u8, work: &Work) -> Result<PathBuf, BenchError> {
    let image = folder.join("image");
    let file = File::create(&image).map_err(BenchError::file(&image))?;
    file.set_len((4 << 30) + work.total() * 4096).map_err(BenchError::file(&image))?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let parent = format!("parent={parent}");
    mkfs.args(["-q", "-f", "-l", "size=512m", "-n", &parent]).arg(&image);
    let status = mkfs.status().map_err(BenchError::file(&image))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status });
    }
    Ok(image)
}
