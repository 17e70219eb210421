//! Files of the host that a command writes from their beginning: what `-o` names, the place of one copy, man pages.
//!
//! Owns: that no image is written over by what is read from it, and which of two ways a file is written. A regular
//! file, new or existing, is complete or as it was ([`draft`]). Everything else is written through: a device, a pipe,
//! a descriptor of this process. Does **not** own: what is written.
//!
//! # Invariants
//!
//! - **I1** Nothing but a regular file is ever replaced. Symbolic links are followed, to where nothing is as well.
//! - **I2** A regular file has new contents when all of them are written, and before that those that it had.
//! - **I3** An existing file keeps owner, mode, attributes and names.
//! - **I4** A file or block device that another program uses as an image is refused: it is mounted,
//!   or locked by a run, a mount or a virtual machine. The output stays claimed until it is complete.

mod draft;
mod place;

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferroxfs::format::superblock::SUPERBLOCK_MAGIC;
use xfs_device::{DeviceError, DeviceFailure, FileDevice, share_bytes};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Target;
use crate::interrupt;
use crate::names;
use crate::sandbox::Reach;
use crate::tally::Tally;
pub(crate) use draft::Draft;
use place::Place;

/// What a volume begins with (`sb_magicnum`).
const MAGIC: [u8; 4] = SUPERBLOCK_MAGIC.to_be_bytes();
const BUFFER_BYTES: usize = 1 << 20;

/// An open file that still holds what it held.
pub(crate) struct Output {
    path: PathBuf,
    to: To,
    /// Keeps other programs from what is written over.
    _claim: Option<FileDevice>,
}

enum To {
    /// What has no contents to keep: a device, a pipe, a descriptor of this process.
    Through(File),
    /// A regular file.
    Whole(Draft),
}

/// The file of an option, unless that is `-`, which is standard output everywhere.
pub(crate) fn unless_stdout(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| path != Path::new("-"))
}

impl Output {
    /// Opens a file, which is made if there is none, and is none of the files that are read.
    pub(crate) fn open<'a>(
        path: &Path,
        read: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Failure> {
        check_no_image(path, read)?;
        let failed = |error| Failure::host(path.as_os_str(), &error);
        let place = place::find(path).map_err(failed)?;
        let claim = match &place {
            Place::Special(special) if is_block_device_at(special) => claim(path)?,
            Place::File(place) if place.present.is_some() => claim(path)?,
            Place::Open(_) | Place::Special(_) | Place::File(_) => None,
        };
        let to = match place {
            Place::Open(file) => To::Through(file),
            Place::Special(special) => {
                let file = place::open_special(&special).map_err(failed)?;
                // The other kinds keep nothing of what was written.
                if is_block_device(&file) {
                    interrupt::arm()?;
                }
                To::Through(file)
            }
            Place::File(place) => {
                interrupt::arm()?;
                To::Whole(Draft::make(place).map_err(failed)?)
            }
        };
        Ok(Self { path: path.to_owned(), to, _claim: claim })
    }

