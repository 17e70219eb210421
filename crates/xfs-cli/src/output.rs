//! Files of the host that a command writes from the beginning, such as the file of `-o`, the
//! destination of a single copy, and man pages.
//!
//! Owns: the check that no image is overwritten by data read from it, and the choice between two
//! ways to write. A regular file, new or existing, gets its complete contents in one step or stays
//! as it was ([`staging`]). Any other output is written in place: a device, a pipe, a descriptor of
//! this process. Does **not** own: the contents.
//!
//! # Invariants
//!
//! - **I1** Only a regular file is ever replaced. Symbolic links are followed, dangling ones too.
//! - **I2** A regular file gets its new contents in one step, after all of them are written. Until
//!   then it has the old contents.
//! - **I3** An existing file keeps its owner, mode, attributes and names.
//! - **I4** A file or block device that another program uses as an image is refused as an output.
//!   Such an image is mounted, or it is locked by a run of ferroxfs, a mount or a virtual machine.
//!   The output itself stays locked until it is complete.

mod destination;
pub(crate) mod space;
mod staging;

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferroxfs::raw::format::superblock::SUPERBLOCK_MAGIC;
use xfs_device::{DeviceError, DeviceFailure, FileDevice, share_bytes};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::ImagePath;
use crate::interrupt;
use crate::sandbox::Reach;
use crate::terminal::names;
use crate::terminal::tally::Tally;
use destination::Destination;
pub(crate) use staging::{StagedFile, each_chunk};

/// The first bytes of an XFS volume (`sb_magicnum`).
const MAGIC: [u8; 4] = SUPERBLOCK_MAGIC.to_be_bytes();
const BUFFER_BYTES: usize = 1 << 20;

/// An open output. A regular file still has its old contents.
pub(crate) struct Output {
    path: PathBuf,
    to: OutputKind,
    /// The lock that keeps other programs from using the file or device; `None` if there is no
    /// lock.
    _claim: Option<FileDevice>,
}

enum OutputKind {
    /// An output that is written in place, without contents to preserve: a device, a pipe, or a
    /// descriptor of this process.
    Through(File),
    /// A regular file, which gets its contents in one step.
    Whole(StagedFile),
}

/// Returns the file that an option names. `None` if the option is missing or names `-`, which
/// always means standard output.
pub(crate) fn unless_stdout(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| path != Path::new("-"))
}

impl Output {
    /// Opens a file for writing, and creates it if it does not exist. Fails if the file is one of
    /// those in `read`, from which the command reads.
    pub(crate) fn open<'a>(
        path: &Path,
        read: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Failure> {
        check_no_image(path, read)?;
        let failed = |error| Failure::host(path.as_os_str(), &error);
        let destination = destination::find(path).map_err(failed)?;
        let claim = match &destination {
            Destination::Special(special) if is_block_device_at(special) => claim(path)?,
            Destination::File(place) if place.present.is_some() => claim(path)?,
            Destination::Open(_) | Destination::Special(_) | Destination::File(_) => None,
        };
        let to = match destination {
            // Anything but a regular file is written through, and never replaced (I1).
            Destination::Open(file) => OutputKind::Through(file),
            Destination::Special(special) => {
                let file = destination::open_special(&special).map_err(failed)?;
                // Only a block device keeps what was written before a signal.
                if is_block_device(&file) {
                    interrupt::arm()?;
                }
                OutputKind::Through(file)
            }
            Destination::File(place) => {
                interrupt::arm()?;
                // It gets the properties of the existing file, or its contents go there (I3).
                OutputKind::Whole(StagedFile::make(place).map_err(failed)?)
            }
        };
        Ok(Self { path: path.to_owned(), to, _claim: claim })
    }

