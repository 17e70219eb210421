//! Measures the cost of parent pointers: creating, linking and removing empty files on volumes with
//! and without them.
//!
//! Times are processor times of this process. For the kernel's XFS, these times include the
//! kernel's work inside system calls, but not the later work of its own threads. valgrind counts
//! the instructions of all user-space code of a run, including the log's threads. The instructions
//! of a step are the difference of two runs: one ends with this step, and the other one before it.
//!
//! With `--operations`, it counts the instructions of each operation of the library instead
//! (`account`).

pub(crate) mod account;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ferroxfs::OpenOptions;
use ferroxfs::bench::ParentPath;
use rustix::time::{ClockId, clock_gettime};
use xfs_workload::{Library, Store, USUAL_NAME_BYTES, Work, WorkStep, WorkTarget, WorkloadError};

use crate::error::BenchError;
use crate::files::{self, Mounted, Open, shown};
use crate::instructions;
use account::AccountArguments;

/// Arguments of the price benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    amount: Amount,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Also count instructions, with this many files per thread
    #[arg(long)]
    instructions: Option<u64>,
    #[command(flatten)]
    account: AccountArguments,
}

/// The amount of work.
#[derive(clap::Args, Clone)]
struct Amount {
    /// Number of threads, each in a directory of its own
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Number of files per thread
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Length of a name in bytes
    #[arg(long, default_value_t = USUAL_NAME_BYTES as u64,
        value_parser = clap::value_parser!(u64).range(13..=255))]
    name_bytes: u64,
    /// Give each file a second name
    #[arg(long)]
    link: bool,
}

/// Arguments of one run, which valgrind observes.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    amount: Amount,
    /// The image of an empty volume
    #[arg(long)]
    image: PathBuf,
    /// How parent pointers are updated
    #[arg(long)]
    path: ParentStorage,
    /// Number of steps to run
    #[arg(long)]
    steps: usize,
}

/// How a volume stores and updates parent pointers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ParentStorage {
    /// The volume has no parent pointers.
    None,
    /// Parent pointers are changed directly in the inode where possible.
    Direct,
    /// Parent pointers are changed by intents in separate transactions.
    Intents,
}

impl ParentStorage {
    const fn parent(self) -> u8 {
        !matches!(self, Self::None) as u8
    }

    fn open(self, image: &Path) -> Result<Library, WorkloadError> {
        let options = OpenOptions::new().parent_path(match self {
            Self::Intents => ParentPath::Intents,
            Self::None | Self::Direct => ParentPath::Direct,
        });
        Library::open(Store::open(image)?, options)
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Direct => "direct",
            Self::Intents => "intents",
        }
    }
}

const WAYS: [ParentStorage; 3] =
    [ParentStorage::None, ParentStorage::Direct, ParentStorage::Intents];

impl Amount {
    const fn work(&self) -> Work {
        let name_bytes = self.name_bytes as usize;
        let linked = self.link;
        Work { name_bytes, linked, ..Work::new(self.threads, self.files) }
    }

    fn steps(&self) -> Vec<WorkStep> {
        match self.link {
            true => vec![WorkStep::Create, WorkStep::Link, WorkStep::Remove],
            false => vec![WorkStep::Create, WorkStep::Remove],
        }
    }
}

/// Measures all steps and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    if account::run(&arguments.account)? {
        return Ok(());
    }
    println!(
        "| who | parent pointers | step | processor time each, µs | instructions each | transactions \
         each | bytes logged each |"
    );
    println!("|---|---|---|---|---|---|---|");
    for way in WAYS {
        let counts = match arguments.instructions {
            Some(files) => instructions_of_steps(arguments, way, files)?,
            None => Vec::new(),
        };
        let open =
            move |image: &Path| way.open(image).map(|ours| Box::new(ours) as Box<dyn WorkTarget>);
        let row = PriceRow { who: "ours", way: way.name() };
        measure(arguments, row, way.parent(), &open, &counts)?;
    }
    for (name, parent) in [("none", 0), ("intents", 1)] {
        let open = |image: &Path| Mounted::new(image).map(|theirs| Box::new(theirs) as _);
        measure(arguments, PriceRow { who: "kernel", way: name }, parent, &open, &[])?;
    }
    Ok(())
}

/// The first columns of a row of the table: the measured system (ferroxfs or the kernel) and the
/// kind of parent pointers.
struct PriceRow<'a> {
    who: &'a str,
    /// How the volume stores parent pointers.
    way: &'a str,
}

fn measure(
    arguments: &Arguments,
    PriceRow { who, way }: PriceRow<'_>,
    parent: u8,
    open: &Open,
    instructions: &[f64],
) -> Result<(), BenchError> {
    let work = arguments.amount.work();
    let folder = tempfile::tempdir_in(&arguments.folder);
    let folder = folder.map_err(BenchError::file(&arguments.folder))?;
    let image = files::make(folder.path(), parent, &work)?;
    let mut target = open(&image)?;
    target.prepare(&work)?;
    let total = work.total() as f64;
    for (index, step) in arguments.amount.steps().into_iter().enumerate() {
        let (before, start) = (target.counted()?, processor_seconds());
        target.perform(step, &work)?;
        let seconds = processor_seconds() - start;
        let counted = target.counted()?.since(&before);
        let instructions = instructions.get(index);
        println!(
            "| {who} | {way} | {step:?} | {:.2} | {} | {} | {} |",
            seconds * 1e6 / total,
            shown(instructions.copied(), 0),
            shown(counted.transactions.map(|count| count as f64 / total), 2),
            shown(counted.log_bytes.map(|count| count as f64 / total), 0),
        );
    }
    Ok(target.close()?)
}

/// Returns the processor time that this process has used up to now, in seconds, in user space and
/// in the kernel.
pub(crate) fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the number of instructions per file of each step.
fn instructions_of_steps(
    arguments: &Arguments,
    way: ParentStorage,
    files: u64,
) -> Result<Vec<f64>, BenchError> {
    let amount = Amount { files, ..arguments.amount.clone() };
    let work = amount.work();
    let mut totals = Vec::new();
    for steps in 0..=amount.steps().len() {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let image = files::make(folder.path(), way.parent(), &work)?;
        totals.push(counted_by_valgrind(&amount, &image, way, steps)? as f64);
    }
    let steps = totals.iter().zip(totals.iter().skip(1));
    Ok(steps.map(|(before, after)| (after - before) / work.total() as f64).collect())
}

fn counted_by_valgrind(
    amount: &Amount,
    image: &Path,
    way: ParentStorage,
    steps: usize,
) -> Result<u64, BenchError> {
    let mut run: Vec<OsString> =
        ["price-run", "--path", way.name(), "--image"].map(Into::into).into();
    run.push(image.into());
    for (option, value) in [
        ("--threads", amount.threads as u64),
        ("--files", amount.files),
        ("--name-bytes", amount.name_bytes),
        ("--steps", steps as u64),
    ] {
        run.extend([option.into(), value.to_string().into()]);
    }
    if amount.link {
        run.push("--link".into());
    }
    instructions::count(&run)
}

/// Runs the first `steps` steps of the benchmark without measuring them, for valgrind.
pub(crate) fn run_once(arguments: &RunArguments) -> Result<(), BenchError> {
    let work = arguments.amount.work();
    let mut target = arguments.path.open(&arguments.image)?;
    target.prepare(&work)?;
    for step in arguments.amount.steps().into_iter().take(arguments.steps) {
        target.perform(step, &work)?;
    }
    Ok(target.close()?)
}
