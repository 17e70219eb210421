//! Measures the speed of a mount with several clients. The mount is compared with two FUSE servers
//! without a filesystem over the same transport, with the kernel's XFS, and with fuse2fs. One of
//! the servers (`null`) keeps nothing, and runs in the process of its clients. The other (`kept`)
//! keeps names, lengths and data in memory, as any server must, and runs in a process of its own,
//! as ours does.
//!
//! Each client is a thread with a directory of its own, and uses system calls. Images are in memory
//! that has been written before, because the first write of a page takes longer than the measured
//! work. Before walking and reading, the volume is mounted again, so that the kernel's caches are
//! cold. The time of a step ends when the last client has finished.

mod system;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
pub(crate) use system::{ServerArguments, serve_kept};
use system::{System, systems};

/// Arguments of the mount benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of clients
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Number of files per client
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Megabytes that each client writes and reads
    #[arg(long, default_value_t = 256)]
    megabytes: u64,
    /// Folder for the images
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Number of runs; the fastest counts
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// The ferroxfs binary to measure
    #[arg(long, default_value = "target/release/ferroxfs")]
    ferroxfs: PathBuf,
    /// Mount options of ferroxfs
    #[arg(long, default_value = "noatime")]
    options: String,
    /// Measure only these systems: ours, kept, null, ours-rings, kept-rings, null-rings (the three
    /// over io_uring), kernel, fuse2fs
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// The timed steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountStep {
    Create,
    /// Lists directories, with the data of stat(2) for each file.
    Walk,
    /// Lists directories, also with the birth time of each file, which statx(2) returns on request.
    /// A FUSE listing does not contain it, so each file needs a request.
    WalkBirth,
    Unlink,
    Write,
    Read,
}

const STEPS: [MountStep; 6] = [
    MountStep::Create,
    MountStep::Walk,
    MountStep::WalkBirth,
    MountStep::Unlink,
    MountStep::Write,
    MountStep::Read,
];
/// The pairs of systems for which the table shows a ratio: the rate of the first divided by that of
/// the second.
const RATIOS: [(&str, &str); 6] = [
    ("ours", "kept"),
    ("ours", "null"),
    ("ours-rings", "kept-rings"),
    ("ours-rings", "null-rings"),
    ("ours-rings", "ours"),
    ("ours", "kernel"),
];
/// Number of bytes that one call writes or reads.
const CHUNK_BYTES: usize = 1 << 20;

impl MountStep {
    /// Returns whether the volume is mounted again before the step, so that caches are cold.
    fn begins_cold(self) -> bool {
        matches!(self, Self::Walk | Self::WalkBirth | Self::Read)
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Write | Self::Read => "MB/s",
            _ => "per second",
        }
    }

    fn amount(self, arguments: &Arguments) -> f64 {
        let each = match self {
            Self::Write | Self::Read => arguments.megabytes,
            _ => arguments.files,
        };
        (each * arguments.clients as u64) as f64
    }
}

/// Runs all steps on all systems and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let mut columns = Vec::new();
    for mut system in systems(arguments) {
        match fastest(arguments, &mut *system) {
            Ok(times) => columns.push((system.name(), times)),
            // Report a missing peer and leave it out.
            Err(error) if !system.name().starts_with("ours") => {
                eprintln!("{}: {error}", system.name())
            }
            Err(error) => return Err(error),
        }
    }
    print(arguments, &columns);
    Ok(())
}

/// Prints a table of rates per system, and of ratios between systems.
fn print(arguments: &Arguments, columns: &[(&str, Vec<Duration>)]) {
    let times = |wanted: &str| columns.iter().find(|(name, _)| *name == wanted);
    let ratios = RATIOS.iter().filter_map(|(one, other)| Some((times(one)?, times(other)?)));
    let ratios: Vec<_> = ratios.collect();
    let mut heads: Vec<_> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    heads.extend(ratios.iter().map(|((one, _), (other, _))| format!("{one} / {other}")));
    println!("| {} clients | unit | {} |", arguments.clients, heads.join(" | "));
    println!("|---|---|{}", "---:|".repeat(heads.len()));
    for (index, step) in STEPS.into_iter().enumerate() {
        let seconds = |times: &[Duration]| times.get(index).map_or(0.0, Duration::as_secs_f64);
        let rate = |times| format!("{:.0}", step.amount(arguments) / seconds(times));
        let mut cells: Vec<_> = columns.iter().map(|(_, times)| rate(times)).collect();
        cells.extend(
            ratios
                .iter()
                .map(|((_, ours), (_, theirs))| format!("{:.2}", seconds(theirs) / seconds(ours))),
        );
        println!("| {step:?} | {} | {} |", step.unit(), cells.join(" | "));
    }
}

