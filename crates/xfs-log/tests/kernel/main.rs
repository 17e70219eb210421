//! Tests that other programs can read the log that ferroxfs writes: the newest `xfs_logprint` reads
//! it without a complaint, and the kernel replays it.
//!
//! `xfs_logprint` fails if three records hold the pieces of one region and records of another
//! checkpoint lie between them. So some regions are as long as possible, and several threads write.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;

use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_format::log_item::{BufferFlags, BufferFormat, HostOrder};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_log::{
    CheckpointEnd, InPlace, ItemState, Log, LogConfig, LogDevice, LogItem, Pushed, RegionWriter,
    find_head_and_tail,
};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, Xfsprogs, ready};
use xfs_sync::{AtomicU64, Mutex, Object, Ordering};

/// The length in bytes of all items except the long ones. Their contents begin with no magic number
/// that the kernel would recognize.
const ITEM_BYTES: usize = 4096;

/// The length of the long items in bytes: the greatest length of a buffer, and more than two small
/// records can hold.
const LONG_BYTES: usize = 64 << 10;

/// The share of items that are long: one in this number.
const LONG_EVERY: u64 = 8;

/// Length in bytes of the free space at the end of the volume in which the items' home locations
/// lie.
const ROOM_BYTES: u64 = 4 << 20;

const ITEMS: u64 = 64;
/// Number of threads that commit in a run with several concurrent checkpoints.
const THREADS: u64 = 3;
/// The size in bytes at which a checkpoint is written, in a run with several concurrent
/// checkpoints.
const CHECKPOINT_BYTES: u64 = 200 << 10;
/// Number of commits of all threads together.
const COMMITS: u64 = 1500;

fn main() -> ExitCode {
    let names = ["default", "sector-4k", "stripe", "external-log", "newest"];
    let geometries = Geometry::ALL.into_iter().filter(|geometry| names.contains(&geometry.name));
    let layouts = geometries.flat_map(|geometry| {
        let layout = move |(kib, threads): (u32, u64)| (geometry, kib << 10, threads);
        [(32, 1), (256, 1), (32, THREADS), (256, THREADS)].map(layout)
    });
    let trial = |(geometry, buffer_bytes, threads): (Geometry, u32, u64)| {
        let name = format!(
            "replayed_by_the_kernel::{}::{}k::threads-{threads}",
            geometry.name,
            buffer_bytes >> 10
        );
        Trial::new(name, move || check_replayed(&geometry, buffer_bytes, threads))
    };
    run(layouts.map(trial).collect())
}

/// A log item whose buffer repeats the same number in every 8 bytes.
struct Page {
    state: ItemState,
    at: DiskAddr,
    length: usize,
    lock: Mutex<(), Object>,
    number: AtomicU64<Object>,
}

impl Page {
    fn bytes(&self) -> Vec<u8> {
        self.number.load(Ordering::SeqCst).to_be_bytes().repeat(self.length / 8)
    }
}

impl LogItem for Page {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        let format = BufferFormat {
            regions: 2,
            flags: BufferFlags::empty(),
            at: self.at,
            blocks: (self.length / 512) as u16,
            bitmap: vec![u32::MAX; self.length / 4096],
        };
        regions.region(&format.encode(HostOrder::NATIVE));
        regions.region(&self.bytes());
    }

    fn pin(&self) {}

    fn unpin(&self, _end: CheckpointEnd) {}

    /// Never writes the item to its home location, so that the kernel has to replay everything.
    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        Pushed::Underway
    }
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn open(path: &Path) -> Result<SharedDevice, TrialError> {
    Ok(Arc::new(FileDevice::open(path, FileOptions::read_write()).map_err(failed)?))
}

