//! The options of a scan.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::Fields;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Columns for a terminal.
    Table,
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values with a header line.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Returns whether the format has rows for inodes only, so that findings, accounts and totals
    /// need an output of their own.
    #[must_use]
    pub const fn has_facts_apart(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "table" => Ok(Self::Table),
            "ndjson" => Ok(Self::Ndjson),
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            _ => Err(UnknownFormat { name: name.to_owned() }),
        }
    }
}

/// A format name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {name}; the formats are table, ndjson, csv and parquet")]
pub struct UnknownFormat {
    /// The name that was given.
    pub name: String,
}

/// The kinds of accounts, which sum up space: by owner, by project or by directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountBy {
    /// One account per owner (uid).
    Owner,
    /// One account per project.
    Project,
    /// One account per directory, including everything below the directory.
    Directory,
}

/// Default memory limit: 1 GiB.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// The file for the rows that do not fit in memory.
#[derive(Clone, Debug)]
pub enum Spill {
    /// An unnamed file in this directory, created when it is first needed.
    In(PathBuf),
    /// This open file, for a program that has given up the right to open files.
    To(Arc<File>),
}

impl Spill {
    /// Creates the unnamed file in `directory` now.
    ///
    /// # Errors
    ///
    /// The error of creating the file.
    pub fn to_file_in(directory: &Path) -> io::Result<Self> {
        Ok(Self::To(Arc::new(tempfile::tempfile_in(directory)?)))
    }
}

/// The options of a scan.
#[derive(Clone)]
pub struct ScanOptions {
    /// The columns of the output.
    pub fields: Fields,
    /// Number of worker threads. 0 means one per processor, but at most as many as half of the
    /// memory limit allows at 24 MiB each.
    pub threads: usize,
    /// Memory limit in bytes.
    pub memory_bytes: u64,
    /// The destination of rows that do not fit in memory.
    pub spill: Spill,
    /// The kinds of accounts whose rows follow those of the inodes.
    pub accounts: Vec<AccountBy>,
    /// The greatest depth of directories whose accounts are shown; `None` shows all. The root
    /// directory has depth 0. An account also includes everything below that depth.
    pub account_depth: Option<usize>,
    /// Whether to create [`ScanReport::summary`](crate::ScanReport).
    pub summary: bool,
    /// The function that every worker calls before each unit of work. After it has returned `true`,
    /// the scan ends soon with [`Cancelled`](crate::ScanError::Cancelled).
    pub cancel: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// The function that receives the progress, called by the thread that has started the scan.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            fields: Fields::default(),
            threads: 0,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            spill: Spill::In(std::env::temp_dir()),
            accounts: Vec::new(),
            account_depth: None,
            summary: false,
            cancel: None,
            progress: None,
        }
    }
}

/// The progress of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of rows read so far.
    pub inodes_read: u64,
    /// Number of rows passed to the output so far.
    pub inodes_written: u64,
    /// Number of used inodes of all volumes whose scan has begun, according to the inode btrees.
    pub inodes_total: u64,
}