    /// The rights on the host that the command needs for this output.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match &self.to {
            To::Through(_) => Reach::Nothing,
            To::Whole(draft) => draft.reach(),
        }
    }

    /// Whether one directory is enough for both to get their names.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (&self.to, &other.to) {
            (To::Whole(one), To::Whole(other)) => one.is_beside(other),
            _ => true,
        }
    }

    /// Writes from the beginning, piece by piece as they come.
    pub(crate) fn writer(&self) -> Result<Writer, Failure> {
        self.file().try_clone().map(Writer).map_err(|error| self.failure(&error))
    }

    /// Writes from the beginning, in large pieces.
    pub(crate) fn buffered(&self) -> Result<impl Write, Failure> {
        Ok(BufWriter::with_capacity(BUFFER_BYTES, self.writer()?))
    }

    /// Gives the file what was written. Without this it stays as it was.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let Self { path, to, _claim } = self;
        let To::Whole(draft) = to else { return Ok(()) };
        interrupt::check_io().and_then(|()| draft.publish()).map_err(|error| failure(&path, &error))
    }

    /// Writes the contents of a file of an image; holes stay holes in a regular file, and are zeros elsewhere.
    pub(crate) fn write_contents(self, target: &Target, tally: &Tally) -> Result<(), Failure> {
        let mut source = target.open()?;
        if let To::Whole(draft) = &self.to {
            self.write_data(draft.file(), (&source, target), tally)?;
            return self.commit();
        }
        let mut first = vec![0; BUFFER_BYTES];
        // A file that cannot be read changes nothing.
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

    /// Writes what holds data, each piece where it lies.
    fn write_data(
        &self,
        to: &File,
        (source, target): (&ferroxfs::File, &Target),
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

    fn file(&self) -> &File {
        match &self.to {
            To::Through(file) => file,
            To::Whole(draft) => draft.file(),
        }
    }

    /// An error of writing it.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        let failure = failure(&self.path, error);
        match &self.to {
            To::Through(file) if is_block_device(file) => {
                failure.hint("the device holds a part of the output")
            }
            _ => failure,
        }
    }
}

/// Claims a regular file or block device that is about to be written over. Nothing but another user
/// of it is an error here: a mount, a virtual machine, another run.
///
/// # Errors
///
/// Who uses it.
fn claim(path: &Path) -> Result<Option<FileDevice>, Failure> {
    match FileDevice::open(path, xfs_device::OpenOptions::read_write()) {
        Ok(device) => Ok(Some(device)),
        Err(error) if is_of_another_user(&error) => {
            let failure = Failure::new(Exit::Failed, error.to_string()).placed();
            Err(match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
        // What cannot be locked or read may still be written.
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

/// An error of writing a file: the signal that stopped it, or what the host says.
fn failure(path: &Path, error: &io::Error) -> Failure {
    let shown = names::in_message(path.as_os_str().as_bytes());
    match (interrupt::stopped(&shown), error.kind()) {
        (Some(stopped), io::ErrorKind::Other) => stopped,
        _ => Failure::host(path.as_os_str(), error),
    }
}

/// Writes a whole file.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let output = Output::open(path, [])?;
    output.writer()?.write_all(bytes).map_err(|error| output.failure(&error))?;
    output.commit()
}

/// Writes to an output until a signal comes.
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

/// The directory that a file lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Where a new or existing regular file is, links followed; `None` for anything else.
pub(crate) fn file_at(path: &Path) -> io::Result<Option<PathBuf>> {
    match place::find(path)? {
        Place::File(place) => Ok(Some(place.path())),
        Place::Open(_) | Place::Special(_) => Ok(None),
    }
}

/// Whether two paths lead to one regular file or block device, or would if the file were made.
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

/// Reads the first bytes that hold data at or after an offset: where they lie, and how many.
fn read_data(
    source: &ferroxfs::File,
    offset: u64,
    buffer: &mut [u8],
) -> ferroxfs::Result<Option<(u64, usize)>> {
    let Some(start) = source.seek_data(offset)? else { return Ok(None) };
    let Some(end) = source.seek_hole(start)? else { return Ok(None) };
    let length = (end - start).min(buffer.len() as u64) as usize;
    let read = source.read_at(start, buffer.get_mut(..length).unwrap_or_default())?;
    Ok((read > 0).then_some((start, read)))
}

/// Refuses to write over an image, or its log, what is read from it.
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
            return Err(Failure::new(Exit::Failed, format!("{shown}: is what is read"))
                .hint("choose another file for what is written"));
        }
    }
    Ok(())
}

/// Refuses to read an image, or its log, that standard output leads to.
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

/// Refuses to replace a volume by one file.
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

/// How a place in an image is named.
pub(crate) fn place_in(image: &Path) -> String {
    let shown = names::in_message(image.as_os_str().as_bytes());
    format!("a place in an image is written IMAGE:/path, such as {shown}:/")
}
