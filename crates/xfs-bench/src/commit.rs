//! How fast transactions commit, with the log in memory.
//!
//! A transaction logs an inode and a piece of a buffer of its thread's own; in the mix every eighth
//! one logs something that all threads share as well. Writing checkpoints, putting items into the
//! active list and taking them out again counts: the clock stops when the log has been forced.
//! N threads, and the log's own, are confined to N processors.

mod object;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::{DiskAddr, Lsn};
use xfs_log::{Log, LogConfig, LogDevice, LogGeometry, LogItem, LogState};
use xfs_sync::{Object as OfObject, RwLock};
use xfs_workload::Processors;

use crate::error::BenchError;
use object::Object;

/// Bytes that a transaction reserves: about what a change of an inode's attributes does.
const RESERVED_BYTES: u64 = 64 << 10;

/// Commits between two that touch what is shared, in the mix.
const SHARED_EVERY: u64 = 8;

/// How the benchmark of commits runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,64")]
    threads: Vec<usize>,
    /// Numbers of slots; 1 is a single list that all threads share
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    slots: Vec<usize>,
    /// Commits in a run, all threads together
    #[arg(long, default_value_t = 2_000_000)]
    commits: u64,
    /// Inodes, and as many buffers, all threads together
    #[arg(long, default_value_t = 262_144)]
    objects: u64,
    /// MiB of log
    #[arg(long, default_value_t = 512)]
    log: u32,
    /// Runs of each; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// What one run gave.
struct Outcome {
    elapsed: Duration,
    /// Writes to what the whole volume shares, if they were counted.
    volume_writes: Option<u64>,
}

/// Runs everything and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    println!("| objects | threads | slots | commits per second | volume-wide writes per commit |");
    println!("|---|---|---|---|---|");
    for shared in [false, true] {
        for threads in &arguments.threads {
            for slots in &arguments.slots {
                processors.confine(*threads)?;
                let runs = (0..arguments.runs)
                    .map(|_| commits(arguments, *threads, *slots, shared))
                    .collect::<Result<Vec<_>, _>>()?;
                let Some(best) = runs.into_iter().min_by_key(|run| run.elapsed) else { continue };
                let rate = arguments.commits as f64 / best.elapsed.as_secs_f64();
                let writes = best.volume_writes.map_or("-".to_owned(), |writes| {
                    format!("1 in {:.0}", arguments.commits as f64 / writes.max(1) as f64)
                });
                let objects = if shared { "mix" } else { "private" };
                println!("| {objects} | {threads} | {slots} | {rate:.0} | {writes} |");
            }
        }
    }
    forces(arguments)
}

/// An empty log in memory.
fn open(megabytes: u32, slots: usize) -> Result<Log, BenchError> {
    let length_blocks = megabytes * 2048;
    let geometry = LogGeometry {
        start: DiskAddr(0),
        length_blocks,
        sector_bytes: 512,
        stripe_unit_bytes: 1,
        uuid: uuid::Uuid::nil(),
    };
    let device = Arc::new(MemoryDevice::new(u64::from(length_blocks) * 512));
    touch(&device, u64::from(length_blocks) * 512)?;
    let device = LogDevice::with_geometry(device, geometry).map_err(BenchError::Volume)?;
    let head = Lsn::new(1, 0);
    let state = LogState {
        head,
        tail: head,
        clean: true,
        last_record: u32::MAX,
        buffer_bytes: xfs_log::MAX_BUFFER_BYTES,
        torn: None,
    };
    let config = LogConfig {
        slots,
        buffer_bytes: xfs_log::MAX_BUFFER_BYTES,
        largest_bytes: RESERVED_BYTES,
        ..LogConfig::new(&geometry)
    };
    Ok(Log::open(device, None, &state, &config))
}

