//! Measures the speed of writing, overwriting and reading large files, and of small random writes.
//!
//! The contenders are the library with an image, plain reads and writes of a file as large as the
//! image (the limit of the device), and the kernel's XFS with direct I/O on an image of the same
//! kind. The contenders take turns after each slice of a few MiB, which ends with a sync. So other
//! load on the machine, and write-back of the host, affects all of them. Before the measurement,
//! all files are written once, in turns. So no contender waits for memory or space that the host
//! uses for the first time.

mod contenders;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xfs_oracle::Random;

use crate::error::BenchError;
use crate::price::processor_seconds;
use contenders::{Bare, DataContender, Kernel, Library, fill};

/// Arguments of the data benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of each file, in MiB
    #[arg(long, default_value_t = 1024)]
    megabytes: u64,
    /// Number of threads, each with a file of its own
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Size of one streaming request, in KiB
    #[arg(long, default_value_t = 1024)]
    request_kilobytes: usize,
    /// Size of a slice of each file, after which the next contender has its turn, in MiB
    #[arg(long, default_value_t = 64)]
    slice_megabytes: u64,
    /// Number of random writes of 4 KiB per thread
    #[arg(long, default_value_t = 50_000)]
    pieces: u64,
    /// Folder for images and files
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Number of runs; each has rows of its own
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Do not write the files once before the measurement
    #[arg(long)]
    untouched: bool,
    /// Measure only ferroxfs, for profiling
    #[arg(long)]
    alone: bool,
}

/// Size of a random write in bytes.
const PIECE_BYTES: usize = 4096;
/// The alignment of memory in bytes that direct I/O requires.
const ALIGNMENT: usize = 4096;
/// Seed of the random offsets. All compared systems use the same offsets.
const SEED: u64 = 0x5eed;

/// The measured steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataStep {
    Write,
    WriteOver,
    Read,
    WriteAtRandom,
}

impl StepTimes {
    fn elapsed(&self) -> Duration {
        self.slices.iter().sum()
    }

    /// Returns the ratio of this contender's speed to that of `other`: the median of the ratios of
    /// all slices, which short disturbances do not affect. `None` if there are no slices.
    fn median_ratio(&self, other: &Self) -> Option<f64> {
        let pairs = self.slices.iter().zip(&other.slices);
        let mut ratios: Vec<_> =
            pairs.map(|(own, other)| other.as_secs_f64() / own.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }
}

impl DataStep {
    const ALL: [Self; 4] = [Self::Write, Self::WriteOver, Self::Read, Self::WriteAtRandom];

    const fn name(self) -> &'static str {
        match self {
            Self::Write => "write a new file, MB/s",
            Self::WriteOver => "write over it, MB/s",
            Self::Read => "read it, MB/s",
            Self::WriteAtRandom => "4 KiB at random, writes/s",
        }
    }
}

/// The times of one contender in one step. A step is divided into slices, between which the
/// contenders take turns.
#[derive(Clone, Default)]
struct StepTimes {
    /// One duration per slice.
    slices: Vec<Duration>,
    processor_seconds: f64,
}

/// The work of one thread in one slice. A slice is the part of a step that a contender does before
/// the next contender has its turn.
#[derive(Clone, Copy)]
struct SliceWork {
    step: DataStep,
    slice: u64,
    file: usize,
}

/// Measures all steps and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    println!(
        "| run | step | ours | device | kernel, direct | ours / device | median of slices | \
         ours / kernel | median of slices | processor s, ours | device |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for run in 1..=arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let mut targets = contenders(arguments, folder.path())?;
        for step in DataStep::ALL {
            if matches!(step, DataStep::Write | DataStep::Read) {
                targets.iter_mut().try_for_each(|target| target.reopen())?;
            }
            print(arguments, run, step, &measure(arguments, step, &targets)?);
        }
        targets.into_iter().try_for_each(DataContender::close)?;
    }
    Ok(())
}

/// Returns the contenders: the library, the bare device and the kernel, in this order.
fn contenders(
    arguments: &Arguments,
    folder: &Path,
) -> Result<Vec<Box<dyn DataContender>>, BenchError> {
    let paths = ["ours", "bare", "kernel"].map(|name| folder.join(name));
    let [ours, bare, kernel] = &paths;
    if arguments.alone {
        fill(arguments, std::slice::from_ref(ours))?;
        return Ok(vec![Box::new(Library::new(arguments, ours)?)]);
    }
    fill(arguments, &paths)?;
    Ok(vec![
        Box::new(Library::new(arguments, ours)?),
        Box::new(Bare::new(arguments, bare)?),
        Box::new(Kernel::new(arguments, kernel)?),
    ])
}

