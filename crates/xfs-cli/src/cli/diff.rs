//! The arguments of `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Show what changed between two states of a volume
///
/// A state is an image or device, or the Parquet file that `ferroxfs scan` wrote. Inodes are
/// compared by number and generation, which distinguishes a renamed file from a new one, and a new
/// name of a file from a rename. Contents count as changed if the size or the modification time
/// differs; --contents compares the bytes. Exit codes are those of diff(1): 0 same, 1 different, 2
/// trouble.
#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// The first state: an image, a device, or a Parquet file of `scan`
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The second state
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format: by default parquet, json or ndjson if the output file has this ending, and text
    /// otherwise
    #[arg(long, value_enum)]
    pub(crate) format: Option<DiffFormatName>,
    /// Compare the bytes and the attributes of files of which a time, the size or the change count
    /// differs; needs two images
    #[arg(long)]
    pub(crate) contents: bool,
    /// Also show each file below a directory that moved
    #[arg(long)]
    pub(crate) paths: bool,
    /// Compare volumes with different UUIDs, such as a copy that got a new UUID
    #[arg(long)]
    pub(crate) any_volume: bool,
    /// The number of threads that scan an image; by default one per processor
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// The limit on memory of scanned images, by default 1 GiB; the suffixes k, m, g, t are units
    /// of 1024. Two Parquet files need little memory, whatever their size
    #[arg(long, value_name = "BYTES", value_parser = crate::text::size::parse)]
    pub(crate) memory: Option<u64>,
}

/// The format of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormatName {
    /// One line for each change, for people.
    Text,
    /// One JSON object per line.
    Ndjson,
    /// One JSON document.
    Json,
    /// Apache Parquet, one row for each change.
    Parquet,
}