/// Writes all of the device once: memory that the host has yet to give is no part of committing.
fn touch(device: &MemoryDevice, length_bytes: u64) -> Result<(), BenchError> {
    const STEP: usize = 1 << 20;
    let zeros = vec![0; STEP];
    for offset in (0..length_bytes).step_by(STEP) {
        device
            .write_at(offset, &zeros, Durability::Cached)
            .map_err(|source| BenchError::Io { what: "the log in memory".to_owned(), source })?;
    }
    Ok(())
}

fn commits(
    arguments: &Arguments,
    threads: usize,
    slots: usize,
    shared: bool,
) -> Result<Outcome, BenchError> {
    let log = open(arguments.log, slots)?;
    let common = Object::buffer();
    let each = (arguments.objects / threads as u64).max(1);
    let rounds = arguments.commits / threads as u64;
    let start_line = RwLock::<(), OfObject>::new(());
    let run = |ready: mpsc::Sender<()>| {
        let pairs: Vec<_> = (0..each).map(|_| [Object::inode(), Object::buffer()]).collect();
        let common = shared.then_some(&common);
        // The receiver waits until all senders are gone.
        drop(ready);
        drop(start_line.read());
        for (round, pair) in (0..rounds).zip(pairs.iter().cycle()) {
            let common = common.filter(|_| round % SHARED_EVERY == 0);
            commit(&log, pair, common).expect("a log in memory does not fail");
        }
        // Dropped by who joins: it is no part of committing.
        pairs
    };
    let (elapsed, volume_writes) = thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let closed = start_line.write();
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                let (run, ready) = (&run, ready.clone());
                scope.spawn(move || run(ready))
            })
            .collect();
        drop(ready);
        let _ = all_ready.recv();
        let (before, start) = (crate::volume_writes(), Instant::now());
        drop(closed);
        let objects: Vec<_> = handles.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let after = crate::volume_writes();
        let forced = log.force_all().map_err(BenchError::Volume);
        let elapsed = start.elapsed();
        drop(objects);
        forced.map(|()| (elapsed, after.zip(before).map(|(after, before)| after - before)))
    })?;
    log.quiesce().map_err(BenchError::Volume)?;
    Ok(Outcome { elapsed, volume_writes })
}

fn commit(
    log: &Log,
    pair: &[Arc<Object>; 2],
    common: Option<&Arc<Object>>,
) -> xfs_buffer::Result<u64> {
    let [inode, buffer] = pair;
    let mut ticket = log.reserve(RESERVED_BYTES, 1)?;
    let locks = (common.map(|common| common.lock()), inode.lock(), buffer.lock());
    let items: [Arc<dyn LogItem>; 2] = [Arc::clone(inode) as _, Arc::clone(buffer) as _];
    let committed = match common {
        None => log.commit(&mut ticket, &items)?,
        Some(common) => {
            let [inode, buffer] = items;
            log.commit(&mut ticket, &[Arc::clone(common) as _, inode, buffer])?
        }
    };
    drop(locks);
    log.release(ticket);
    log.settle(committed)?;
    Ok(committed.sequence)
}

/// How long a force takes when there is one commit to write, and when a checkpoint is large.
fn forces(arguments: &Arguments) -> Result<(), BenchError> {
    println!("\n| commits in the checkpoint | a force takes |\n|---|---|");
    for count in [1, 1000, 50_000] {
        let log = open(arguments.log, 8)?;
        let pairs: Vec<_> = (0..count).map(|_| [Object::inode(), Object::buffer()]).collect();
        let mut best = Duration::MAX;
        for _ in 0..arguments.runs.max(5) {
            let mut sequence = 0;
            for pair in &pairs {
                sequence = commit(&log, pair, None).map_err(BenchError::Volume)?;
            }
            let start = Instant::now();
            log.force(sequence).map_err(BenchError::Volume)?;
            best = best.min(start.elapsed());
        }
        println!("| {count} | {:.1} µs |", best.as_secs_f64() * 1e6);
    }
    Ok(())
}