fn print(arguments: &Arguments, run: u32, step: DataStep, taken: &[StepTimes]) {
    let amount = arguments.amount(step);
    let rate = |index: usize| Some(amount / taken.get(index)?.elapsed().as_secs_f64());
    let ratio = |index: usize| Some(rate(0)? / rate(index)?);
    let median = |index: usize| taken.first()?.median_ratio(taken.get(index)?);
    let processor = |index: usize| taken.get(index).map(|taken| taken.processor_seconds);
    let shown = crate::files::shown;
    println!(
        "| {run} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        step.name(),
        shown(rate(0), 0),
        shown(rate(1), 0),
        shown(rate(2), 0),
        shown(ratio(1), 2),
        shown(median(1), 2),
        shown(ratio(2), 2),
        shown(median(2), 2),
        shown(processor(0), 2),
        shown(processor(1), 2),
    );
}

/// Performs a step with all contenders (the systems that are compared), which take turns. The order
/// of the contenders changes from turn to turn.
fn measure(
    arguments: &Arguments,
    step: DataStep,
    targets: &[Box<dyn DataContender>],
) -> Result<Vec<StepTimes>, BenchError> {
    let mut all = vec![StepTimes::default(); targets.len()];
    let mut buffers: Vec<_> = (0..arguments.threads).map(|_| arguments.buffer()).collect();
    for slice in 0..arguments.slices() {
        for place in 0..targets.len() {
            let index = (slice as usize + place) % targets.len();
            let (Some(target), Some(taken)) = (targets.get(index), all.get_mut(index)) else {
                continue;
            };
            let (processor, start) = (processor_seconds(), Instant::now());
            one_turn(arguments, step, slice, &**target, &mut buffers)?;
            taken.slices.push(start.elapsed());
            taken.processor_seconds += processor_seconds() - processor;
        }
    }
    Ok(all)
}

/// Performs one slice of a step (the work of one turn of a contender) with all threads of one
/// contender. If there is only one thread, its work runs in the calling thread.
fn one_turn<'buffers>(
    arguments: &Arguments,
    step: DataStep,
    slice: u64,
    target: &dyn DataContender,
    buffers: &'buffers mut [Vec<u8>],
) -> Result<(), BenchError> {
    if let [buffer] = buffers {
        return work(arguments, SliceWork { step, slice, file: 0 }, target, buffer);
    }
    std::thread::scope(|scope| {
        let start = |(file, buffer): (usize, &'buffers mut Vec<u8>)| {
            scope.spawn(move || work(arguments, SliceWork { step, slice, file }, target, buffer))
        };
        let threads: Vec<_> = buffers.iter_mut().enumerate().map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        ended.fold(Ok(()), Result::and)
    })
}

fn work(
    arguments: &Arguments,
    SliceWork { step, slice, file }: SliceWork,
    target: &dyn DataContender,
    memory: &mut [u8],
) -> Result<(), BenchError> {
    let skipped = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = memory.get_mut(skipped..).unwrap_or_default();
    if step == DataStep::WriteAtRandom {
        let mut random = Random::new(SEED + slice * arguments.threads as u64 + file as u64);
        let all = arguments.bytes() / PIECE_BYTES as u64;
        for _ in 0..arguments.pieces_of_slice() {
            let offset = random.below(all) * PIECE_BYTES as u64;
            target.write(file, offset, buffer.get(..PIECE_BYTES).unwrap_or_default())?;
        }
        return target.sync(file);
    }
    let slice_bytes = arguments.slice_megabytes << 20;
    let end = ((slice + 1) * slice_bytes).min(arguments.bytes());
    for offset in (slice * slice_bytes..end).step_by(arguments.request_bytes()) {
        let count = arguments.request_bytes().min((end - offset) as usize);
        let bytes = buffer.get_mut(..count).unwrap_or_default();
        match step {
            DataStep::Read => target.read(file, offset, bytes)?,
            _ => target.write(file, offset, bytes)?,
        }
    }
    if step == DataStep::Read { Ok(()) } else { target.sync(file) }
}

impl Arguments {
    /// Returns the size of one file in bytes.
    const fn bytes(&self) -> u64 {
        self.megabytes << 20
    }

    const fn request_bytes(&self) -> usize {
        self.request_kilobytes << 10
    }

    const fn slices(&self) -> u64 {
        self.megabytes.div_ceil(self.slice_megabytes)
    }

    const fn pieces_of_slice(&self) -> u64 {
        self.pieces.div_ceil(self.slices())
    }

    /// Returns the amount of work in a step: megabytes for streaming steps, and otherwise the
    /// number of random writes.
    fn amount(&self, step: DataStep) -> f64 {
        let each = match step {
            DataStep::WriteAtRandom => (self.pieces_of_slice() * self.slices()) as f64,
            _ => self.bytes() as f64 / 1e6,
        };
        each * self.threads as f64
    }

    fn buffer(&self) -> Vec<u8> {
        vec![0x5a; self.request_bytes().max(PIECE_BYTES) + ALIGNMENT]
    }
}
