//! The kernel's XFS, through system calls, in a directory of a mounted volume.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{major, minor, statfs, statvfs, syncfs};
use rustix::io::Errno;
use xfs_sync::{AtomicU32, Ordering, Volume as OfVolume};

use super::{Cold, Performed, WorkTarget, check_walk};
use crate::counted::Counted;
use crate::digest::Digest;
use crate::error::WorkloadError;
use crate::ioctl::{bulkstat_count, shape};
use crate::parallel::in_parallel;
use crate::report::VolumeShape;
use crate::work::{Work, WorkStep};

/// Mode of created files. The files on volumes of ferroxfs get the same mode.
const MODE: u32 = 0o600;
const CHANGED_MODE: u32 = 0o400;
const FOLDER_MODE: u32 = 0o700;

const NO_PROGRESS: Duration = Duration::from_secs(1);

/// Index of a number in the line `ig` of the kernel's statistics: `xs_ig_missed`. The next constant
/// is the index of `xs_ig_reclaims`.
const INODES_MISSED: usize = 3;
const INODES_RECLAIMED: usize = 5;

/// Number of attempts to drop the caches. The next constant is the pause between two attempts.
const DROPS: u32 = 25;
const DROP_INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait for one attempt to drop the caches. On a machine where an unmount hangs, the
/// attempt never returns.
const DROP_PATIENCE: Duration = Duration::from_secs(10);
/// The most inodes that are cached on an idle volume: its root, and internal files.
const FEW_INODES: u64 = 16;

/// Type of an XFS filesystem in statfs(2): XFS_SUPER_MAGIC, "XFSB".
const MAGIC: i64 = 0x5846_5342;

/// A directory on the kernel's XFS. Dropping this value removes the contents of the directory.
pub struct KernelDirectory {
    path: PathBuf,
    /// Number of used inodes of the volume before any file was created.
    used: u64,
    made: Vec<PathBuf>,
}

impl KernelDirectory {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if the directory is not on XFS.
    pub fn open(path: &Path) -> Result<Self, WorkloadError> {
        let found = statfs(path).map_err(|error| WorkloadError::file(path)(error.into()))?;
        // The type of the field differs between architectures.
        if found.f_type as i64 != MAGIC {
            return Err(WorkloadError::Unavailable {
                what: path.display().to_string(),
                why: "not a directory of a mounted XFS volume".to_owned(),
            });
        }
        Ok(Self { path: path.to_owned(), used: 0, made: Vec::new() })
    }

    /// Sets the new path of the directory, after its volume was mounted at another mount point.
    pub fn relocate(&mut self, path: &Path) {
        let names = self.made.iter().filter_map(|made| made.file_name());
        self.made = names.map(|name| path.join(name)).collect();
        self.path = path.to_owned();
    }

    /// Returns parent pointers, number of groups and log size of the directory's volume.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn volume(&self) -> Result<VolumeShape, WorkloadError> {
        let directory = File::open(&self.path).map_err(self.failed())?;
        shape(directory).map_err(|errno| self.failed()(errno.into()))
    }

    fn used_inodes(&self) -> Result<u64, WorkloadError> {
        let found = statvfs(&self.path).map_err(|error| self.failed()(error.into()))?;
        Ok(found.f_files - found.f_ffree)
    }

    /// Makes all changes of the volume durable.
    pub(crate) fn sync(&self) -> Result<(), WorkloadError> {
        let sync = || Ok(syncfs(File::open(&self.path)?)?);
        until_there_is_memory(sync).map_err(self.failed())
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> WorkloadError + '_ {
        WorkloadError::file(&self.path)
    }

    /// Returns the directories that contain the files of the thread with index `thread`.
    fn leaves(&self, thread: usize, work: &Work) -> Vec<PathBuf> {
        let top = self.path.join(work.folder(thread));
        match work.directories {
            0 => vec![top],
            _ => work.leaves().map(|name| top.join(name)).collect(),
        }
    }

    /// Looks up the files of the thread with index `thread`, as [`WorkStep::Visit`] does.
    pub(crate) fn visit(&self, thread: usize, work: &Work) -> Result<(), WorkloadError> {
        perform(WorkStep::Visit, &self.leaves(thread, work), work).map_err(self.failed())
    }

    /// Lists the inodes of the volume with the kernel's bulkstat, and returns their number. Each of
    /// `threads` threads lists whole allocation groups until no group is left.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if the caller is not root. Otherwise the kernel's error.
    pub fn bulkstat(&self, threads: usize) -> Result<u64, WorkloadError> {
        let directory = File::open(&self.path).map_err(self.failed())?;
        let next = AtomicU32::<OfVolume>::new(0);
        let counts = in_parallel(threads, |_| {
            let mut count = 0;
            loop {
                match bulkstat_count(&directory, next.fetch_add(1, Ordering::Relaxed)) {
                    // There is no group of this number.
                    Err(Errno::INVAL) => return Ok(count),
                    counted => count += counted?,
                }
            }
        });
        match counts {
            Ok(counts) => Ok(counts.into_iter().sum()),
            Err(Errno::PERM) => Err(WorkloadError::Unavailable {
                what: "bulkstat of the kernel".to_owned(),
                why: "only root may call it".to_owned(),
            }),
            Err(error) => Err(self.failed()(error.into())),
        }
    }

    /// Returns the numbers in the line `kind` of the kernel's statistics of this volume. `None` if
    /// they are not available.
    fn statistic(&self, kind: &str) -> Option<Vec<u64>> {
        let device = fs::metadata(&self.path).ok()?.dev();
        let device = format!("{}:{}", major(device), minor(device));
        let name = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
        let path = Path::new("/sys/fs/xfs").join(name.file_name()?).join("stats/stats");
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        Some(line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
    }

    fn statistics(&self) -> Option<Counted> {
        let [transactions, log, inodes] =
            ["trans ", "log ", "ig "].map(|kind| self.statistic(kind));
        let (transactions, log, inodes) = (transactions?, log?, inodes?);
        Some(Counted {
            // Synchronous and asynchronous ones.
            transactions: Some(transactions.iter().take(2).sum()),
            log_bytes: log.get(1).map(|blocks| blocks * 512),
            inodes_in: inodes.get(INODES_MISSED).copied(),
            inodes_out: inodes.get(INODES_RECLAIMED).copied(),
            shared: None,
        })
    }
}

