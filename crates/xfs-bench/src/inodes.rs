//! How fast all inodes of a volume are listed, past the inodes in memory and through them, and how long
//! it takes to let go of them, beside the kernel's bulkstat.
//!
//! The volume lies in memory and has an allocation group for each thread's directory; a thread lists whole
//! groups. Each run begins with nothing cached, and what came into memory and went is the cache's own count.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroxfs::{
    BulkPath, CreateOptions, InodeIndex, InodeNumber, NewKind, OpenOptions, Statistics, Volume,
};
use xfs_oracle::{Mount, Xfsprogs};
use xfs_workload::{Directory, Processors, bulkstat, in_parallel};

use crate::error::BenchError;

/// Of this machine, as /proc counts.
const PAGE_BYTES: u64 = 4096;
/// Of files and directories.
const CREATION: CreateOptions = CreateOptions { mode: 0o755, uid: 0, gid: 0, umask: 0 };

/// How the benchmark of inodes runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    threads: Vec<usize>,
    /// Files of each directory; there are as many directories as threads at the most
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Where the image goes
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// An image with files, in place of one that is made
    #[arg(long, conflicts_with_all = ["files", "folder"])]
    image: Option<PathBuf>,
    /// Runs of each; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Leave the kernel out, to profile ours
    #[arg(long)]
    alone: bool,
    /// Only this way, to profile it
    #[arg(long)]
    only: Option<Way>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Ours, past the inodes in memory
    Past,
    /// Ours, each through memory
    Through,
    /// The same with one list of all inodes
    OneList,
    /// The kernel's bulkstat
    Kernel,
    /// Letting go of all inodes, brought into memory before
    Evict,
    /// The same with one list of all inodes
    EvictOneList,
    /// Closing a volume that has all inodes in memory
    Close,
}

const WAYS: [Way; 7] =
    [Way::Past, Way::Through, Way::OneList, Way::Kernel, Way::Evict, Way::EvictOneList, Way::Close];

/// What one run has come to.
struct Outcome {
    inodes: u64,
    time: Duration,
    /// Of ours.
    statistics: Statistics,
    /// Resident, at the end of the timed part for a listing and before it for an eviction.
    memory_bytes: u64,
}

/// Runs everything and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    let mut folder = None;
    let image = match &arguments.image {
        Some(image) => image.clone(),
        None => {
            let made = tempfile::tempdir_in(&arguments.folder);
            let made = made.map_err(BenchError::file(&arguments.folder))?;
            let groups = arguments.threads.iter().copied().max().unwrap_or(1).max(2);
            make(folder.insert(made).path(), arguments.files, groups)?
        }
    };
    println!("| threads | way | inodes | per second | brought in | let go | resident, MiB |");
    println!("|---|---|---|---|---|---|---|");
    for threads in &arguments.threads {
        processors.confine(*threads)?;
        for way in WAYS {
            let is_wanted = arguments.only.is_none_or(|only| only == way);
            if !is_wanted || arguments.alone && way == Way::Kernel {
                continue;
            }
            let mut best: Option<Outcome> = None;
            for _ in 0..arguments.runs {
                let outcome = measure(&image, way, *threads)?;
                if best.as_ref().is_none_or(|best| outcome.time < best.time) {
                    best = Some(outcome);
                }
            }
            let Some(best) = best else { continue };
            let Outcome { inodes, time, statistics, memory_bytes } = best;
            let rate = inodes as f64 / time.as_secs_f64();
            let (came, went) = (statistics.inodes.allocated, statistics.inodes.freed);
            let mib = memory_bytes >> 20;
            println!("| {threads} | {way:?} | {inodes} | {rate:.0} | {came} | {went} | {mib} |");
        }
    }
    Ok(())
}

