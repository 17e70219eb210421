//! The plan of a benchmark run: which workloads run, and with which parameters.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::variant::Variant;
use crate::work::WorkStep;

/// A workload, which can be selected by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Creates empty files.
    Create,
    /// Lists directories with stat data and cold caches, once with the attributes that readdir
    /// returns and once with a lookup of each file.
    Walk,
    /// Changes permissions, with cold caches.
    Chmod,
    /// Lists all inodes, once bypassing the inode cache and once through it.
    Bulkstat,
    /// Removes files, with cold caches.
    Unlink,
    /// Opens and closes one file in all threads at once.
    Open,
    /// Commits small transactions.
    Commit,
    /// Creates and removes files in many directories.
    Fsmark,
    /// Looks files up while memory suffices for a tenth of their inodes.
    Pressure,
    /// Lists the inodes of a large volume.
    Stream,
    /// Makes one change durable while other changes wait in the log.
    Fsync,
}

impl Workload {
    /// All workloads, in the order in which they run.
    pub const ALL: [Self; 11] = [
        Self::Create,
        Self::Walk,
        Self::Chmod,
        Self::Bulkstat,
        Self::Unlink,
        Self::Open,
        Self::Commit,
        Self::Fsmark,
        Self::Pressure,
        Self::Stream,
        Self::Fsync,
    ];

    /// Returns the name of the workload.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Walk => "walk",
            Self::Chmod => "chmod",
            Self::Bulkstat => "bulkstat",
            Self::Unlink => "unlink",
            Self::Open => "open",
            Self::Commit => "commit",
            Self::Fsmark => "fsmark",
            Self::Pressure => "pressure",
            Self::Stream => "stream",
            Self::Fsync => "fsync",
        }
    }

    /// Returns a description of the workload in one line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Create => "Create empty files, each thread in a directory of its own",
            Self::Walk => "List directories with stat data, in one pass and file by file",
            Self::Chmod => "Look each file up and change its permissions",
            Self::Bulkstat => "List all inodes, bypassing the inode cache and through it",
            Self::Unlink => "Remove the files",
            Self::Open => "Open and close one file from all threads",
            Self::Commit => "Commit small transactions to a log without a volume",
            Self::Fsmark => {
                "Create and remove files in many directories, with and without parent pointers"
            }
            Self::Pressure => "Look files up with memory for a tenth of their inodes",
            Self::Stream => "List the inodes of one large volume",
            Self::Fsync => {
                "Make one change durable, with an empty, a partly filled and a full list of commits"
            }
        }
    }

    /// Returns the workload with this name, or `None`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// Returns whether this workload includes `step`, one of the steps that run in sequence over
    /// the same files.
    pub(crate) fn has(self, step: WorkStep) -> bool {
        match self {
            Self::Create => step == WorkStep::Create,
            Self::Walk => matches!(step, WorkStep::Walk | WorkStep::WalkThrough),
            Self::Chmod => step == WorkStep::Change,
            Self::Bulkstat => matches!(step, WorkStep::BulkstatPast | WorkStep::Bulkstat),
            Self::Unlink => step == WorkStep::Remove,
            _ => false,
        }
    }
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The workloads to run.
    pub workloads: Vec<Workload>,
    /// The numbers of threads: each workload runs once with each of these numbers.
    pub threads: Vec<usize>,
    /// Number of files per thread. If there are more threads than processors, all threads together
    /// get as many files as one thread per processor would get. The workload `fsync` ignores this
    /// number and creates as many files as its log needs.
    pub files: u64,
    /// Number of times that every measurement is made. The report has the shortest time.
    pub runs: u32,
    /// Whether each workload also runs on older variants of the library, in each of which one
    /// design decision is reverted.
    pub before: bool,
    /// Number of subdirectories per thread, over which the thread's files are distributed in turn.
    /// With 0 there are no subdirectories, except that `fsmark` then has one per ten files.
    pub directories: u64,
    /// Number of inodes of the volume of `stream`.
    pub inodes: u64,
    /// Number of allocation groups of each volume that is created for ferroxfs.
    pub groups: u64,
    /// Log size in bytes of each volume that is created for ferroxfs.
    pub log_bytes: u64,
    /// The folder for the volumes. `None` puts them in memory.
    pub folder: Option<PathBuf>,
    /// A directory on a mounted XFS volume, in which the kernel does the same work. `None` if the
    /// kernel takes no part.
    pub kernel: Option<PathBuf>,
}

impl Plan {
    /// Returns a plan that ends within a minute on a machine with this many processors.
    #[must_use]
    pub fn usual(processors: usize) -> Self {
        let powers = std::iter::successors(Some(1), |threads| Some(threads * 2));
        let mut threads: Vec<usize> = powers.take_while(|threads| *threads < processors).collect();
        threads.extend([processors, MANY_THREADS.max(processors * 2)]);
        Self {
            workloads: Workload::ALL.to_vec(),
            threads,
            files: 5_000,
            runs: 2,
            before: true,
            directories: 0,
            inodes: 200_000,
            groups: (processors as u64).max(4),
            log_bytes: 256 << 20,
            folder: None,
            kernel: None,
        }
    }

    /// Returns the number of files per thread for this many threads and processors.
    #[must_use]
    pub fn files_of(&self, threads: usize, processors: usize) -> u64 {
        match threads > processors {
            true => (self.files * processors as u64 / threads as u64).max(1),
            false => self.files,
        }
    }

    pub(crate) fn wants(&self, step: WorkStep) -> bool {
        self.workloads.iter().any(|workload| workload.has(step))
    }

    /// Returns the variants to run: ferroxfs, the variants among `others` that the plan permits,
    /// and the kernel if the plan includes it.
    pub(crate) fn variants(&self, others: &[Variant]) -> Vec<Variant> {
        let mut variants = vec![Variant::Ours];
        variants.extend(others.iter().filter(|other| self.before || !other.is_before()));
        variants.extend(self.kernel.as_ref().map(|_| Variant::Kernel));
        variants
    }
}

/// Lower limit of the largest number of threads in the usual plan, which is otherwise twice the
/// number of processors. The published benchmarks that these workloads repeat ran on machines with
/// 64 processors.
const MANY_THREADS: usize = 64;
