//! What a scan is asked for.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::Fields;

/// The form of the output.
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
    /// Whether the rows are inodes alone, so that what the scan found besides goes elsewhere.
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

/// A name that is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such format: {name}; the formats are table, ndjson, csv and parquet")]
pub struct UnknownFormat {
    /// What was asked for.
    pub name: String,
}

/// What space is accounted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountBy {
    /// The owner (uid).
    Owner,
    /// The project.
    Project,
    /// Every directory, with all that is below it.
    Directory,
}

/// Memory that a scan keeps to unless told otherwise: 1 GiB.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// Where rows go for which there is no room in memory.
#[derive(Clone, Debug)]
pub enum Spill {
    /// Into a file in this directory, made when it is first needed; it has no name there.
    In(PathBuf),
    /// Into this file: for a program that gives up the right to open files before it scans.
    To(Arc<File>),
}

impl Spill {
    /// Makes the file now, without a name, in `directory`.
    ///
    /// # Errors
    ///
    /// What the host says.
    pub fn to_file_in(directory: &Path) -> io::Result<Self> {
        Ok(Self::To(Arc::new(tempfile::tempfile_in(directory)?)))
    }
}

/// How a scan is done.
#[derive(Clone)]
pub struct ScanOptions {
    /// Columns.
    pub fields: Fields,
    /// Worker threads; 0 for one per processor, as far as half of the memory goes (24 MiB each).
    pub threads: usize,
    /// Memory to keep to, in bytes.
    pub memory_bytes: u64,
    /// Where rows go for which there is no room in memory.
    pub spill: Spill,
    /// Accounting rows to add after the inodes.
    pub accounts: Vec<AccountBy>,
    /// Whether to collect the figures of [`ScanReport::summary`](crate::ScanReport).
    pub summary: bool,
    /// Asked from every worker now and then; a scan ends with
    /// [`Cancelled`](crate::ScanError::Cancelled) soon after it has returned true.
    pub cancel: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// Told from the calling thread how far the scan is.
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
            summary: false,
            cancel: None,
            progress: None,
        }
    }
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows read so far.
    pub inodes_read: u64,
    /// Rows given to the output so far.
    pub inodes_written: u64,
    /// Inodes that the volumes hold, as the inode btrees say.
    pub inodes_total: u64,
}