    /// Returns the rights on the host that the command needs for this output.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match &self.to {
            OutputKind::Through(_) => Reach::Nothing,
            OutputKind::Whole(staged) => staged.reach(),
        }
    }

    /// Returns whether the name of the output has this ending.
    pub(crate) fn has_ending(&self, ending: &str) -> bool {
        self.path.extension().is_some_and(|found| found == ending)
    }

    /// Returns whether a process that may change at most one directory can give both outputs their
    /// new contents.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (&self.to, &other.to) {
            (OutputKind::Whole(one), OutputKind::Whole(other)) => one.is_beside(other),
            _ => true,
        }
    }

    /// Returns a writer without a buffer that starts at the beginning of the output.
    pub(crate) fn writer(&self) -> Result<Writer, Failure> {
        self.file().try_clone().map(Writer).map_err(|error| self.failure(&error))
    }

    /// Returns a buffered writer that starts at the beginning of the output.
    pub(crate) fn buffered(&self) -> Result<impl Write, Failure> {
        Ok(BufWriter::with_capacity(BUFFER_BYTES, self.writer()?))
    }

    /// Publishes the written contents. Without this call, a regular file keeps its old contents
    /// (I2).
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let Self { path, to, _claim } = self;
        let OutputKind::Whole(staged) = to else { return Ok(()) };
        interrupt::check_io()
            .and_then(|()| staged.publish())
            .map_err(|error| failure(&path, &error))
    }

    /// Writes the contents of a file of an image to this output. Holes stay holes in a regular
    /// file, and become zeros in any other output.
    pub(crate) fn write_contents(self, target: &ImagePath, tally: &Tally) -> Result<(), Failure> {
        let mut source = target.open()?;
        if let OutputKind::Whole(staged) = &self.to {
            self.write_data(staged.file(), &source, target, tally)?;
            return self.commit();
        }
        let mut first = vec![0; BUFFER_BYTES];
        // Read before writing, so that a file that cannot be read changes nothing.
        let read = source.read(&mut first).map_err(|error| target.failure(error))?;
        let mut writer = self.buffered()?;
        writer
            .write_all(first.get(..read).unwrap_or_default())
            .and_then(|()| io::copy(&mut source, &mut writer))
            .and_then(|copied| {
                tally.add_bytes(read as u64 + copied);
                writer.flush()
            })
            .map_err(|error| self.failure(&error))
    }

    /// Copies the ranges of `source` that hold data into `to`, each at its offset.
    fn write_data(
        &self,
        to: &File,
        source: &ferroxfs::File,
        target: &ImagePath,
        tally: &Tally,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let failed = |error| target.failure(error);
        let mut piece = read_data(source, 0, &mut buffer).map_err(failed)?;
        while let Some((offset, length)) = piece {
            let bytes = buffer.get(..length).unwrap_or_default();
            interrupt::check_io()
                .and_then(|()| to.write_all_at(bytes, offset))
                .map_err(|error| self.failure(&error))?;
            tally.add_bytes(length as u64);
            piece = read_data(source, offset + length as u64, &mut buffer).map_err(failed)?;
        }
        to.set_len(source.metadata().size).map_err(|error| self.failure(&error))
    }

    /// Returns the file that is written. A regular file still has no name.
    pub(crate) fn file(&self) -> &File {
        match &self.to {
            OutputKind::Through(file) => file,
            OutputKind::Whole(staged) => staged.file(),
        }
    }

    /// Converts an error in writing this output to a failure whose message names the output.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        let failure = failure(&self.path, error);
        match &self.to {
            OutputKind::Through(file) if is_block_device(file) => {
                failure.hint("the device holds a part of the output")
            }
            _ => failure,
        }
    }
}

