//! The arguments of `ferroxfs-query`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use jiff::civil::Date;

use crate::setup::Engine;
use crate::size;

/// Query a dataset that `ferroxfs scan --dataset` writes, with SQL or a named report
///
/// The dataset has two tables: `inodes`, with one row for each inode of each volume and date, and
/// `scans`, with one row for each scan. docs/scan-schema.md describes their columns. `inodes` also
/// has `path`, the first of the paths, and `modified` and `accessed`, the dates of mtime and atime.
#[derive(Parser, Debug)]
#[command(name = "ferroxfs-query", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The directory of the dataset
    #[arg(required_unless_present = "list")]
    pub(crate) dataset: Option<PathBuf>,
    /// A query in SQL. It can only read
    #[arg(conflicts_with_all = ["report", "setup"])]
    pub(crate) sql: Option<String>,
    /// Run a named report; without SQL and report, `volumes`
    #[arg(short, long, value_name = "NAME")]
    pub(crate) report: Option<String>,
    /// List the reports
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    /// Print the SQL of the report with its parameters, and do not run it
    #[arg(long, conflicts_with = "sql")]
    pub(crate) print_sql: bool,
    /// Print the statements that give another engine the tables of this dataset, for the SQL of
    /// --print-sql
    #[arg(long, value_enum, value_name = "ENGINE", conflicts_with_all = ["report", "print_sql"])]
    pub(crate) setup: Option<Engine>,
    #[command(flatten)]
    pub(crate) choices: Choices,
    /// The format: by default that of the ending of the output file, a table on a terminal, and
    /// ndjson otherwise
    #[arg(short, long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write to this file instead of standard output (-); it appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}

/// The parameters of a report. A report without the parameter does not accept it.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Parameters of reports")]
pub(crate) struct Choices {
    /// The date of the scans, as YYYY-MM-DD; by default the newest date
    #[arg(long, value_name = "DATE")]
    pub(crate) date: Option<Date>,
    /// The earlier date: by default the one before --date, and for `growth` the oldest
    #[arg(long, value_name = "DATE")]
    pub(crate) since: Option<Date>,
    /// Only the volume with this UUID
    #[arg(long, value_name = "UUID")]
    pub(crate) volume: Option<String>,
    /// The depth of directories, 0 to 6; by default 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=6))]
    pub(crate) depth: Option<u8>,
    /// The largest number of rows; by default 50
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Only files of at least this size; by default 1m
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) minimum: Option<u64>,
    /// Files below this size are small; by default 64k
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) small: Option<u64>,
}

/// Limits on what the engine uses.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// The memory for sorting, grouping and joining; by default half of the machine's memory.
    /// Larger states go to files in --scratch. The suffixes k, m, g, t are units of 1024
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,
    /// The number of threads; by default one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// The directory for temporary files; by default $TMPDIR
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: aligned columns, sizes with units
    Table,
    /// An array of objects
    Json,
    /// One object per line
    Ndjson,
    /// A header line, then comma-separated values
    Csv,
    /// Apache Parquet
    Parquet,
    /// A page that needs no network; with the report `overview` it has charts
    Html,
}
