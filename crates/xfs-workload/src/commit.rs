//! Measures commits in a log without a volume: how fast transactions commit, and how long a force
//! of the log takes.
//!
//! A transaction logs an inode and a part of a buffer, which only its own thread uses. If `shares`
//! is set, every eighth transaction also logs an object that all threads share. The log is in
//! memory.

mod object;

use std::ops::RangeInclusive;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ferroxfs::admin::Uuid;
use ferroxfs::device::{BlockDevice, Durability};
use ferroxfs::error::DiskAddr;
use ferroxfs::raw::format::Lsn;
use ferroxfs::raw::format::log_record::{LogVersion, RecordChecksums};
use ferroxfs::raw::log::{self, Log, LogConfig, LogDevice, LogGeometry, LogItem, LogState};
use xfs_device::MemoryDevice;
use xfs_sync::{Object as OfObject, RwLock};

use crate::counted::{Counted, shared_writes};
use crate::error::WorkloadError;
use crate::parallel::join;
use crate::target::Performed;
use object::LoggedObject;

/// Number of bytes of log space that a transaction reserves: about as many as a change of an
/// inode's attributes reserves.
const RESERVED_BYTES: u64 = 64 << 10;

/// The interval, in commits of a thread, at which a commit also logs a shared object.
const SHARED_EVERY: u64 = 8;

/// The unit in which the log is addressed, in bytes.
const BLOCK_BYTES: u64 = 512;

/// Supported log sizes in bytes. The smallest suffices for the reservations of many threads; the
/// largest is the largest that mkfs creates.
pub const LOG_BYTES: RangeInclusive<u64> = 8 << 20..=2038 << 20;

/// The parameters of the commit benchmark, in which many threads commit to one log.
#[derive(Clone, Copy, Debug)]
pub struct CommitLoad {
    /// Number of threads.
    pub threads: usize,
    /// Number of per-CPU slots of the log. With one slot, all threads share a single list of
    /// commits.
    pub slots: usize,
    /// Number of commits of all threads together.
    pub commits: u64,
    /// Number of inodes that all threads together log. They log the same number of buffers.
    pub objects: u64,
    /// Size of the log in bytes.
    pub log_bytes: u64,
    /// Whether every eighth commit logs an object that all threads share.
    pub shares: bool,
}

impl CommitLoad {
    /// Makes all commits, and forces the log at the end. The measured time therefore includes
    /// formatting and writing checkpoints, and maintaining the active item list.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::LogSize`] if the size of the log is not supported, or the log's error.
    pub fn run(&self) -> Result<(Performed, Counted), WorkloadError> {
        self.run_between(|| {})
    }

    /// Commits as [`run`](Self::run) does. Calls `mark` before the first commit, and when the log is
    /// forced.
    pub(crate) fn run_between(
        &self,
        mark: impl Fn(),
    ) -> Result<(Performed, Counted), WorkloadError> {
        let log = open(self.log_bytes, self.slots)?;
        let common = self.shares.then(LoggedObject::buffer);
        let start_line = RwLock::<(), OfObject>::new(());
        let run = |ready: mpsc::Sender<()>| {
            let pairs = self.objects_of_a_thread();
            // The receiver waits until all senders are gone.
            drop(ready);
            drop(start_line.read());
            for (round, pair) in (0..self.commits / self.threads as u64).zip(pairs.iter().cycle()) {
                let common = common.as_ref().filter(|_| round % SHARED_EVERY == 0);
                commit(&log, pair, common)?;
            }
            // Dropped by the joining thread, because that is not part of committing.
            Ok::<_, WorkloadError>(pairs)
        };
        let counted = || Counted { shared: shared_writes(), ..Counted::default() };
        let (performed, counted) = thread::scope(|scope| {
            let (ready, all_ready) = mpsc::channel();
            let closed = start_line.write();
            let handles: Vec<_> = (0..self.threads)
                .map(|_| {
                    let (run, ready) = (&run, ready.clone());
                    scope.spawn(move || run(ready))
                })
                .collect();
            drop(ready);
            let _ = all_ready.recv();
            mark();
            let (before, start) = (counted(), Instant::now());
            drop(closed);
            let objects = join(handles)?;
            let worked = start.elapsed();
            let counted = counted().since(&before);
            let forced = log.force_all();
            let drained = start.elapsed();
            mark();
            drop(objects);
            let operations = self.commits / self.threads as u64 * self.threads as u64;
            forced?;
            Ok::<_, WorkloadError>((
                Performed { operations, worked, drained, is_certain: true },
                counted,
            ))
        })?;
        log.quiesce()?;
        Ok((performed, counted))
    }

