//! The arguments of `scan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Write one row per inode: everything in it, and all its paths
///
/// A scan without findings does not prove that the volume is sound. If files name their parents
/// (parent pointers), directories are not read, and a destroyed directory is not reported.
/// `ferroxfs check` checks a volume.
#[derive(Args, Debug)]
pub(crate) struct ScanArguments {
    /// The images or devices
    #[arg(required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format: by default csv or parquet if the output file has this ending, table on a
    /// terminal, and ndjson otherwise
    #[arg(long, value_enum)]
    pub(crate) format: Option<ScanFormat>,
    /// The number of threads; by default one per processor
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// The limit on memory, by default 1 GiB; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    pub(crate) memory: Option<u64>,
    /// Only these fields, separated by commas. By default a table shows the fields that fit the
    /// terminal, and the other formats all fields except symlink and xattrs
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Add accounting rows, with shared blocks counted once
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) by: Option<ScanKey>,
    /// Write the items without rows in CSV and Parquet to this file, as NDJSON: volumes, errors,
    /// accounting rows and totals. Without it, errors and accounting rows go to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Scan damaged volumes as far as they can be read, as salvage does; all names are kept in
    /// memory, with one thread
    #[arg(long, conflicts_with_all = ["by", "summary", "threads", "memory"])]
    pub(crate) damaged: bool,
    /// Print a report instead of rows
    #[arg(long, conflicts_with_all = ["output", "format", "fields", "by", "facts"])]
    pub(crate) summary: bool,
}

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanFormat {
    /// Columns for people to read.
    Table,
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values: a header line, then one line for each inode.
    Csv,
    /// Apache Parquet, one row for each inode.
    Parquet,
}

/// The key of the accounting rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanKey {
    /// User id.
    Owner,
    /// Project id.
    Project,
    /// Directory.
    Dir,
}