fn check_replayed(geometry: &Geometry, buffer_bytes: u32, threads: u64) -> Result<(), TrialError> {
    ready()?;
    let newest = Xfsprogs::newer()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let pages = write_log(&image, buffer_bytes, threads)?;
    check_logprint(&image)?;
    image.mount(&[])?.unmount()?;
    let device = open(&image.data)?;
    for page in pages {
        let mut found = vec![0; page.length];
        device.read_at(&mut found, page.at.0 * 512).map_err(failed)?;
        if found != page.bytes() {
            return Err(failed(format!("{} is not what was committed", page.at)));
        }
    }
    let mut repair = newest.command("xfs_repair");
    repair.arg("-n");
    if let Some(log) = &image.log {
        repair.arg("-l").arg(log);
    }
    output(repair.arg(&image.data)).map(drop)
}

/// Commits items to the image's log from `threads` threads, forces the log, and leaves it as a
/// crash would. Returns the items. With one thread, a checkpoint is written only when a force
/// requests it, so there is one at a time. With several threads, checkpoints are small, and several
/// are written at the same time.
fn write_log(image: &Image, buffer_bytes: u32, threads: u64) -> Result<Vec<Arc<Page>>, TrialError> {
    let data = open(&image.data)?;
    let mut sector = vec![0; 4096];
    data.read_at(&mut sector, 0).map_err(failed)?;
    let superblock =
        Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).map_err(failed)?;
    let external = image.log.as_deref().map(open).transpose()?;
    let on = external.as_ref().unwrap_or(&data);
    let device = LogDevice::new(Arc::clone(on), &superblock).map_err(failed)?;
    let state = find_head_and_tail(&device).map_err(failed)?;
    let config = LogConfig::new(device.geometry());
    let buffer_bytes = buffer_bytes.max(config.buffer_bytes);
    let checkpoint_bytes = if threads == 1 { u64::MAX } else { CHECKPOINT_BYTES };
    let writers = threads as usize;
    let config = LogConfig { buffer_bytes, checkpoint_bytes, threads: writers, ..config };
    let start = (superblock.geometry.data_bytes() - ROOM_BYTES) / 512;
    let pages: Vec<_> = (0..ITEMS)
        .map(|index| {
            Arc::new(Page {
                state: ItemState::new(),
                at: DiskAddr(start + index * (LONG_BYTES as u64 / 512)),
                length: if index % LONG_EVERY == 3 { LONG_BYTES } else { ITEM_BYTES },
                lock: Mutex::new(()),
                number: AtomicU64::new(0),
            })
        })
        .collect();
    let log = Log::open(device, external.is_some().then(|| Arc::clone(&data)), &state, &config);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (log, pages) = (&log, &pages);
            let commits = COMMITS / threads;
            scope.spawn(move || commit_pages(log, pages, thread, commits).expect("a log in order"));
        }
    });
    log.force_all().map_err(failed)?;
    Ok(pages)
}

fn commit_pages(
    log: &Log,
    pages: &[Arc<Page>],
    thread: u64,
    commits: u64,
) -> xfs_buffer::Result<()> {
    let chosen = pages.iter().cycle().skip(thread as usize * 11).step_by(7);
    for (round, page) in (0..commits).zip(chosen) {
        let mut ticket = log.reserve(page.length as u64 + 4096, 1)?;
        let lock = page.lock.lock();
        page.number.store(round * THREADS + thread + 1, Ordering::SeqCst);
        let committed = log.commit(&mut ticket, &[Arc::clone(page) as _])?;
        drop(lock);
        log.release(ticket);
        log.settle(committed)?;
        if round % 100 == thread {
            log.force(committed.sequence)?;
        }
    }
    Ok(())
}

/// Checks that xfs_logprint reads the log to its end without a complaint.
fn check_logprint(image: &Image) -> Result<(), TrialError> {
    for options in [["-t"].as_slice(), &[], &["-d"]] {
        let printed = image.printed_log(options)?;
        if options == ["-t"] && !printed.contains("BUF") {
            return Err(failed(format!("xfs_logprint finds no buffer: {printed}")));
        }
    }
    Ok(())
}

/// Returns what a program wrote to standard output and standard error. Returns an error if the
/// program fails.
fn output(command: &mut Command) -> Result<String, TrialError> {
    let output = command.output().map_err(failed)?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(text) } else { Err(failed(format!("{command:?}: {text}"))) }
}
