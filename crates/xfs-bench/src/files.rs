//! How fast empty files are made, walked, changed and removed, beside the kernel's XFS.
//!
//! Each thread works in a directory of its own, on an image in memory. Before all but the first step
//! the volume is closed and opened again, so that nothing is cached. Making counts until the log has
//! been forced, removing until the inodes are free. Ours goes through the library, the kernel's
//! through system calls; N threads, and ours of the log, are confined to N processors, the kernel's
//! own threads are not.

pub(crate) mod kernel;
pub(crate) mod library;

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
    /// Give each file a second name.
    Link,
    Walk,
    Change,
    Remove,
}

/// Bytes of a name, where nothing else is asked for.
pub(crate) const USUAL_NAME_BYTES: usize = 13;

const STEPS: [Step; 4] = [Step::Create, Step::Walk, Step::Change, Step::Remove];

/// How much work a step is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Threads, each in a directory of its own.
    pub(crate) threads: usize,
    /// Files of each.
    pub(crate) files: u64,
    /// Bytes of each name.
    pub(crate) name_bytes: usize,
    /// Whether each file has a second name.
    pub(crate) linked: bool,
}

impl Work {
    /// Files of all threads.
    pub(crate) const fn total(&self) -> u64 {
        self.files * self.threads as u64
    }

    /// The name of a file: no two names of one thread are alike in length only.
    fn name(&self, number: u64) -> String {
        let digits = self.name_bytes - "file-".len();
        format!("file-{number:0digits$}")
    }

    /// Its second name.
    fn second_name(&self, number: u64) -> String {
        let digits = self.name_bytes - "link-".len();
        format!("link-{number:0digits$}")
    }
}

/// What a contender has counted since the volume was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) transactions: u64,
    pub(crate) log_bytes: u64,
    /// Writes to memory that the whole volume shares: in a build that counts them.
    pub(crate) volume_writes: Option<u64>,
}

/// Somebody who works on the files of an image.
pub(crate) trait Contender {
    /// Opens the volume.
    fn open(&mut self, image: &Path) -> Result<(), BenchError>;

    /// Makes the directories of the threads.
    fn prepare(&mut self, threads: usize) -> Result<(), BenchError>;

    /// Does one step, in as many threads, until it counts as done.
    fn perform(&mut self, step: Step, work: &Work) -> Result<(), BenchError>;

    /// What it has counted.
    fn counted(&self) -> Result<Counted, BenchError>;

    /// Closes it.
    fn close(&mut self) -> Result<(), BenchError>;
}

/// What a step took.
#[derive(Clone, Copy)]
struct Outcome {
    elapsed: Duration,
    counted: Counted,
}

/// Runs everything and prints a table.
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
        let ours = fastest(arguments, &work, &mut library::Library::default())?;
        let kernel = match arguments.alone {
            true => Vec::new(),
            false => fastest(arguments, &work, &mut kernel::Kernel::default())?,
        };
        let files = work.total() as f64;
        for (index, (step, ours)) in STEPS.into_iter().zip(&ours).enumerate() {
            let kernel = kernel.get(index);
            let rate = |outcome: &Outcome| files / outcome.elapsed.as_secs_f64();
            let shown = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            let each = |outcome: &Outcome| outcome.counted.transactions as f64 / files;
            let bytes = |outcome: &Outcome| outcome.counted.log_bytes as f64 / files;
            let volume = ours.counted.volume_writes;
            let volume = volume
                .map_or("-".to_owned(), |count| format!("1 in {:.0}", files / count.max(1) as f64));
            println!(
                "| {threads} | {step:?} | {:.0} | {} | {} | {:.2} | {} | {:.0} | {} | {volume} |",
                rate(ours),
                shown(kernel.map(rate), 0),
                shown(kernel.map(|kernel| rate(ours) / rate(kernel)), 2),
                each(ours),
                shown(kernel.map(each), 2),
                bytes(ours),
                shown(kernel.map(bytes), 0),
            );
        }
    }
    Ok(())
}

impl Arguments {
    const fn work(&self, threads: usize) -> Work {
        Work { threads, files: self.files, name_bytes: USUAL_NAME_BYTES, linked: false }
    }
}

/// The best of each step.
fn fastest(
    arguments: &Arguments,
    work: &Work,
    contender: &mut dyn Contender,
) -> Result<Vec<Outcome>, BenchError> {
    let mut best: Vec<Outcome> = Vec::new();
    for _ in 0..arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let image = make(folder.path(), arguments.parent, work)?;
        contender.open(&image)?;
        contender.prepare(work.threads)?;
        for (index, step) in STEPS.into_iter().enumerate() {
            if step != Step::Create {
                contender.close()?;
                contender.open(&image)?;
            }
            let outcome = measure(contender, step, work)?;
            match best.get_mut(index) {
                Some(best) if outcome.elapsed < best.elapsed => *best = outcome,
                Some(_) => {}
                None => best.push(outcome),
            }
        }
        contender.close()?;
    }
    Ok(best)
}

fn measure(contender: &mut dyn Contender, step: Step, work: &Work) -> Result<Outcome, BenchError> {
    let (before, start) = (contender.counted()?, Instant::now());
    contender.perform(step, work)?;
    let elapsed = start.elapsed();
    Ok(Outcome { elapsed, counted: contender.counted()?.since(&before) })
}

impl Counted {
    /// What has been counted since then.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let writes = self.volume_writes.zip(before.volume_writes);
        Self {
            transactions: self.transactions - before.transactions,
            log_bytes: self.log_bytes - before.log_bytes,
            volume_writes: writes.map(|(after, before)| after - before),
        }
    }
}

/// Makes an empty volume with room for the files.
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

/// The name of a thread's directory.
fn folder(thread: usize) -> String {
    format!("thread-{thread}")
}
