//! The steps of workloads, and the number of threads, files and names of a step.

use serde::{Deserialize, Serialize};

/// Length of a file name in bytes, unless the plan sets another length.
pub const USUAL_NAME_BYTES: usize = 13;

/// An operation on all files, which is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkStep {
    /// Creates empty files.
    Create,
    /// Gives each file a second name.
    Link,
    /// Lists the directories, with the stat data of each file.
    Walk,
    /// Lists the directories and looks each file up, which brings its inode into memory.
    WalkThrough,
    /// Looks each file up and changes its permissions.
    Change,
    /// Looks each file up twice and reads its stat data. The order of the files differs from that
    /// of their creation.
    Visit,
    /// Lists all inodes, bypassing the inode cache.
    BulkstatPast,
    /// Lists all inodes through the inode cache. Each inode is evicted after it was listed.
    Bulkstat,
    /// Removes the files with all their names.
    Remove,
}

impl WorkStep {
    /// Returns the name of the step in tables and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Link => "link",
            Self::Walk => "walk",
            Self::WalkThrough => "walk through memory",
            Self::Change => "chmod",
            Self::Visit => "visit",
            Self::BulkstatPast => "bulkstat past memory",
            Self::Bulkstat => "bulkstat",
            Self::Remove => "unlink",
        }
    }
}

/// The amount of work in a step: the threads, and the files and names of each thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Number of threads, each in a directory of its own.
    pub threads: usize,
    /// The index of the first thread. A thread's directory is named after the thread's index.
    pub first: usize,
    /// Number of files per thread.
    pub files: u64,
    /// Length of each name in bytes.
    pub name_bytes: usize,
    /// Whether each file has a second name.
    pub linked: bool,
    /// Number of subdirectories per thread, over which the thread's files are distributed in turn.
    /// With 0, all files are in the thread's own directory.
    pub directories: u64,
}

impl Work {
    /// Returns the work of `threads` threads with `files` files each, without subdirectories.
    #[must_use]
    pub const fn new(threads: usize, files: u64) -> Self {
        Self {
            threads,
            first: 0,
            files,
            name_bytes: USUAL_NAME_BYTES,
            linked: false,
            directories: 0,
        }
    }

    /// Returns the number of files of all threads.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.files * self.threads as u64
    }

    /// Returns the indexes of a thread's files in the order in which `WorkStep::Visit` looks them
    /// up. Each index occurs twice. Successive indexes are far apart.
    pub(crate) fn visits(&self) -> impl Iterator<Item = u64> + use<> {
        // Primes: one that does not divide the number of files reaches all of them.
        const STRIDES: [u64; 2] = [7919, 104_729];
        let files = self.files;
        let stride = STRIDES.into_iter().find(|stride| !files.is_multiple_of(*stride)).unwrap_or(1);
        (0..2 * files).map(move |visit| visit % files * stride % files)
    }

    /// Returns the number of operations of all threads in a step.
    pub(crate) const fn operations(&self, step: WorkStep) -> u64 {
        match step {
            WorkStep::Visit => 2 * self.total(),
            _ => self.total(),
        }
    }

    /// Returns the name of the directory of the thread with index `thread`.
    pub(crate) fn folder(&self, thread: usize) -> String {
        format!("thread-{}", self.first + thread)
    }

    /// Returns the name of the file with index `number`. All names have the same length.
    pub(crate) fn name(&self, number: u64) -> String {
        let digits = self.name_bytes - "file-".len();
        format!("file-{number:0digits$}")
    }

    /// Returns the second name of the file with index `number`.
    pub(crate) fn second_name(&self, number: u64) -> String {
        let digits = self.name_bytes - "link-".len();
        format!("link-{number:0digits$}")
    }

    /// Returns the names of the subdirectories of a thread's directory. The result is empty if the
    /// files are in the thread's directory itself.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.directories).map(|number| format!("d{number}"))
    }
}
