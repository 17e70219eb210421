//! How much is done, and what.

use serde::{Deserialize, Serialize};

/// Bytes of a name, where nothing else is asked for.
pub const USUAL_NAME_BYTES: usize = 13;

/// One thing that is done to all files, and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkStep {
    /// Make empty files.
    Create,
    /// Give each file a second name.
    Link,
    /// List the directories, with what `stat` shows of each file.
    Walk,
    /// The same, each file looked up: its inode comes into memory.
    WalkThrough,
    /// Look each file up and change its permissions.
    Change,
    /// Look each file up and at what `stat` shows, twice, in an order that is not that of making.
    Visit,
    /// List all inodes past those in memory.
    BulkstatPast,
    /// List all inodes, each of which comes into memory and goes again.
    Bulkstat,
    /// Remove the files with all their names.
    Remove,
}

impl WorkStep {
    /// The word for it, in tables and on the command line.
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

/// How much work a step is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Threads, each in a directory of its own.
    pub threads: usize,
    /// The number of the first of them, by which its directory is called.
    pub first: usize,
    /// Files of each.
    pub files: u64,
    /// Bytes of each name.
    pub name_bytes: usize,
    /// Whether each file has a second name.
    pub linked: bool,
    /// Directories below each thread's own over which its files go in turn; 0: they lie in that itself.
    pub directories: u64,
}

impl Work {
    /// So many files for each of so many threads, in one directory each.
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

    /// Files of all threads.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.files * self.threads as u64
    }

    /// The numbers of a thread's files, each twice, far apart from one to the next.
    pub(crate) fn visits(&self) -> impl Iterator<Item = u64> + use<> {
        // Primes: one that does not divide the number of files comes to all of them.
        const STRIDES: [u64; 2] = [7919, 104_729];
        let files = self.files;
        let stride = STRIDES.into_iter().find(|stride| !files.is_multiple_of(*stride)).unwrap_or(1);
        (0..2 * files).map(move |visit| visit % files * stride % files)
    }

    /// How often a step is done.
    pub(crate) const fn operations(&self, step: WorkStep) -> u64 {
        match step {
            WorkStep::Visit => 2 * self.total(),
            _ => self.total(),
        }
    }

    /// The name of the directory of one of the threads.
    pub(crate) fn folder(&self, thread: usize) -> String {
        format!("thread-{}", self.first + thread)
    }

    /// The name of a file: no two names of one thread are alike in length only.
    pub(crate) fn name(&self, number: u64) -> String {
        let digits = self.name_bytes - "file-".len();
        format!("file-{number:0digits$}")
    }

    /// Its second name.
    pub(crate) fn second_name(&self, number: u64) -> String {
        let digits = self.name_bytes - "link-".len();
        format!("link-{number:0digits$}")
    }

    /// The names below a thread's directory in which its files lie: none if they lie in that itself.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.directories).map(|number| format!("d{number}"))
    }
}
