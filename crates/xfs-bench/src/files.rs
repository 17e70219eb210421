//! How fast empty files are made, walked, changed and removed, beside the kernel's XFS.
//!
//! Each thread works in a directory of its own, on an image in memory. Before all but the first step
//! the volume is closed and opened again, so that nothing is cached. Making counts until the log has
//! been forced, removing until the inodes are free. Ours goes through the library, the kernel's
//! through system calls; N threads, and ours of the log, are confined to N processors, the kernel's
//! own threads are not.

mod kernel;
mod library;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xfs_oracle::Xfsprogs;

use crate::error::BenchError;
use crate::processors::Processors;

/// How the benchmark of files runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Files of each thread
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Whether the volume has parent pointers: 0 or 1
    #[arg(long, default_value_t = 1)]
    parent: u8,
    /// Where the images go
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Runs of each; the fastest counts
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Leave the kernel out, to profile ours
    #[arg(long)]
    alone: bool,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Walk,
    Change,
    Remove,
}

const STEPS: [Step; 4] = [Step::Create, Step::Walk, Step::Change, Step::Remove];

/// Somebody who works on the files of an image.
pub(crate) trait Contender {
    /// Opens the volume.
    fn open(&mut self, image: &Path) -> Result<(), BenchError>;

    /// Makes the directories of the threads.
    fn prepare(&mut self, threads: usize) -> Result<(), BenchError>;

    /// Does one step, in as many threads, until it counts as done.
    fn perform(&mut self, step: Step, threads: usize, files: u64) -> Result<(), BenchError>;

    /// Closes it.
    fn close(&mut self) -> Result<(), BenchError>;
}

/// Runs everything and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    println!("| threads | step | ours, per second | kernel, per second | ours / kernel |");
    println!("|---|---|---|---|---|");
    for threads in &arguments.threads {
        processors.confine(*threads)?;
        let ours = fastest(arguments, *threads, &mut library::Library::default())?;
        let kernel = match arguments.alone {
            true => None,
            false => Some(fastest(arguments, *threads, &mut kernel::Kernel::default())?),
        };
        for (index, step) in STEPS.into_iter().enumerate() {
            let rate = |times: &[Duration]| {
                let seconds = times.get(index).map_or(0.0, Duration::as_secs_f64);
                (arguments.files * *threads as u64) as f64 / seconds
            };
            let (ours, kernel) = (rate(&ours), kernel.as_ref().map(|times| rate(times)));
            let (shown, ratio) = kernel.map_or(("-".to_owned(), "-".to_owned()), |kernel| {
                (format!("{kernel:.0}"), format!("{:.2}", ours / kernel))
            });
            println!("| {threads} | {step:?} | {ours:.0} | {shown} | {ratio} |");
        }
    }
    Ok(())
}

/// The shortest time of each step.
fn fastest(
    arguments: &Arguments,
    threads: usize,
    contender: &mut dyn Contender,
) -> Result<Vec<Duration>, BenchError> {
    let mut best = vec![Duration::MAX; STEPS.len()];
    for _ in 0..arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let image = make(folder.path(), arguments, threads)?;
        contender.open(&image)?;
        contender.prepare(threads)?;
        for (step, best) in STEPS.into_iter().zip(&mut best) {
            if step != Step::Create {
                contender.close()?;
                contender.open(&image)?;
            }
            let start = Instant::now();
            contender.perform(step, threads, arguments.files)?;
            *best = start.elapsed().min(*best);
        }
        contender.close()?;
    }
    Ok(best)
}

fn make(folder: &Path, arguments: &Arguments, threads: usize) -> Result<PathBuf, BenchError> {
    let image = folder.join("image");
    let file = File::create(&image).map_err(BenchError::file(&image))?;
    file.set_len((4 << 30) + arguments.files * threads as u64 * 1024)
        .map_err(BenchError::file(&image))?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let parent = format!("parent={}", arguments.parent);
    mkfs.args(["-q", "-f", "-l", "size=512m", "-n", &parent]).arg(&image);
    let status = mkfs.status().map_err(BenchError::file(&image))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status });
    }
    Ok(image)
}

/// The name of a file. No two names of one thread are alike in length only.
fn name(number: u64) -> String {
    format!("file-{number:08}")
}

/// The name of a thread's directory.
fn folder(thread: usize) -> String {
    format!("thread-{thread}")
}