impl WorkTarget for KernelDirectory {
    fn prepare(&mut self, work: &Work) -> Result<(), WorkloadError> {
        for thread in 0..work.threads {
            let top = self.path.join(work.folder(thread));
            let leaves = work.leaves().map(|name| top.join(name));
            for path in std::iter::once(top.clone()).chain(leaves) {
                let made = DirBuilder::new().mode(FOLDER_MODE).create(&path);
                made.map_err(WorkloadError::file(&path))?;
                if path == top {
                    self.made.push(path);
                }
            }
        }
        self.used = self.used_inodes()?;
        Ok(())
    }

    fn cool(&mut self) -> Result<Cold, WorkloadError> {
        self.sync()?;
        for _ in 0..DROPS {
            if let Err(error) = drop_caches() {
                return Ok(Cold::No(format!("the kernel's caches cannot be dropped: {error}")));
            }
            // Inodes that are not yet written in place stay in memory, and the kernel only then
            // starts to write them.
            let inodes = self.statistic("vnodes ").and_then(|inodes| inodes.first().copied());
            if inodes.is_none_or(|inodes| inodes <= FEW_INODES) {
                break;
            }
            thread::sleep(DROP_INTERVAL);
        }
        Ok(Cold::Yes)
    }

    fn perform(&mut self, step: WorkStep, work: &Work) -> Result<Performed, WorkloadError> {
        let start = Instant::now();
        let operations = match step {
            WorkStep::Bulkstat => self.bulkstat(work.threads)?,
            WorkStep::BulkstatPast => {
                return Err(WorkloadError::Unavailable {
                    what: format!("{} of the kernel", step.name()),
                    why: "the kernel's bulkstat always uses the inode cache".to_owned(),
                });
            }
            _ => {
                in_parallel(work.threads, |thread| {
                    let leaves = self.leaves(thread, work);
                    match step {
                        WorkStep::Walk | WorkStep::WalkThrough => {
                            check_walk(walk(&leaves).map_err(self.failed())?, work)
                        }
                        _ => perform(step, &leaves, work).map_err(self.failed()),
                    }
                })?;
                work.operations(step)
            }
        };
        let worked = start.elapsed();
        let freeing = match step {
            WorkStep::Remove => wait_for_freeing(self.used, NO_PROGRESS, || self.used_inodes())?,
            _ => FreeingWait { in_vain: Duration::ZERO, is_certain: true },
        };
        self.sync()?;
        let drained = start.elapsed() - freeing.in_vain;
        Ok(Performed { operations, worked, drained, is_certain: freeing.is_certain })
    }

    fn counted(&self) -> Result<Counted, WorkloadError> {
        Ok(self.statistics().unwrap_or_default())
    }

