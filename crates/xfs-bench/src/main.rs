//! Benchmarks against the kernel and other readers of XFS, in one run.
//!
//! Owns: making the volumes, running every contender (ferroxfs, the kernel's XFS or another
//! program) as a separate process, checking that each contender lists every inode, and the tables.
//! Does **not** own: deciding whether the figures are good. They go into docs/benchmarks.md with
//! the command that produced them.
//!
//! Needs root (the kernel's mount is a contender), `cargo xtask oracles`, and memory or disk space
//! for two volumes.

mod builders;
mod check;
mod commit;
mod contender;
mod data;
mod diff;
mod error;
mod files;
mod inodes;
mod instructions;
mod model;
mod mount;
mod opening;
mod populate;
mod price;
mod quota;
mod scan;
mod volume;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::BenchError;

/// The global allocator. It is that of the `ferroxfs` command, so that the measured code runs as it
/// is shipped.
#[global_allocator]
static ALLOCATOR: xfs_mimalloc::Mimalloc = xfs_mimalloc::Mimalloc;

/// Benchmarks of the ferroxfs project.
#[derive(Parser)]
#[command(name = "xfs-bench")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Build images from trees, archives and layers, compared with other image builders
    Builders(builders::Arguments),
    /// List all inodes of a volume of empty files and of one of small files
    Scan(scan::Arguments),
    /// Compare two volumes, beside rsync -n and diff -rq on the kernel's mounts
    Diff(diff::Arguments),
    /// Check whole volumes, compared with xfs_repair -n and the crate rust-fs-xfs
    Check(check::Arguments),
    /// Commit small transactions to a log in memory
    Commit(commit::Arguments),
    /// Create, walk, change and remove empty files, compared with the kernel's XFS
    Files(files::Arguments),
    /// List all inodes and evict them, compared with the kernel's bulkstat
    Inodes(inodes::Arguments),
    /// Work on a mount with several clients, compared with an empty server and the kernel's XFS
    Mount(mount::Arguments),
    /// Predict rates on more processors than this machine has
    Model(model::Arguments),
    /// Open and close one file from all threads, compared with the kernel's XFS
    Open(opening::Arguments),
    /// Fill volumes and extract trees, compared with mkfs.xfs -p, tar and cp on the kernel's mount
    Populate(populate::Arguments),
    /// Measure the cost of parent pointers, or count the instructions of each operation
    Price(price::Arguments),
    /// Create and remove files as `price` does, without measuring, for valgrind
    #[command(hide = true)]
    PriceRun(price::RunArguments),
    /// Perform each operation, without counting, for valgrind
    #[command(hide = true)]
    OperationsRun(price::account::OperationsArguments),
    /// Serve a mount that keeps what is written in memory, for `mount`
    #[command(hide = true)]
    KeptServer(mount::ServerArguments),
    /// Measure the cost of quota
    Quota(quota::Arguments),
    /// Create and remove files as `quota` does, without measuring, for valgrind
    #[command(hide = true)]
    QuotaRun(quota::RunArguments),
    /// Write and read files, compared with the kernel's XFS and a plain file
    Data(data::Arguments),
    /// Count the inodes of a mounted volume with the kernel's bulkstat (one of the contenders)
    Bulkstat {
        /// The mount point
        mount: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().benchmark {
        Benchmark::Builders(arguments) => builders::run(&arguments),
        Benchmark::Scan(arguments) => scan::run(&arguments),
        Benchmark::Diff(arguments) => diff::run(&arguments),
        Benchmark::Check(arguments) => check::run(&arguments),
        Benchmark::Commit(arguments) => commit::run(&arguments),
        Benchmark::Files(arguments) => files::run(&arguments),
        Benchmark::Inodes(arguments) => inodes::run(&arguments),
        Benchmark::Model(arguments) => model::run(&arguments),
        Benchmark::Open(arguments) => opening::run(&arguments),
        Benchmark::Mount(arguments) => mount::run(&arguments),
        Benchmark::Populate(arguments) => populate::run(&arguments),
        Benchmark::Price(arguments) => price::run(&arguments),
        Benchmark::PriceRun(arguments) => price::run_once(&arguments),
        Benchmark::OperationsRun(arguments) => price::account::run_once(&arguments),
        Benchmark::KeptServer(arguments) => mount::serve_kept(&arguments),
        Benchmark::Quota(arguments) => quota::run(&arguments),
        Benchmark::QuotaRun(arguments) => quota::run_once(&arguments),
        Benchmark::Data(arguments) => data::run(&arguments),
        Benchmark::Bulkstat { mount } => bulkstat(&mount),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xfs-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bulkstat(mount: &std::path::Path) -> Result<(), BenchError> {
    let count = xfs_workload::KernelDirectory::open(mount)?.bulkstat(1)?;
    // Printing a line per inode would measure printing. The count is still checked.
    println!("{count}");
    Ok(())
}
