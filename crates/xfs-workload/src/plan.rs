//! What is to be run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::variant::Variant;
use crate::work::WorkStep;

/// A workload, as it is chosen by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Making empty files.
    Create,
    /// Listing directories with what `stat` shows, nothing in memory: all together, and file by file.
    Walk,
    /// Changing permissions, nothing in memory.
    Chmod,
    /// Listing all inodes, past those in memory and through them.
    Bulkstat,
    /// Removing files, nothing in memory.
    Unlink,
    /// Opening and closing one file from all threads.
    Open,
    /// Committing small transactions.
    Commit,
    /// Making and removing files in many directories.
    Fsmark,
    /// Looking files up with memory for few of them.
    Pressure,
    /// Listing the inodes of a large volume.
    Stream,
    /// Making one change durable, whatever else there is to write.
    Fsync,
}

impl Workload {
    /// All, in the order in which they run.
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

    /// What it is called.
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

    /// What it does, in a line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Create => "Make empty files, each thread in a directory of its own",
            Self::Walk => {
                "List the directories with what stat shows, all together and file by file"
            }
            Self::Chmod => "Look each file up and change its permissions",
            Self::Bulkstat => "List all inodes, past those in memory and through them",
            Self::Unlink => "Remove the files",
            Self::Open => "Open and close one file from all threads",
            Self::Commit => "Commit small transactions, to a log by itself",
            Self::Fsmark => {
                "Make and remove files in many directories, with parent pointers and without"
            }
            Self::Pressure => "Look files up with memory for a tenth of their inodes",
            Self::Stream => "List the inodes of one large volume",
            Self::Fsync => {
                "Make one change durable, with nothing, some and a full list of commits to write besides"
            }
        }
    }

    /// The workload of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// Whether a step of the sequence over files belongs to it.
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

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Files of each thread, as long as there is a processor for it. More threads share what there
    /// would be for as many as there are processors. `fsync` makes as many as fill the list of its log.
    pub files: u64,
    /// How often everything is run; the shortest time of each counts.
    pub runs: u32,
    /// Whether each is run with single design decisions taken back as well.
    pub before: bool,
    /// Subdirectories of each thread over which its files go in turn; 0 for none, but in `fsmark`, where
    /// there is one for ten files then.
    pub directories: u64,
    /// Inodes of the volume of `stream`.
    pub inodes: u64,
    /// Allocation groups of our volumes.
    pub groups: u64,
    /// Bytes of their logs.
    pub log_bytes: u64,
    /// Where the volumes lie: in memory, or in files of this folder.
    pub folder: Option<PathBuf>,
    /// A directory on a mounted XFS volume, to do the same in it through system calls.
    pub kernel: Option<PathBuf>,
}

impl Plan {
    /// What ends within a minute on a machine with so many processors.
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

    /// Files of each of so many threads, on so many processors.
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

    /// Ours, these others, of which decisions taken back only if that is asked for, and the kernel if it is.
    pub(crate) fn variants(&self, others: &[Variant]) -> Vec<Variant> {
        let mut variants = vec![Variant::Ours];
        variants.extend(others.iter().filter(|other| self.before || !other.is_before()));
        variants.extend(self.kernel.as_ref().map(|_| Variant::Kernel));
        variants
    }
}

/// As many threads as the origins had processors.
const MANY_THREADS: usize = 64;
