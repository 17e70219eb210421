//! Measures how long the checkers of XFS take on a whole volume, and how much memory.
//!
//! The volume has parent pointers and no damage. A row of the table fails if its checker finds
//! damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfs_oracle::Xfsprogs;

use crate::contender::{Contender, Count};
use crate::error::BenchError;
use crate::volume::{self, Contents, VolumeArguments};

/// Arguments of the check benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    volumes: VolumeArguments,
    /// Measure this binary of the crate rust-fs-xfs too, as `BINARY fsck IMAGE`
    #[arg(long)]
    peer: Option<PathBuf>,
}

/// Makes both volumes, and measures every contender on each.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    for (name, contents) in [("empty", Contents::Empty), ("small", Contents::Small)] {
        let image = arguments.volumes.folder.join(format!("xfs-bench-check-{name}.img"));
        let outcome = volume::make(&image, contents, arguments.volumes.inodes)
            .and_then(|image| measure_all(name, &image, arguments));
        // A volume that was never made need not be removed.
        let _ = fs::remove_file(&image);
        outcome?;
    }
    Ok(())
}

fn measure_all(name: &str, image: &Path, arguments: &Arguments) -> Result<(), BenchError> {
    let volumes = &arguments.volumes;
    volumes.print_heading(name);
    println!("| contender | seconds | processor s | peak MiB |");
    println!("|---|---:|---:|---:|");
    let before = || volumes.prepare_run();
    for mut contender in contenders(image, arguments)? {
        let output = tempfile::NamedTempFile::new_in(&arguments.volumes.folder);
        let output = output.map_err(BenchError::file(&arguments.volumes.folder))?;
        match contender.measure(output.path(), arguments.volumes.runs, before) {
            Ok(figure) => println!(
                "| {} | {:.3} | {:.2} | {} |",
                contender.name,
                figure.wall.as_secs_f64(),
                figure.processor.as_secs_f64(),
                figure.peak_bytes >> 20,
            ),
            Err(error) => println!("| {} | {error} | | |", contender.name),
        }
    }
    Ok(())
}

/// Returns the checkers. Each one only reads the volume, and ends with 0 if it finds no damage.
fn contenders(image: &Path, arguments: &Arguments) -> Result<Vec<Contender>, BenchError> {
    let contender = |name, command| Contender { name, command, count: Count::Lines };
    let mut ours = Command::new(&arguments.volumes.ferroxfs);
    ours.arg("check").arg(image);
    let mut all = vec![contender("ferroxfs check", ours)];
    if arguments.volumes.alone {
        return Ok(all);
    }
    let mut repair = Xfsprogs::newer()?.command("xfs_repair");
    repair.arg("-n").arg(image);
    all.push(contender("xfs_repair -n", repair));
    if let Some(peer) = &arguments.peer {
        let mut command = Command::new(peer);
        command.arg("fsck").arg(image);
        all.push(contender("rust-fs-xfs fsck", command));
    }
    Ok(all)
}
