//! Measures the speed of listing all inodes, bypassing the inode cache and through it, compared
//! with the kernel's bulkstat. Also measures the speed of evicting all inodes from the cache.
//!
//! The volume is in memory. It has an allocation group per thread, and a directory of files in each
//! group. A thread lists whole groups. Each run starts with cold caches. The inode cache counts the
//! inodes that enter and leave it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroxfs::admin::BulkPath;
use ferroxfs::bench::InodeIndex;
use ferroxfs::stats::VolumeStats;
use ferroxfs::{CreateOptions, InodeNumber, NewKind, OpenOptions, Volume};
use xfs_oracle::{Mount, Xfsprogs};
use xfs_workload::{KernelDirectory, Processors, bulkstat, in_parallel};

use crate::error::BenchError;

/// Page size of this machine in bytes, the unit of /proc.
const PAGE_BYTES: u64 = 4096;
/// Mode and owner of files and directories.
const CREATION: CreateOptions = CreateOptions::new(0o755);

/// Arguments of the inodes benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    threads: Vec<usize>,
    /// Number of files per directory; there are as many directories as the largest number of
    /// threads
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Folder for the image
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Use this existing image, which must contain files, instead of a new one
    #[arg(long, conflicts_with_all = ["files", "folder"])]
    image: Option<PathBuf>,
    /// Number of runs; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Measure only ferroxfs, for profiling
    #[arg(long)]
    alone: bool,
    /// Measure only this operation, for profiling
    #[arg(long)]
    only: Option<ListingWay>,
}

/// The measured operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ListingWay {
    /// List with ferroxfs, bypassing the inode cache
    Past,
    /// List with ferroxfs through the inode cache
    Through,
    /// List with ferroxfs through the inode cache, which has one list of all inodes
    OneList,
    /// List with the kernel's bulkstat
    Kernel,
    /// Evict all inodes from the inode cache
    Evict,
    /// Evict all inodes from the inode cache, which has one list of all inodes
    EvictOneList,
    /// Close a volume with all inodes in the inode cache
    Close,
}

const WAYS: [ListingWay; 7] = [
    ListingWay::Past,
    ListingWay::Through,
    ListingWay::OneList,
    ListingWay::Kernel,
    ListingWay::Evict,
    ListingWay::EvictOneList,
    ListingWay::Close,
];

/// The result of one run of a measured operation.
struct InodesOutcome {
    inodes: u64,
    time: Duration,
    /// The counters of the ferroxfs volume.
    statistics: VolumeStats,
    /// Resident memory of this process in bytes. It is measured after a timed listing, and before a
    /// timed eviction.
    memory_bytes: u64,
}

/// Runs all operations and prints a table.
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
            if !is_wanted || arguments.alone && way == ListingWay::Kernel {
                continue;
            }
            let mut best: Option<InodesOutcome> = None;
            for _ in 0..arguments.runs {
                let outcome = measure(&image, way, *threads)?;
                if best.as_ref().is_none_or(|best| outcome.time < best.time) {
                    best = Some(outcome);
                }
            }
            let Some(best) = best else { continue };
            let InodesOutcome { inodes, time, statistics, memory_bytes } = best;
            let rate = inodes as f64 / time.as_secs_f64();
            let (came, went) = (statistics.inodes.allocated, statistics.inodes.freed);
            let mib = memory_bytes >> 20;
            println!("| {threads} | {way:?} | {inodes} | {rate:.0} | {came} | {went} | {mib} |");
        }
    }
    Ok(())
}

/// Makes a volume with `groups` allocation groups, and a directory of `files` files in each.
/// Returns its path.
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
    let volume = OpenOptions::new().write(true).open(&image).map_err(BenchError::Open)?;
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

fn measure(image: &Path, way: ListingWay, threads: usize) -> Result<InodesOutcome, BenchError> {
    if way == ListingWay::Kernel {
        return measure_kernel(image, threads);
    }
    let index = match way {
        ListingWay::OneList | ListingWay::EvictOneList => InodeIndex::OneList,
        _ => InodeIndex::ByGroup,
    };
    let options = OpenOptions::new().inode_index(index).cached_inodes(u64::from(u32::MAX));
    let volume = options.write(true).open(image).map_err(BenchError::Open)?;
    if way == ListingWay::Close {
        return close(volume, threads);
    }
    let outcome = match way {
        ListingWay::Evict | ListingWay::EvictOneList => evict(&volume, threads)?,
        ListingWay::Past => list(&volume, BulkPath::PastCache, threads)?,
        _ => list(&volume, BulkPath::ThroughCache, threads)?,
    };
    volume.drop_caches()?;
    assert_eq!(volume.cache_counts()?.total(), 0, "inodes left after drop_caches");
    volume.close()?;
    Ok(outcome)
}

fn list(volume: &Volume, path: BulkPath, threads: usize) -> Result<InodesOutcome, BenchError> {
    let start = Instant::now();
    let inodes = bulkstat(volume, threads, path)?;
    let time = start.elapsed();
    let statistics = volume.statistics()?;
    Ok(InodesOutcome { inodes, time, statistics, memory_bytes: resident_bytes() })
}

/// Brings all inodes into the cache, then measures the time to evict them.
fn evict(volume: &Volume, threads: usize) -> Result<InodesOutcome, BenchError> {
    bring_in(volume, threads)?;
    let memory_bytes = resident_bytes();
    let start = Instant::now();
    let inodes = volume.drop_caches()?;
    let time = start.elapsed();
    Ok(InodesOutcome { inodes, time, statistics: volume.statistics()?, memory_bytes })
}

/// Brings all inodes into the cache, then measures the time to close the volume. An unmount closes
/// it in the same way.
fn close(volume: Volume, threads: usize) -> Result<InodesOutcome, BenchError> {
    bring_in(&volume, threads)?;
    let (memory_bytes, statistics) = (resident_bytes(), volume.statistics()?);
    let inodes = volume.cache_counts()?.total();
    let start = Instant::now();
    volume.close()?;
    Ok(InodesOutcome { inodes, time: start.elapsed(), statistics, memory_bytes })
}

/// Brings all inodes into the cache.
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

fn measure_kernel(image: &Path, threads: usize) -> Result<InodesOutcome, BenchError> {
    let mount = Mount::new(image, None, &[])?;
    let directory = KernelDirectory::open(mount.path())?;
    let start = Instant::now();
    let inodes = directory.bulkstat(threads)?;
    let time = start.elapsed();
    Ok(InodesOutcome { inodes, time, statistics: VolumeStats::default(), memory_bytes: 0 })
}

/// Returns the resident memory of this process in bytes, or 0 if unknown.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
