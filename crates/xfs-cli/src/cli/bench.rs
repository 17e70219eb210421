//! The arguments of `bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xfs_workload::Workload;

/// Measure how fast volumes are here: with design decisions taken back, and beside the kernel's XFS
///
/// Volumes are made in memory, or in files of --folder that have no name, so nothing is left behind. Each
/// thread works on files of its own; N threads, and ours of the log, run on N processors, or on all there
/// are. What is compared takes turns, and what it leaves is compared too. Without arguments this takes about
/// a minute.
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// What to run, separated by commas; everything if not given
    #[arg(value_name = "WORKLOAD", value_delimiter = ',', value_parser = workloads())]
    pub(crate) workloads: Vec<Workload>,
    /// Numbers of threads; powers of two up to the number of processors, and 64, if not given
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,
    /// Files of each thread; more threads than processors share what there would be for those. fsync
    /// makes as many as fill what the log gathers
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) files: u64,
    /// Inodes of the volume that `stream` lists
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) inodes: u64,
    /// Subdirectories of each thread over which its files go in turn; fsmark has one for ten files
    /// if this is not given
    #[arg(short = 'D', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) directories: u64,
    /// How often everything is run; the shortest time of each counts
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Leave out the runs with single design decisions taken back
    #[arg(long)]
    pub(crate) no_before: bool,
    /// Do the same in this directory of a mounted XFS volume, through system calls; with little memory
    /// in a memory cgroup, as root
    #[arg(long, value_name = "DIR")]
    pub(crate) kernel: Option<PathBuf>,
    /// Put the volumes into files of this folder instead of memory
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Allocation groups of the volumes; as many as there are processors, at least 4, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) groups: Option<u64>,
    /// Size of their logs, from 8m to 2038m
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = log_size)]
    pub(crate) log_size: u64,
    /// Look files up for a run that bounds the memory of this process
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
    /// Also show the tables of times, transactions and digests
    #[arg(long)]
    pub(crate) details: bool,
    /// Also write the report to this file, as one JSON document; "-" for standard output, without the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write it to this file, as one HTML page with charts; "-" as for --json
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

fn log_size(text: &str) -> Result<u64, String> {
    let bytes = crate::size::parse(text)?;
    match xfs_workload::LOG_BYTES.contains(&bytes) {
        true => Ok(bytes),
        false => Err("a log has from 8m to 2038m".to_owned()),
    }
}

/// Workloads by name, with a line of help for each.
fn workloads() -> impl TypedValueParser<Value = Workload> {
    let names = Workload::ALL
        .map(|workload| PossibleValue::new(workload.name()).help(workload.description()));
    PossibleValuesParser::new(names)
        .try_map(|name| Workload::of_name(&name).ok_or("there is no such workload"))
}
