//! The arguments of `scan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Write one row per inode: everything in it, and all its paths
///
/// That nothing is found does not mean that the volume is sound: where files name their parents (parent
/// pointers), directories are not read, and one that is destroyed is not found. xfs_repair -n checks.
#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// The images or devices
    #[arg(required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format: table on a terminal, ndjson otherwise
    #[arg(long, value_enum)]
    pub(crate) format: Option<ScanFormat>,
    /// Work on this many threads; all processors if not given
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Stay inside this much memory, 1 GiB if not given; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = crate::size::parse)]
    pub(crate) memory: Option<u64>,
    /// Only these fields, separated by commas. A table shows what fits a terminal, the other
    /// formats everything but symlink and xattrs, unless told otherwise
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Add accounting rows, with shared blocks counted once
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) by: Option<ScanKey>,
    /// Write what CSV and Parquet have no rows for to this file, as NDJSON: volumes, errors, accounting rows and totals.
    /// Without it, errors and accounting rows go to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Print a report instead of rows
    #[arg(long, conflicts_with_all = ["output", "format", "fields", "by", "facts"])]
    pub(crate) summary: bool,
}

/// What `scan` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanFormat {
    /// Columns to read.
    Table,
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated values: a header line, then one line for each inode.
    Csv,
    /// Apache Parquet, one row for each inode.
    Parquet,
}

/// What `scan --by` adds up over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanKey {
    /// User id.
    Owner,
    /// Project id.
    Project,
    /// Directory.
    Dir,
}