    fn digest(&mut self, work: &Work) -> Result<Digest, WorkloadError> {
        let parts = in_parallel(work.threads, |thread| {
            let mut digest = Digest::default();
            let name = work.folder(thread);
            for (number, leaf) in self.leaves(thread, work).iter().enumerate() {
                let number = (number as u64).to_be_bytes();
                for entry in fs::read_dir(leaf)? {
                    let entry = entry?;
                    let metadata = entry.metadata()?;
                    let file_name = entry.file_name();
                    let place = [name.as_bytes(), &number, file_name.as_encoded_bytes()];
                    digest.add(&place, metadata.mode(), metadata.nlink(), metadata.size());
                }
            }
            Ok(digest)
        })
        .map_err(self.failed())?;
        let mut digest = Digest::default();
        parts.into_iter().for_each(|part| digest.merge(part));
        Ok(digest)
    }

    fn close(&mut self) -> Result<(), WorkloadError> {
        let mut outcome = Ok(());
        // A path that cannot be removed does not keep the others (I4).
        for path in std::mem::take(&mut self.made) {
            outcome = outcome.and(fs::remove_dir_all(&path).map_err(WorkloadError::file(&path)));
        }
        outcome
    }
}

impl Drop for KernelDirectory {
    fn drop(&mut self) {
        // A failed run has reported its error. Remove as much as possible.
        _ = self.close();
    }
}

/// The result of waiting until the kernel has freed inodes in the background.
#[derive(Debug, PartialEq, Eq)]
struct FreeingWait {
    /// Time without progress at the end of the wait. It is zero if all inodes were freed.
    in_vain: Duration,
    /// Whether exactly as many inodes are used as before the files were created. If not, other
    /// programs may have created or removed files.
    is_certain: bool,
}

/// Waits until at most `before` inodes are used. If other programs create files on the volume, that
/// may never happen. So the wait also ends after a period of `patience` without progress.
fn wait_for_freeing(
    before: u64,
    patience: Duration,
    mut used: impl FnMut() -> Result<u64, WorkloadError>,
) -> Result<FreeingWait, WorkloadError> {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        let used = used()?;
        if used <= before {
            return Ok(FreeingWait { in_vain: Duration::ZERO, is_certain: used == before });
        }
        if used < least {
            (least, since) = (used, Instant::now());
        }
        let in_vain = since.elapsed();
        if in_vain >= patience {
            return Ok(FreeingWait { in_vain, is_certain: false });
        }
        thread::yield_now();
    }
}

/// Lists directories with the stat data of each file. Returns the sum of the link counts of the
/// files.
fn walk(leaves: &[PathBuf]) -> io::Result<u64> {
    let mut count = 0;
    for leaf in leaves {
        for entry in fs::read_dir(leaf)? {
            count += entry?.metadata()?.nlink();
        }
    }
    Ok(count)
}

/// Looks a file up by calling stat.
fn look_at(path: &Path) -> io::Result<()> {
    until_there_is_memory(|| fs::symlink_metadata(path)).map(drop)
}

/// Repeats `attempt` as long as it fails for lack of memory. A process with a memory limit gets
/// this error until the kernel has freed evicted objects.
fn until_there_is_memory<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => thread::yield_now(),
            outcome => return outcome,
        }
    }
}

fn perform(step: WorkStep, leaves: &[PathBuf], work: &Work) -> io::Result<()> {
    if step == WorkStep::Visit {
        let leaf = |number: u64| leaves.get(number as usize % leaves.len());
        for (number, leaf) in work.visits().filter_map(|number| Some((number, leaf(number)?))) {
            look_at(&leaf.join(work.name(number)))?;
        }
        return Ok(());
    }
    for (number, leaf) in (0..work.files).zip(leaves.iter().cycle()) {
        let path = leaf.join(work.name(number));
        match step {
            WorkStep::Create => {
                drop(OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path)?);
            }
            WorkStep::Link => fs::hard_link(&path, leaf.join(work.second_name(number)))?,
            WorkStep::Change => fs::set_permissions(&path, Permissions::from_mode(CHANGED_MODE))?,
            WorkStep::Remove => {
                fs::remove_file(&path)?;
                if work.linked {
                    fs::remove_file(leaf.join(work.second_name(number)))?;
                }
            }
            WorkStep::Walk
            | WorkStep::WalkThrough
            | WorkStep::Visit
            | WorkStep::BulkstatPast
            | WorkStep::Bulkstat => {}
        }
    }
    Ok(())
}

/// Drops the caches of the whole machine. A separate process makes the call, because the call may
/// never return and cannot be killed then.
fn drop_caches() -> io::Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo 3 > /proc/sys/vm/drop_caches"]);
    let null = || Stdio::null();
    let mut child = shell.stdin(null()).stdout(null()).stderr(null()).spawn()?;
    let began = Instant::now();
    while began.elapsed() < DROP_PATIENCE {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(io::ErrorKind::PermissionDenied.into()),
            None => thread::sleep(DROP_INTERVAL),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests;