/// Locks a regular file or block device that is about to be overwritten (I4). Returns `None` if it
/// cannot be locked.
///
/// # Errors
///
/// Fails only if another program uses the file or device: a mount, a virtual machine, or another
/// run of ferroxfs. The message names the program.
fn claim(path: &Path) -> Result<Option<FileDevice>, Failure> {
    match FileDevice::open(path, xfs_device::FileOptions::read_write()) {
        Ok(device) => Ok(Some(device)),
        Err(error) if is_of_another_user(&error) => {
            let failure = Failure::new(Exit::Failed, error.to_string()).placed();
            Err(match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
        // A file that cannot be locked or read may still be written.
        Err(_) => Ok(None),
    }
}

fn is_of_another_user(error: &DeviceError) -> bool {
    matches!(
        error.failure(),
        DeviceFailure::InUse(..)
            | DeviceFailure::Busy
            | DeviceFailure::Locked(_)
            | DeviceFailure::LockedBelow { .. }
            | DeviceFailure::TwinBusy { .. }
    )
}

fn is_block_device_at(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn is_block_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Converts an error in writing a file to a failure. If a signal stopped the run, the failure names
/// the signal; otherwise it gives the host's error.
fn failure(path: &Path, error: &io::Error) -> Failure {
    let shown = names::in_message(path.as_os_str().as_bytes());
    match (interrupt::stopped(&shown), error.kind()) {
        (Some(stopped), io::ErrorKind::Other) => stopped,
        _ => Failure::host(path.as_os_str(), error),
    }
}

/// Writes a file of the host with these contents, in one step.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let output = Output::open(path, [])?;
    output.writer()?.write_all(bytes).map_err(|error| output.failure(&error))?;
    output.commit()
}

/// A writer to an output. Writing fails after a signal has arrived.
pub(crate) struct Writer(File);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        interrupt::check_io()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the path of the directory that a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Returns the path of the new or existing regular file to which `path` leads, with symbolic links
/// followed. `None` for any other destination.
pub(crate) fn file_at(path: &Path) -> io::Result<Option<PathBuf>> {
    match destination::find(path)? {
        Destination::File(place) => Ok(Some(place.path())),
        Destination::Open(_) | Destination::Special(_) => Ok(None),
    }
}
/// Returns whether two paths lead to the same regular file or block device. A path may lead to a
/// file that does not exist yet.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let path = file_at(path).ok().flatten()?;
        Some(parent(&path).canonicalize().ok()?.join(path.file_name()?))
    };
    match (place(one), place(other)) {
        (Some(first), Some(second)) => first == second || share_bytes(one, other),
        (None, None) => is_block_device_at(one) && share_bytes(one, other),
        _ => false,
    }
}

/// Reads the first bytes that hold data at or after `offset`. Returns their offset and their
/// number; `None` if no data follows.
fn read_data(
    source: &ferroxfs::File,
    offset: u64,
    buffer: &mut [u8],
) -> ferroxfs::Result<Option<(u64, usize)>> {
    let Some(start) = source.seek_data(offset)? else { return Ok(None) };
    let Some(end) = source.seek_hole(start)? else { return Ok(None) };
    let length = (end - start).min(buffer.len() as u64) as usize;
    let read = source.read_at(buffer.get_mut(..length).unwrap_or_default(), start)?;
    Ok((read > 0).then_some((start, read)))
}

/// Fails if `path` leads to one of the images and logs in `read`, which the output would overwrite.
pub(crate) fn check_no_image<'a>(
    path: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino(), metadata.rdev());
    for file in read {
        let is_same = fs::metadata(file).is_ok_and(|file| identity(&file) == identity(&metadata));
        if is_same || share_bytes(path, file) {
            let shown = names::in_message(path.as_os_str().as_bytes());
            return Err(Failure::new(Exit::Failed, format!("{shown}: is the image that is read"))
                .hint("choose another file for the output"));
        }
    }
    Ok(())
}

/// Fails if standard output leads to the image or its log.
pub(crate) fn check_not_stdout(image: &Path) -> Result<(), Failure> {
    let Ok(stdout) = rustix::fs::fstat(rustix::stdio::stdout()) else { return Ok(()) };
    let kind = rustix::fs::FileType::from_raw_mode(stdout.st_mode);
    if !kind.is_file() && !kind.is_block_device()
        || !share_bytes(Path::new("/proc/self/fd/1"), image)
    {
        return Ok(());
    }
    let shown = names::in_message(image.as_os_str().as_bytes());
    Err(Failure::new(Exit::Failed, format!("{shown}: standard output leads to it"))
        .hint("choose another file for what is written"))
}

/// Fails if `path` is a regular file that holds an XFS volume.
pub(crate) fn check_no_volume(path: &Path) -> Result<(), Failure> {
    let mut magic = [0; MAGIC.len()];
    let is_volume = fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == MAGIC;
    if !is_volume {
        return Ok(());
    }
    let shown = names::in_message(path.as_os_str().as_bytes());
    let failure = Failure::new(Exit::Failed, format!("{shown}: holds an XFS volume"));
    Err(failure.hint(place_in(path)))
}

/// Returns the hint that a path in an image is written `IMAGE:/path`. The hint shows this for
/// `image`.
pub(crate) fn place_in(image: &Path) -> String {
    let shown = names::in_message(image.as_os_str().as_bytes());
    format!("a path in an image is written IMAGE:/path, such as {shown}:/")
}
