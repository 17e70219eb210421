//! The arguments of `bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use xfs_workload::Workload;

/// Measure the speed of volumes on this machine, with design decisions switched off, and against
/// XFS of the kernel
///
/// The volumes are in memory, or in unnamed files of --folder, so no file remains. Each
/// thread works on its own files. N threads and the threads of the log run on N processors, or on
/// all if there are fewer. The compared variants take turns, and their results are compared too.
/// Without arguments this takes about a minute.
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// The workloads to run, separated by commas; all if not given
    #[arg(value_name = "WORKLOAD", value_delimiter = ',', value_parser = workloads())]
    pub(crate) workloads: Vec<Workload>,
    /// Numbers of threads; by default powers of two up to the number of processors, and 64
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,
    /// Files of each thread; if there are more threads than processors, they share the files of
    /// that many threads. fsync makes as many as fill one checkpoint of the log
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) files: u64,
    /// Inodes of the volume that `stream` lists
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) inodes: u64,
    /// Subdirectories of each thread, used in turn for its files; 0 means none, and for fsmark one
    /// per ten files
    #[arg(short = 'D', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) directories: u64,
    /// The number of runs of each measurement; the shortest time counts
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Leave out the runs with single design decisions switched off
    #[arg(long)]
    pub(crate) no_before: bool,
    /// Also run in this directory of a mounted XFS volume, through system calls; as root, runs with
    /// little memory use a memory cgroup
    #[arg(long, value_name = "DIR")]
    pub(crate) kernel: Option<PathBuf>,
    /// Put the volumes into files of this directory instead of memory
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Allocation groups of the volumes; by default the number of processors, at least 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) groups: Option<u64>,
    /// The log size of the volumes, from 8m to 2038m
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = log_size)]
    pub(crate) log_size: u64,
    /// Do the lookups of a run whose memory is limited, as its child process
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
    /// Also show the tables of times, transactions and digests
    #[arg(long)]
    pub(crate) details: bool,
    /// Also write the report to this file, as one JSON document; "-" for standard output, without
    /// the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write the report to this file, as one HTML page with charts; "-" as for --json
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

fn log_size(text: &str) -> Result<u64, String> {
    let bytes = crate::text::size::parse(text)?;
    match xfs_workload::LOG_BYTES.contains(&bytes) {
        true => Ok(bytes),
        false => Err("the size of a log is from 8m to 2038m".to_owned()),
    }
}

/// Returns the parser of workload names, with a line of help for each.
fn workloads() -> impl TypedValueParser<Value = Workload> {
    let names = Workload::ALL
        .map(|workload| PossibleValue::new(workload.name()).help(workload.description()));
    PossibleValuesParser::new(names)
        .try_map(|name| Workload::of_name(&name).ok_or("there is no such workload"))
}
