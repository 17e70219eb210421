//! How fast one large file is written and read, and small pieces of it are written at random.
//!
//! The same is done through the library to an image, through the kernel's XFS on an image of the same
//! kind with direct I/O, and to a plain file in the same folder: what the device gives. Each step ends
//! with a sync; before reading, volume and file are opened again.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferroxfs::{Creation, NewKind, Volume};
use rustix::fs::OFlags;
use xfs_oracle::{Mount, Random};
use xfs_workload::Work;

use crate::error::BenchError;
use crate::files;

/// How the benchmark of data runs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Size of the file, in MiB
    #[arg(long, default_value_t = 1024)]
    megabytes: u64,
    /// Bytes of one streaming request, in KiB
    #[arg(long, default_value_t = 1024)]
    request_kilobytes: usize,
    /// How many pieces of 4 KiB are written at random
    #[arg(long, default_value_t = 50_000)]
    pieces: u64,
    /// Where images and file go
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Runs of each; the fastest counts
    #[arg(long, default_value_t = 2)]
    runs: u32,
}

/// Bytes of a piece that is written at random.
const PIECE_BYTES: usize = 4096;
/// Memory that direct I/O may use starts at a multiple of this.
const ALIGNMENT: usize = 4096;
/// Where the random places come from: the same ones for each contender.
const SEED: u64 = 0x5eed;

/// A file of one contender.
trait Target {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BenchError>;
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError>;
    fn sync(&mut self) -> Result<(), BenchError>;
    /// Closes it and opens it again, with nothing in memory.
    fn reopen(&mut self) -> Result<(), BenchError>;
}

/// Ours.
struct Library {
    image: PathBuf,
    /// The file first: it goes before its volume.
    open: Option<(ferroxfs::File, Volume)>,
}

impl Library {
    fn file(&self) -> &ferroxfs::File {
        &self.open.as_ref().expect("the file is open").0
    }
}

impl Target for Library {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BenchError> {
        let written = self.file().write_at(offset, bytes)?;
        assert_eq!(written, bytes.len(), "the volume has room");
        Ok(())
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError> {
        let read = self.file().read_at(offset, bytes)?;
        assert_eq!(read, bytes.len(), "the file is as long as it was written");
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BenchError> {
        Ok(self.file().sync_all()?)
    }

    fn reopen(&mut self) -> Result<(), BenchError> {
        if let Some((file, volume)) = self.open.take() {
            drop(file);
            volume.close()?;
        }
        let volume = Volume::open_writable(&self.image)?;
        let root = volume.root()?;
        let file = match root.lookup("file".as_ref()) {
            Ok(node) => node.open()?,
            Err(_) => {
                let creation = Creation { mode: 0o644, uid: 0, gid: 0, umask: 0 };
                root.create("file", &NewKind::Regular, &creation)?.open()?
            }
        };
        self.open = Some((file, volume));
        Ok(())
    }
}

/// The kernel's: a file of a mounted volume, or a plain one.
struct Host {
    path: PathBuf,
    direct: bool,
    file: Option<File>,
}

impl Host {
    fn file(&self) -> &File {
        self.file.as_ref().expect("the file is open")
    }
}

impl Target for Host {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BenchError> {
        self.file().write_all_at(bytes, offset).map_err(BenchError::file(&self.path))
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError> {
        self.file().read_exact_at(bytes, offset).map_err(BenchError::file(&self.path))
    }

    fn sync(&mut self) -> Result<(), BenchError> {
        self.file().sync_all().map_err(BenchError::file(&self.path))
    }

