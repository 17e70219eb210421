//! The arguments of `scan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Write one row per inode: everything in it, and all its paths
///
/// A scan without findings does not prove that the volume is sound. If files name their parents
/// (parent pointers), directories are not read, and a destroyed directory is not reported.
/// `ferroxfs check` checks a volume.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScanArguments {
    /// The images or devices
    #[arg(required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Add the scans to the dataset in this directory: for each volume one Parquet file of inodes
    /// and one with a row about the scan, below scan_date=DATE/volume_uuid=UUID. Each file appears
    /// when it is complete, and replaces that of an earlier scan of the same volume and date.
    /// s3://BUCKET/PREFIX, http://HOST/PATH and https://HOST/PATH are folders of a server
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["output", "format", "facts", "by", "summary", "damaged"])]
    pub(crate) dataset: Option<PathBuf>,
    /// With --dataset, the date of the scan, as YYYY-MM-DD; by default today, in UTC
    #[arg(long, value_name = "DATE", requires = "dataset")]
    pub(crate) scan_date: Option<jiff::civil::Date>,
    /// Scan only the image with this number into a directory, for the process PARENT, which adds
    /// the scan to a dataset
    #[arg(long, value_name = "NUMBER:PARENT=DIR", hide = true, requires = "dataset")]
    pub(crate) dataset_part: Option<String>,
    /// Whether this is the scan of one image of a dataset.
    #[arg(skip)]
    pub(crate) is_part: bool,
    /// The format: by default that of the ending of the output file (ndjson, jsonl, json, csv or
    /// parquet), table on a terminal, and ndjson otherwise; another ending needs this option
    #[arg(long, value_enum)]
    pub(crate) format: Option<ScanFormat>,
    /// The number of threads; by default one per processor
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// The limit on memory, by default 1 GiB; the suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    pub(crate) memory: Option<u64>,
    /// Only these fields, separated by commas. By default a table shows the fields that fit the
    /// terminal, and the other formats all fields except symlink, xattrs, rt_blocks, hash, owner
    /// and group; Parquet also has the fields parents and parent_generations, which diff needs
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Add the column `owner`: the names of users from this file, such as /etc/passwd; --by owner
    /// and --summary show these names too
    #[arg(long, value_name = "FILE")]
    pub(crate) passwd: Option<PathBuf>,
    /// Add the column `group`: the names of groups from this file, such as /etc/group
    #[arg(long, value_name = "FILE")]
    pub(crate) group: Option<PathBuf>,
    /// Add the columns `owner` and `group`, with the names of /etc/passwd and /etc/group in the
    /// image
    #[arg(long, conflicts_with_all = ["passwd", "group"])]
    pub(crate) passwd_from_image: bool,
    /// Add the column `hash`. With head, the SHA-256 of the first and the last 64 KiB of those
    /// files whose size another file of the volume has too: files with other hashes differ. With
    /// full, the SHA-256 of every file. Empty files have no hash
    #[arg(long, value_name = "KIND", value_enum, conflicts_with_all = ["summary", "damaged"])]
    pub(crate) hash: Option<ScanHash>,
    /// Add accounting rows, with shared blocks counted once
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) by: Option<ScanKey>,
    /// Write the items without rows in CSV and Parquet to this file, as NDJSON: volumes, errors,
    /// accounting rows and totals. Without it, errors and accounting rows go to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Scan damaged volumes as far as they can be read, as salvage does; all names are kept in
    /// memory, with one thread
    #[arg(long, conflicts_with_all = ["by", "summary", "threads", "memory", "passwd", "group"])]
    #[arg(conflicts_with = "passwd_from_image")]
    pub(crate) damaged: bool,
    /// With --by dir, show only directories up to this depth, each with everything below it; the
    /// root directory has depth 0
    #[arg(long, value_name = "N", requires = "by")]
    pub(crate) depth: Option<usize>,
    /// Print a report instead of rows, also with the sums of --by; as JSON with --json, or if the
    /// output file has the ending json
    #[arg(long, conflicts_with_all = ["format", "fields", "facts"])]
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

/// The contents that `--hash` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanHash {
    /// The first and the last 64 KiB of files whose size occurs more than once.
    Head,
    /// The whole contents of all files.
    Full,
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
