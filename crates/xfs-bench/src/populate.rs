//! Measures filling a volume from a tree or an archive, and extracting the tree. Compares with
//! `mkfs.xfs -p`, with tar and cp on the kernel's mount, and with the decompressors alone.
//!
//! The compared programs (contenders) take turns, so that other load on the machine affects all of
//! them alike. A row of the table has the median of a program's runs.

mod contenders;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::BenchError;
use contenders::{PopulateInputs, PopulateJob, contenders};

/// Arguments of the populate benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The tree that fills the volumes
    #[arg(long, default_value = "/usr/share")]
    tree: PathBuf,
    /// Size of the volumes, as an option of mkfs.xfs
    #[arg(long, default_value = "3g")]
    size: String,
    /// Folder for images, archives and extracted trees
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Number of runs per contender
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// The ferroxfs binary to measure
    #[arg(long, default_value = "target/release/ferroxfs")]
    ferroxfs: PathBuf,
    /// An earlier ferroxfs binary, as a further contender
    #[arg(long)]
    before: Option<PathBuf>,
}

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall time from the start of the first process to the last close or unmount.
    wall: Duration,
    /// User and system time of the processes. It lacks the work of the kernel's own threads.
    processor: Duration,
    /// Peak memory of the largest process, in bytes.
    peak_bytes: u64,
}

/// Runs all jobs and prints one table per job.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let scratch = tempfile::tempdir_in(&arguments.folder);
    let scratch = scratch.map_err(BenchError::file(&arguments.folder))?;
    let inputs = PopulateInputs::prepare(arguments, scratch.path())?;
    let mut costs: Vec<(PopulateJob<'_>, Vec<Cost>)> =
        contenders(&inputs).into_iter().map(|contender| (contender, Vec::new())).collect();
    for _ in 0..arguments.runs.max(1) {
        for (contender, costs) in &mut costs {
            match (contender.run)() {
                Ok(cost) => costs.push(cost),
                // A contender that fails has no row. The others keep theirs.
                Err(error) => eprintln!("{}, {}: {error}", contender.job, contender.name),
            }
        }
    }
    print(&costs);
    Ok(())
}

/// Prints one row for each contender (compared program) of a job. The ratio of a row is the time of
/// the job's first contender divided by the time of the row.
fn print(rows: &[(PopulateJob<'_>, Vec<Cost>)]) {
    println!(
        "| job | contender | seconds (median) | fastest | processor s | peak MB | ours / this |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|");
    let mut ours = (None, 0.0);
    for (PopulateJob { job, name, .. }, costs) in rows {
        let Some(median) = median(costs) else { continue };
        let fastest = costs.iter().map(|cost| cost.wall).min().unwrap_or_default();
        let seconds = median.wall.as_secs_f64();
        if ours.0 != Some(job) {
            ours = (Some(job), seconds);
        }
        println!(
            "| {job} | {name} | {seconds:.2} | {:.2} | {:.2} | {} | {:.2} |",
            fastest.as_secs_f64(),
            median.processor.as_secs_f64(),
            median.peak_bytes / 1_000_000,
            ours.1 / seconds,
        );
    }
}

fn median(costs: &[Cost]) -> Option<Cost> {
    let mut costs = costs.to_vec();
    costs.sort_by_key(|cost| cost.wall);
    costs.get(costs.len() / 2).copied()
}

/// Removes a file or a tree, if it exists.
pub(crate) fn clear(path: &Path) -> Result<(), BenchError> {
    let removed = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    };
    removed.map_err(BenchError::file(path))
}