    fn reopen(&mut self) -> Result<(), BenchError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        if self.direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        self.file = Some(options.open(&self.path).map_err(BenchError::file(&self.path))?);
        Ok(())
    }
}

/// Measures and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let mut rows: [Option<[Duration; 3]>; 3] = [None; 3];
    for _ in 0..arguments.runs {
        let folder = tempfile::tempdir_in(&arguments.folder);
        let folder = folder.map_err(BenchError::file(&arguments.folder))?;
        for (row, contender) in rows.iter_mut().zip([ours, kernel, plain]) {
            let times = contender(arguments, folder.path())?;
            *row = Some(match *row {
                None => times,
                Some([a, b, c]) => [a.min(times[0]), b.min(times[1]), c.min(times[2])],
            });
        }
    }
    println!(
        "| contender | streaming write, MB/s | streaming read, MB/s | 4 KiB random writes/s |"
    );
    println!("|---|---|---|---|");
    for (row, name) in rows.into_iter().zip(["ours", "kernel, direct", "plain file"]) {
        let Some([write, read, random]) = row else { continue };
        let stream = |time: Duration| arguments.megabytes as f64 * 1.048_576 / time.as_secs_f64();
        let random = arguments.pieces as f64 / random.as_secs_f64();
        println!("| {name} | {:.0} | {:.0} | {random:.0} |", stream(write), stream(read));
    }
    Ok(())
}

fn ours(arguments: &Arguments, folder: &Path) -> Result<[Duration; 3], BenchError> {
    let image = image(arguments, folder)?;
    let mut target = Library { image: image.clone(), open: None };
    let times = measure(arguments, &mut target)?;
    if let Some((file, volume)) = target.open.take() {
        drop(file);
        volume.close()?;
    }
    fs::remove_file(&image).map_err(BenchError::file(&image))?;
    Ok(times)
}

fn kernel(arguments: &Arguments, folder: &Path) -> Result<[Duration; 3], BenchError> {
    let image = image(arguments, folder)?;
    let mount = Mount::new(&image, None, &[])?;
    let mut target = Host { path: mount.path().join("file"), direct: true, file: None };
    let times = measure(arguments, &mut target)?;
    drop(target);
    mount.unmount()?;
    fs::remove_file(&image).map_err(BenchError::file(&image))?;
    Ok(times)
}

fn plain(arguments: &Arguments, folder: &Path) -> Result<[Duration; 3], BenchError> {
    let path = folder.join("plain");
    let mut target = Host { path: path.clone(), direct: false, file: None };
    let times = measure(arguments, &mut target)?;
    fs::remove_file(&path).map_err(BenchError::file(&path))?;
    Ok(times)
}

/// An empty volume with room for the file.
fn image(arguments: &Arguments, folder: &Path) -> Result<PathBuf, BenchError> {
    let files = arguments.megabytes * 256;
    files::make(folder, 1, &Work::new(1, files))
}

/// Streaming write, streaming read, random writes.
fn measure(arguments: &Arguments, target: &mut dyn Target) -> Result<[Duration; 3], BenchError> {
    let request_bytes = arguments.request_kilobytes << 10;
    let mut memory = vec![0x5a; request_bytes.max(PIECE_BYTES) + ALIGNMENT];
    let skipped = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = memory.get_mut(skipped..).unwrap_or_default();
    let length = arguments.megabytes << 20;
    target.reopen()?;
    let write = timed(target, |target| {
        for offset in (0..length).step_by(request_bytes) {
            let bytes = request_bytes.min((length - offset) as usize);
            target.write(offset, buffer.get(..bytes).unwrap_or_default())?;
        }
        target.sync()
    })?;
    target.reopen()?;
    let read = timed(target, |target| {
        for offset in (0..length).step_by(request_bytes) {
            let bytes = request_bytes.min((length - offset) as usize);
            target.read(offset, buffer.get_mut(..bytes).unwrap_or_default())?;
        }
        Ok(())
    })?;
    let mut random = Random::new(SEED);
    let pieces = length / PIECE_BYTES as u64;
    let write_random = timed(target, |target| {
        for _ in 0..arguments.pieces {
            let offset = random.below(pieces) * PIECE_BYTES as u64;
            target.write(offset, buffer.get(..PIECE_BYTES).unwrap_or_default())?;
        }
        target.sync()
    })?;
    Ok([write, read, write_random])
}

fn timed(
    target: &mut dyn Target,
    work: impl FnOnce(&mut dyn Target) -> Result<(), BenchError>,
) -> Result<Duration, BenchError> {
    let start = Instant::now();
    work(target)?;
    Ok(start.elapsed())
}
