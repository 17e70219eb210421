//! Measures the cost of quota: creating and removing empty files on a volume that counts no usage,
//! counts it, or enforces limits.
//!
//! Owns: the owners, the limits and the table. Does **not** own: judging the figures
//! (docs/internals/quota.md).
//!
//! valgrind counts the instructions of all user-space code of a run, including the log's threads.
//! The cost of a step is the difference between two runs with different numbers of files, so the
//! cost of opening the volume does not count. The files belong to a user, a group and a project
//! that have limits, because root is exempt from limits.

use std::ffi::OsString;

use clap::ValueEnum;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::quota::{Limit, Limits, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{CreateOptions, NewKind, Node, OpenOptions, SetAttributes, Volume};
use xfs_workload::{Library, NewVolume, Store, WorkTarget};

use crate::error::BenchError;
use crate::instructions;

const UID: u32 = 1001;
const GID: u32 = 1002;
const PROJECT: u32 = 7;
/// The soft limit of each owner, of blocks and of inodes. No run reaches it.
const LIMIT: u64 = 1_000_000;

/// Arguments of the quota benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of files of the shorter run; the longer run has three times as many
    #[arg(long, default_value_t = 1000)]
    files: u64,
}

/// Arguments of one run, which valgrind observes.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    files: u64,
    /// Remove the files again
    #[arg(long)]
    remove: bool,
}

/// How the volume treats usage.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// No usage is counted.
    Off,
    /// The usage of users, groups and projects is counted. Limits are not enforced.
    Count,
    /// The usage of users, groups and projects is counted, and their limits are enforced.
    Enforce,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Off, Self::Count, Self::Enforce];

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Count => "count",
            Self::Enforce => "enforce",
        }
    }

    const fn options(self) -> QuotaOptions {
        QuotaOptions::all(match self {
            Self::Off => QuotaMode::Off,
            Self::Count => QuotaMode::NoEnforce,
            Self::Enforce => QuotaMode::Enforce,
        })
    }
}

/// The instructions of one create and of one remove.
#[derive(Clone, Copy)]
struct Cost {
    create: f64,
    remove: f64,
}

/// Measures all modes and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    println!("| quota | create | | unlink | |\n|---|---:|---:|---:|---:|");
    let mut off = None;
    for mode in Mode::ALL {
        let Cost { create, remove } = cost(mode, arguments.files)?;
        let base = *off.get_or_insert(Cost { create, remove });
        let share = |cost: f64, base: f64| (cost / base - 1.0) * 100.0;
        println!(
            "| {} | {create:.0} | {:+.1} % | {remove:.0} | {:+.1} % |",
            mode.name(),
            share(create, base.create),
            share(remove, base.remove),
        );
    }
    Ok(())
}

fn cost(mode: Mode, files: u64) -> Result<Cost, BenchError> {
    let counted = |files, remove| instructions(mode, files, remove).map(|count| count as f64);
    let per_file = 2.0 * files as f64;
    let (few, many) = (counted(files, false)?, counted(3 * files, false)?);
    let (few_all, many_all) = (counted(files, true)?, counted(3 * files, true)?);
    let create = (many - few) / per_file;
    Ok(Cost { create, remove: (many_all - few_all) / per_file - create })
}

/// Returns the number of instructions of a run in a process of its own.
fn instructions(mode: Mode, files: u64, remove: bool) -> Result<u64, BenchError> {
    let files = files.to_string();
    let mut arguments = vec!["quota-run", "--mode", mode.name(), "--files", &files];
    if remove {
        arguments.push("--remove");
    }
    instructions::count(&arguments.into_iter().map(OsString::from).collect::<Vec<_>>())
}

/// Creates files, and removes them if the arguments say so, without measuring, for valgrind.
pub(crate) fn run_once(arguments: &RunArguments) -> Result<(), BenchError> {
    let shape =
        NewVolume { files: 3 * arguments.files, groups: 4, log_bytes: 64 << 20, parents: false };
    let options = OpenOptions::new().quota(arguments.mode.options());
    let mut library = Library::open(Store::in_memory(&shape)?, options)?;
    let folder = prepare(library.volume(), arguments.mode)?;
    let names: Vec<_> = (0..arguments.files).map(|number| format!("file{number:09}")).collect();
    for name in &names {
        folder.create(name, &NewKind::Regular, &owned(0o600))?;
    }
    if arguments.remove {
        for name in &names {
            folder.remove_file(name)?;
        }
    }
    drop(folder);
    Ok(library.close()?)
}

fn owned(mode: u16) -> CreateOptions {
    CreateOptions::new(mode).uid(UID).gid(GID)
}

/// Makes the directory of the files, and sets limits of its owners.
fn prepare(volume: &Volume, mode: Mode) -> ferroxfs::Result<Node> {
    let folder = volume.root()?.create("folder", &NewKind::Directory, &owned(0o755))?;
    let project = SetAttributes::new().project_id(PROJECT).xflags(ExtendedFlags::PROJINHERIT);
    folder.set_attributes(&project)?;
    if mode != Mode::Off {
        let limit = Limit::new().soft(LIMIT).hard(2 * LIMIT);
        let limits = Limits::new().blocks(limit).inodes(limit);
        let owners =
            [(QuotaType::User, UID), (QuotaType::Group, GID), (QuotaType::Project, PROJECT)];
        for (kind, id) in owners {
            volume.quota().set(kind, id, &limits)?;
        }
    }
    Ok(folder)
}
