//! Measures how fast ferroxfs, the kernel and other readers of XFS list every inode of a volume.

use std::fs;
use std::path::Path;
use std::process::Command;

use xfs_oracle::{Mount, Xfsprogs};

use crate::contender::{Contender, Count, Figure};
use crate::error::BenchError;
use crate::volume::{self, Contents, VolumeArguments, drop_caches};

/// The default fields of a scan, without the paths.
const FIELDS_WITHOUT_PATHS: &str = "ino,generation,type,mode,nlink,uid,gid,size,blocks,mtime";

/// Arguments of the scan benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    volumes: VolumeArguments,
    /// Pass this limit to ferroxfs as --memory
    #[arg(long)]
    memory: Option<String>,
}

/// Makes a volume of empty files and a volume of small files, and measures every compared program
/// on each.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    for (name, contents) in [("empty", Contents::Empty), ("small", Contents::Small)] {
        let image = arguments.volumes.folder.join(format!("xfs-bench-{name}.img"));
        let output = arguments.volumes.folder.join(format!("xfs-bench-{name}.out"));
        let outcome = volume::make(&image, contents, arguments.volumes.inodes)
            .and_then(|image| measure_all(name, &image, &output, arguments));
        for path in [&image, &output] {
            // A file that was never made need not be removed.
            let _ = fs::remove_file(path);
        }
        outcome?;
    }
    Ok(())
}

fn measure_all(
    name: &str,
    image: &Path,
    output: &Path,
    arguments: &Arguments,
) -> Result<(), BenchError> {
    let volumes = &arguments.volumes;
    volumes.print_heading(name);
    println!("| contender | rows | seconds | processor s | peak MB | rows/s |");
    println!("|---|---:|---:|---:|---:|---:|");
    let before = || volumes.prepare_run();
    for mut contender in offline(image, arguments)? {
        report(contender.name, contender.measure(output, arguments.volumes.runs, before));
    }
    if arguments.volumes.alone {
        return Ok(());
    }
    let mount = Mount::new(image, None, &["ro"])?;
    for mut contender in mounted(&mount) {
        // The first run finds the kernel's inode cache cold. Only that run measures the first
        // listing of a volume.
        let before = || drop_caches();
        report(contender.name, contender.measure(output, arguments.volumes.runs, before));
    }
    mount.unmount()?;
    Ok(())
}

fn report(name: &str, outcome: Result<Figure, BenchError>) {
    match outcome {
        Ok(figure) => {
            let seconds = figure.wall.as_secs_f64();
            println!(
                "| {name} | {} | {seconds:.3} | {:.2} | {} | {:.0} |",
                figure.rows,
                figure.processor.as_secs_f64(),
                figure.peak_bytes / 1_000_000,
                figure.rows as f64 / seconds,
            );
        }
        Err(error) => println!("| {name} | {error} | | | | |"),
    }
}

fn offline(image: &Path, arguments: &Arguments) -> Result<Vec<Contender>, BenchError> {
    let ferroxfs = |format: &str, fields: Option<&str>| {
        let mut command = Command::new(&arguments.volumes.ferroxfs);
        command.arg("scan").arg(image).args(["--format", format]);
        command.args(fields.into_iter().flat_map(|fields| ["--fields", fields]));
        command.args(arguments.memory.iter().flat_map(|bytes| ["--memory", bytes]));
        command
    };
    let mut ncheck = Xfsprogs::newer()?.command("xfs_db");
    ncheck.args(["-r", "-c", "blockget -n", "-c", "ncheck"]).arg(image);
    let mut fsxfsinfo = Command::new("fsxfsinfo");
    fsxfsinfo.arg("-H").arg(image);
    let contender = |name, command, count| Contender { name, command, count };
    let without = Some(FIELDS_WITHOUT_PATHS);
    let ours = vec![
        contender("ferroxfs, Parquet, paths", ferroxfs("parquet", None), Count::ParquetRows),
        contender("ferroxfs, NDJSON, paths", ferroxfs("ndjson", None), Count::Lines),
        contender("ferroxfs, Parquet, no paths", ferroxfs("parquet", without), Count::ParquetRows),
        contender("ferroxfs, NDJSON, no paths", ferroxfs("ndjson", without), Count::Lines),
    ];
    let peers = vec![
        contender("xfs_db ncheck", ncheck, Count::Lines),
        contender("fsxfsinfo -H", fsxfsinfo, Count::Lines),
    ];
    Ok(ours.into_iter().chain(peers.into_iter().filter(|_| !arguments.volumes.alone)).collect())
}

fn mounted(mount: &Mount) -> Vec<Contender> {
    let mut find = Command::new("find");
    find.arg(mount.path()).args(["-printf", "%i %m %n %U %G %s %b %A@ %T@ %C@ %p\\n"]);
    let mut bulkstat = Command::new("/proc/self/exe");
    bulkstat.arg("bulkstat").arg(mount.path());
    vec![
        Contender {
            name: "find -printf on the kernel's mount",
            command: find,
            count: Count::Lines,
        },
        Contender {
            name: "kernel bulkstat, 1 thread, no paths",
            command: bulkstat,
            count: Count::Number,
        },
    ]
}
