//! How fast a mount serves several clients, beside a FUSE server that answers at once over the same
//! transport, the kernel's XFS and fuse2fs.
//!
//! Each client is a thread with a directory of its own, through system calls; images lie in memory that has been
//! touched before, as the first touch takes longer than what is measured. Before
//! walking and before reading everything is mounted anew, so that the clients' kernel has nothing
//! cached. A step counts when the last client is through.

mod system;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use system::{System, systems};

/// How the benchmark of mounts runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Clients
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Files of each client
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Megabytes that each client writes and reads
    #[arg(long, default_value_t = 256)]
    megabytes: u64,
    /// Where the images go
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Runs of each; the fastest counts
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// The ferroxfs binary to measure
    #[arg(long, default_value = "target/release/ferroxfs")]
    ferroxfs: PathBuf,
    /// Mount options of ours
    #[arg(long, default_value = "noatime")]
    options: String,
    /// Measure these only: ours, null, ours-rings, null-rings (both over io_uring), kernel, fuse2fs
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountStep {
    Create,
    /// With what stat(2) shows.
    Walk,
    /// With the time of birth too, as statx(2) shows it where it is asked for: no listing of FUSE carries
    /// that, so each file is a request.
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
/// Which of the systems are compared with which others.
const RATIOS: [(&str, &str); 3] =
    [("ours", "null"), ("ours-rings", "null-rings"), ("ours", "kernel")];
/// Bytes of one call.
const CHUNK_BYTES: usize = 1 << 20;

impl MountStep {
    /// Steps before which everything is mounted anew.
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

/// Runs everything and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let mut columns = Vec::new();
    for mut system in systems(arguments) {
        match fastest(arguments, &mut *system) {
            Ok(times) => columns.push((system.name(), times)),
            // A peer that the machine lacks is left out, and said so.
            Err(error) if !system.name().starts_with("ours") => {
                eprintln!("{}: {error}", system.name())
            }
            Err(error) => return Err(error),
        }
    }
    print(arguments, &columns);
    Ok(())
}

/// A table of rates, and of ratios between them.
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

/// The shortest time of each step.
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
    // Behind all others, so that a directory holds the numbers from 0 on in the order of their making.
    let stream = directory.join(files.to_string());
    match step {
        MountStep::Create => (0..files)
            .try_for_each(|number| File::create_new(directory.join(number.to_string())).map(drop)),
        MountStep::Walk => {
            // The library's own metadata asks for the time of birth.
            let folder = File::open(directory)?;
            walk(directory, files, |entry| {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(&folder, entry.file_name(), flags)?;
                Ok(())
            })
        }
        // The library asks for the time of birth; not every system has one.
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

/// Looks at each file of a directory, of which there are so many.
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