    fn objects_of_a_thread(&self) -> Vec<[Arc<LoggedObject>; 2]> {
        let count = (self.objects / self.threads as u64).max(1);
        (0..count).map(|_| [LoggedObject::inode(), LoggedObject::buffer()]).collect()
    }
}

/// Creates an empty log in memory.
fn open(log_bytes: u64, slots: usize) -> Result<Log, WorkloadError> {
    if !LOG_BYTES.contains(&log_bytes) {
        return Err(WorkloadError::LogSize(log_bytes));
    }
    let length_blocks = (log_bytes / BLOCK_BYTES) as u32;
    let geometry = LogGeometry {
        start: DiskAddr(0),
        length_blocks,
        sector_bytes: 512,
        stripe_unit_bytes: 1,
        uuid: Uuid::nil(),
        version: LogVersion::V2,
        checksums: RecordChecksums::Required,
    };
    let device = Arc::new(MemoryDevice::new(u64::from(length_blocks) * BLOCK_BYTES));
    touch(&device, u64::from(length_blocks) * BLOCK_BYTES)?;
    let device = LogDevice::with_geometry(device, geometry)?;
    let head = Lsn::new(1, 0);
    let state = LogState {
        head,
        tail: head,
        clean: true,
        last_record: u32::MAX,
        buffer_bytes: log::MAX_BUFFER_BYTES,
        torn: None,
        is_blank: false,
    };
    let config = LogConfig {
        slots,
        buffer_bytes: log::MAX_BUFFER_BYTES,
        largest_bytes: RESERVED_BYTES,
        ..LogConfig::new(&geometry)
    };
    Ok(Log::open(device, None, &state, &config))
}

/// Writes the whole device once, so that the measurement does not include the allocation of its
/// memory.
fn touch(device: &MemoryDevice, length_bytes: u64) -> Result<(), WorkloadError> {
    const STEP: usize = 1 << 20;
    let zeros = vec![0; STEP];
    for offset in (0..length_bytes).step_by(STEP) {
        device
            .write_at(&zeros, offset, Durability::Cached)
            .map_err(|source| WorkloadError::System { what: "the log in memory", source })?;
    }
    Ok(())
}

fn commit(
    log: &Log,
    pair: &[Arc<LoggedObject>; 2],
    common: Option<&Arc<LoggedObject>>,
) -> ferroxfs::Result<u64> {
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

/// Commits `commits` transactions and then measures how long a force of the log takes. Repeats this
/// `times` times, and returns the shortest duration of a force.
///
/// # Errors
///
/// The log's error.
pub fn time_force(log_bytes: u64, commits: usize, times: u32) -> Result<Duration, WorkloadError> {
    let log = open(log_bytes, 8)?;
    let pairs: Vec<_> =
        (0..commits).map(|_| [LoggedObject::inode(), LoggedObject::buffer()]).collect();
    let mut best = Duration::MAX;
    for _ in 0..times {
        let mut sequence = 0;
        for pair in &pairs {
            sequence = commit(&log, pair, None)?;
        }
        let start = Instant::now();
        log.force(sequence)?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

#[cfg(test)]
mod tests;
