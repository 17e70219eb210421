//! Compares programs that build a filesystem image from a directory, an archive or a container
//! image.
//!
//! Owns: the sources, the runs in turn, and the tables. Does **not** own: the command lines of the
//! compared programs ([`contenders`]).
//!
//! A program that cannot read a kind of source has a row that says so. The programs take turns, and
//! every second round has the reverse order, so other load on the machine affects all of them. The
//! image of each run is hashed, to see whether a second run makes the same bytes. xfs_repair checks
//! each XFS image, and the names in it are counted. Nothing is written outside of the two folders
//! that the options name.

mod contenders;
mod outcome;
mod sources;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BenchError;
use contenders::{Contender, Programs};
use outcome::{Report, Rows};
use sources::{Sources, Workload};

/// Arguments of the builders benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the sources that the benchmark makes; it is kept, and used again by the next run
    #[arg(long, default_value = "target/builders")]
    folder: PathBuf,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm")]
    output: PathBuf,
    /// A tar archive of a root filesystem, as mmdebstrap makes one; the first layer of the
    /// container image, too
    #[arg(long)]
    archive: Option<PathBuf>,
    /// The directory of the workload "directory"
    #[arg(long, default_value = "/usr")]
    tree: PathBuf,
    /// Number of files of the workload "tiny files"
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Number of runs per program; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Stop a program after this time; it has no further runs of the workload
    #[arg(long, default_value_t = 1800, value_name = "SECONDS")]
    limit: u32,
    /// Run only these workloads: archive, directory, image, tiny, sparse
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Run only these programs, by the first words of their names in the table
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// The ferroxfs binary to measure
    #[arg(long, default_value = "target/release/ferroxfs")]
    ferroxfs: PathBuf,
    /// The fstool binary
    #[arg(long, default_value = "fstool")]
    fstool: PathBuf,
}

/// A user (and a group) without rights, to see which programs need them.
const NOBODY: u32 = 65534;

/// Runs all programs on all sources, and prints a table for each source.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let scratch = tempfile::tempdir_in(&arguments.output);
    let scratch = scratch.map_err(BenchError::file(&arguments.output))?;
    // A probe runs as another user.
    outcome::open_to_all(scratch.path())?;
    let programs = Programs::new(arguments, scratch.path())?;
    let sources = Sources::new(arguments);
    let is_chosen = |contender: &Contender| {
        let named = |name: &String| contender.name().starts_with(name.as_str());
        arguments.programs.is_empty() || arguments.programs.iter().any(named)
    };
    let chosen: Vec<Contender> = Contender::ALL.into_iter().filter(is_chosen).collect();
    let needs_root = probe(&programs, &sources.probe(scratch.path())?, &chosen)?;
    for kind in sources::KINDS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == kind.word()) {
            continue;
        }
        let workload = match sources.make(kind)? {
            Ok(workload) => workload,
            Err(missing) => {
                println!("\nWorkload {} is left out: {missing}\n", kind.word());
                continue;
            }
        };
        let mut rows = Rows::new(&chosen, &needs_root);
        for round in 0..arguments.runs.max(1) {
            measure_round(&programs, &workload, round, &mut rows);
        }
        rows.print(&workload);
    }
    Ok(())
}

/// Runs each program once, in the order of the round.
fn measure_round(programs: &Programs, workload: &Workload, round: u32, rows: &mut Rows) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for index in order {
        let Some(row) = rows.row(index).filter(|row| !row.is_out()) else { continue };
        let contender = row.contender();
        let output = programs.scratch().join(format!("made-{index}"));
        let report = measure(programs, workload, contender, &output, row.is_first());
        row.add(report);
        if let Err(error) = crate::populate::clear(&output) {
            eprintln!("{error}");
        }
    }
}

/// Runs one program, and looks at its image.
fn measure(
    programs: &Programs,
    workload: &Workload,
    contender: Contender,
    output: &Path,
    is_checked: bool,
) -> Result<Report, String> {
    crate::populate::clear(output).map_err(|error| error.to_string())?;
    let command = programs.command(contender, workload, output)?;
    let cost = outcome::measure(command, programs.scratch())?;
    let mut report = Report::of_image(cost, output).map_err(|error| error.to_string())?;
    if is_checked && contender.makes_plain_xfs() {
        report.check(programs, output).map_err(|error| error.to_string())?;
    }
    Ok(report)
}

/// Runs each program on a small directory as a user without rights. Returns whether it fails then,
/// although it succeeds as root.
fn probe(
    programs: &Programs,
    tree: &Workload,
    chosen: &[Contender],
) -> Result<Vec<Option<bool>>, BenchError> {
    let mut all = Vec::new();
    for contender in chosen {
        let succeeds = |user: Option<u32>| -> Result<bool, BenchError> {
            let folder = tempfile::tempdir_in(programs.scratch());
            let folder = folder.map_err(BenchError::file(programs.scratch()))?;
            outcome::open_to_all(folder.path())?;
            let output = folder.path().join("probe");
            let Ok(mut command) = programs.command(*contender, tree, &output) else {
                return Ok(false);
            };
            // Programs keep files of their own in the home directory.
            command.env("HOME", folder.path()).env("TMPDIR", folder.path());
            if let Some(user) = user {
                as_user(&mut command, user);
            }
            Ok(outcome::measure(command, programs.scratch()).is_ok())
        };
        all.push(match succeeds(None)? {
            true => Some(!succeeds(Some(NOBODY))?),
            false => None,
        });
    }
    Ok(all)
}

fn as_user(command: &mut Command, user: u32) {
    command.uid(user).gid(user);
}