/// Makes a volume with a directory of files in each group.
fn make(folder: &Path, files: u64, groups: usize) -> Result<PathBuf, BenchError> {
    let image = folder.join("image");
    let file = std::fs::File::create(&image).map_err(BenchError::file(&image))?;
    file.set_len((2 << 30) + files * groups as u64 * 1024).map_err(BenchError::file(&image))?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let agcount = format!("agcount={groups}");
    mkfs.args(["-q", "-f", "-i", "maxpct=0", "-l", "size=256m", "-d", &agcount]).arg(&image);
    let status = mkfs.status().map_err(BenchError::file(&image))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status });
    }
    let volume = Volume::open_writable(&image).map_err(BenchError::Open)?;
    in_parallel(groups, |thread| -> Result<(), BenchError> {
        let root = volume.root()?;
        let directory =
            root.create(format!("directory{thread}"), &NewKind::Directory, &CREATION)?;
        for number in 0..files {
            directory.create(format!("file{number}"), &NewKind::Regular, &CREATION)?;
        }
        Ok(())
    })?;
    volume.close()?;
    Ok(image)
}

fn measure(image: &Path, way: Way, threads: usize) -> Result<Outcome, BenchError> {
    if way == Way::Kernel {
        return measure_kernel(image, threads);
    }
    let index = match way {
        Way::OneList | Way::EvictOneList => InodeIndex::OneList,
        _ => InodeIndex::ByGroup,
    };
    let options = OpenOptions::new().inode_index(index).cached_inodes(u64::from(u32::MAX));
    let volume = options.open_writable(image).map_err(BenchError::Open)?;
    if way == Way::Close {
        return close(volume, threads);
    }
    let outcome = match way {
        Way::Evict | Way::EvictOneList => evict(&volume, threads)?,
        Way::Past => list(&volume, BulkPath::PastCache, threads)?,
        _ => list(&volume, BulkPath::ThroughCache, threads)?,
    };
    volume.drop_caches()?;
    assert_eq!(volume.cache_counts()?.total(), 0, "inodes left after drop_caches");
    volume.close()?;
    Ok(outcome)
}

fn list(volume: &Volume, path: BulkPath, threads: usize) -> Result<Outcome, BenchError> {
    let start = Instant::now();
    let inodes = bulkstat(volume, threads, path)?;
    let time = start.elapsed();
    let statistics = volume.statistics()?;
    Ok(Outcome { inodes, time, statistics, memory_bytes: resident_bytes() })
}

/// Brings all inodes into memory, and measures how long it takes to let go of them.
fn evict(volume: &Volume, threads: usize) -> Result<Outcome, BenchError> {
    bring_in(volume, threads)?;
    let memory_bytes = resident_bytes();
    let start = Instant::now();
    let inodes = volume.drop_caches()?;
    let time = start.elapsed();
    Ok(Outcome { inodes, time, statistics: volume.statistics()?, memory_bytes })
}

/// The same, and measures how long it takes to close the volume: an unmount.
fn close(volume: Volume, threads: usize) -> Result<Outcome, BenchError> {
    bring_in(&volume, threads)?;
    let (memory_bytes, statistics) = (resident_bytes(), volume.statistics()?);
    let inodes = volume.cache_counts()?.total();
    let start = Instant::now();
    volume.close()?;
    Ok(Outcome { inodes, time: start.elapsed(), statistics, memory_bytes })
}

/// Brings all inodes into memory.
fn bring_in(volume: &Volume, threads: usize) -> Result<(), BenchError> {
    let mut numbers = Vec::new();
    let _ = volume.inumbers(InodeNumber(0), |chunk| {
        let used = (0..u64::from(u64::BITS)).filter(|bit| chunk.allocated >> bit & 1 == 1);
        numbers.extend(used.map(|bit| InodeNumber(chunk.start.0 + bit)));
        ControlFlow::Continue(())
    })?;
    let share = numbers.len().div_ceil(threads).max(1);
    in_parallel(threads, |thread| -> Result<(), BenchError> {
        let mine = numbers.chunks(share).nth(thread).unwrap_or_default();
        mine.iter().try_for_each(|number| volume.node(*number).map(drop))?;
        Ok(())
    })
    .map(drop)
}

fn measure_kernel(image: &Path, threads: usize) -> Result<Outcome, BenchError> {
    let mount = Mount::new(image, None, &[])?;
    let directory = Directory::open(mount.path())?;
    let start = Instant::now();
    let inodes = directory.bulkstat(threads)?;
    let time = start.elapsed();
    Ok(Outcome { inodes, time, statistics: Statistics::default(), memory_bytes: 0 })
}

/// What this process has in memory; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