/// Returns the shortest time of each step over all runs.
fn fastest(arguments: &Arguments, system: &mut dyn System) -> Result<Vec<Duration>, BenchError> {
    let mut best = vec![Duration::MAX; STEPS.len()];
    for _ in 0..arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        let root = folder.path().join("mnt");
        fs::create_dir(&root).map_err(BenchError::file(&root))?;
        system.make(folder.path())?;
        system.mount(&root)?;
        let done = run_steps(arguments, system, &root, &mut best);
        system.unmount(&root)?;
        done?;
    }
    Ok(best)
}

fn run_steps(
    arguments: &Arguments,
    system: &mut dyn System,
    root: &Path,
    best: &mut [Duration],
) -> Result<(), BenchError> {
    let directories: Vec<_> =
        (0..arguments.clients).map(|client| root.join(client.to_string())).collect();
    for directory in &directories {
        match fs::create_dir(directory) {
            Err(error) if !directory.exists() => return Err(BenchError::file(directory)(error)),
            _ => {}
        }
    }
    for (step, best) in STEPS.into_iter().zip(best) {
        if step.begins_cold() {
            system.unmount(root)?;
            system.mount(root)?;
        }
        let start = Instant::now();
        let outcomes: Vec<_> = thread::scope(|scope| {
            let start = |directory| scope.spawn(move || perform(step, directory, arguments));
            let clients: Vec<_> = directories.iter().map(PathBuf::as_path).map(start).collect();
            clients.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        *best = start.elapsed().min(*best);
        for (outcome, directory) in outcomes.into_iter().zip(&directories) {
            let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("panicked")));
            outcome.map_err(BenchError::file(directory))?;
        }
    }
    Ok(())
}

fn perform(step: MountStep, directory: &Path, arguments: &Arguments) -> io::Result<()> {
    let files = arguments.files;
    // Comes after all other names, so that a directory has the numbers from 0 in the order of
    // creation.
    let stream = directory.join(files.to_string());
    match step {
        MountStep::Create => (0..files)
            .try_for_each(|number| File::create_new(directory.join(number.to_string())).map(drop)),
        MountStep::Walk => {
            // `std::fs::metadata` asks for the birth time, and this step must not.
            let folder = File::open(directory)?;
            walk(directory, files, |entry| {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(&folder, entry.file_name(), flags)?;
                Ok(())
            })
        }
        // `std::fs::metadata` asks for the birth time, which not every system has.
        MountStep::WalkBirth => walk(directory, files, |entry| entry.metadata().map(drop)),
        MountStep::Unlink => {
            (0..files).try_for_each(|number| fs::remove_file(directory.join(number.to_string())))
        }
        MountStep::Write => {
            let mut file = File::create(stream)?;
            let chunk = vec![7; CHUNK_BYTES];
            (0..arguments.megabytes).try_for_each(|_| file.write_all(&chunk))
        }
        MountStep::Read => {
            let mut file = File::open(stream)?;
            let mut chunk = vec![0; CHUNK_BYTES];
            (0..arguments.megabytes).try_for_each(|_| file.read_exact(&mut chunk))
        }
    }
}

/// Lists a directory and calls `look` for each file. Returns an error unless the directory has
/// `files` files.
fn walk(
    directory: &Path,
    files: u64,
    look: impl Fn(&fs::DirEntry) -> io::Result<()>,
) -> io::Result<()> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        look(&entry?)?;
        count += 1;
    }
    if count == files { Ok(()) } else { Err(io::Error::other(format!("{count} files"))) }
}
