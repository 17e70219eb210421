//! Measures the speed of opening one file for reading and closing it, from all threads at once,
//! compared with the kernel's XFS.
//!
//! The path has two components. Each open is visible to unlinks and leases. Several files are
//! measured one after the other, because the figure may depend on the address of the inode: the
//! inode may be near memory that other threads write. ferroxfs and the kernel take turns. N threads
//! are confined to N processors.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroxfs::OpenOptions;
use xfs_oracle::{Mount, Xfsprogs};
use xfs_workload::{Processors, WorkloadError, repeat};

use crate::error::BenchError;

/// Arguments of the open benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    threads: Vec<usize>,
    /// Number of opens per thread
    #[arg(long, default_value_t = 1_000_000)]
    opens: u64,
    /// Number of files to measure, each with all threads
    #[arg(long, default_value_t = 3)]
    files: usize,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Number of runs; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Measure only ferroxfs, for profiling
    #[arg(long)]
    alone: bool,
}

/// Runs all measurements and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    let folder = tempfile::tempdir_in(&arguments.folder);
    let folder = folder.map_err(BenchError::file(&arguments.folder))?;
    let (ours, theirs) = (make(folder.path(), "ours")?, make(folder.path(), "kernel")?);
    let volume = OpenOptions::new().write(true).open(&ours).map_err(BenchError::Open)?;
    volume.create_dir("/folder")?;
    let mount = Mount::new(&theirs, None, &[])?;
    let above = mount.path().join("folder");
    std::fs::create_dir(&above).map_err(BenchError::file(&above))?;
    println!("| threads | file | ours, per second | kernel, per second | ours / kernel |");
    println!("|---|---|---|---|---|");
    for threads in &arguments.threads {
        processors.confine(*threads)?;
        for file in 0..arguments.files {
            let path = format!("/folder/file-{file}");
            let there = above.join(format!("file-{file}"));
            volume.write(&path, "").map_err(BenchError::file(Path::new(&path)))?;
            File::create(&there).map_err(BenchError::file(&there))?;
            let (mut ours, mut kernel) = (Duration::MAX, Duration::MAX);
            for _ in 0..arguments.runs {
                let open = || Ok(volume.open_file_read_only(&path).map(drop)?);
                ours = ours.min(repeat(*threads, arguments.opens, open)?.0.drained);
                if !arguments.alone {
                    let open = || File::open(&there).map(drop).map_err(WorkloadError::file(&there));
                    kernel = kernel.min(repeat(*threads, arguments.opens, open)?.0.drained);
                }
            }
            let opens = (arguments.opens * *threads as u64) as f64;
            let rate = |time: Duration| opens / time.as_secs_f64();
            let (theirs, ratio) = match arguments.alone {
                true => ("-".to_owned(), "-".to_owned()),
                false => {
                    let ratio = rate(ours) / rate(kernel);
                    (format!("{:.0}", rate(kernel)), format!("{ratio:.2}"))
                }
            };
            println!("| {threads} | {file} | {:.0} | {theirs} | {ratio} |", rate(ours));
        }
    }
    volume.close().map_err(BenchError::Volume)?;
    Ok(mount.unmount()?)
}

fn make(folder: &Path, name: &str) -> Result<PathBuf, BenchError> {
    let image = folder.join(name);
    let file = File::create(&image).map_err(BenchError::file(&image))?;
    file.set_len(512 << 20).map_err(BenchError::file(&image))?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let status = mkfs.args(["-q", "-f"]).arg(&image).status().map_err(BenchError::file(&image))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status });
    }
    Ok(image)
}
