//! A file of the host that one command writes from its beginning: what `-o` names, or a pipe or device that is
//! copied to.
//!
//! Owns: that no image is written over by what is read from it, and that what was in the file stays until
//! there is something else: a file that was made for nothing is gone.

use std::cell::Cell;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ferroxfs::format::superblock::SUPERBLOCK_MAGIC;
use rustix::fs::AtFlags;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Target;
use crate::names;
use crate::sandbox::{Reach, Rights};
use crate::tally::Tally;

/// What a volume begins with (`sb_magicnum`).
const MAGIC: [u8; 4] = SUPERBLOCK_MAGIC.to_be_bytes();
const BUFFER_BYTES: usize = 1 << 20;

/// An open file that still holds what it held.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    /// The directory that it was made in, unless it was there.
    made_in: Option<File>,
    /// Whether what it holds is what was written.
    has_begun: Cell<bool>,
}

impl Output {
    /// Opens a file, which is made if there is none, and is none of the files that are read.
    pub(crate) fn open<'a>(
        path: &Path,
        read: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Failure> {
        check_no_image(path, read)?;
        let failed = |error| Failure::host(path.as_os_str(), &error);
        let mut open = File::options();
        let made = open.write(true).create_new(true).open(path);
        let (file, is_new) = match made {
            // There is something, or a link that leads to where there is nothing.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (open.create_new(false).create(true).open(path).map_err(failed)?, false)
            }
            made => (made.map_err(failed)?, true),
        };
        // Without the directory it just stays.
        let made_in = if is_new { File::open(parent(path)).ok() } else { None };
        Ok(Self { path: path.to_owned(), file, made_in, has_begun: Cell::new(false) })
    }

    /// What the command needs of the host that writes it, and nothing else there.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match &self.made_in {
            Some(directory) => Reach::Beneath(directory.as_fd(), Rights::Names),
            None => Reach::Nothing,
        }
    }

    /// Empties it: what is written from now on is all that it holds.
    pub(crate) fn begin(&self) -> Result<impl Write, Failure> {
        if self.is_file()? {
            self.file.set_len(0).map_err(|error| self.failure(&error))?;
        }
        self.has_begun.set(true);
        Ok(BufWriter::with_capacity(BUFFER_BYTES, &self.file))
    }

    /// Writes the contents of a file of an image; holes stay holes in a regular file, and are zeros elsewhere.
    pub(crate) fn write_contents(&self, target: &Target, tally: &Tally) -> Result<(), Failure> {
        let mut source = target.open()?;
        if self.is_file()? {
            return self.write_data(&source, target, tally);
        }
        // What cannot be read leaves everything as it was.
        let mut first = vec![0; BUFFER_BYTES];
        let read = source.read(&mut first).map_err(|error| target.failure(error))?;
        let mut writer = self.begin()?;
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
        source: &ferroxfs::File,
        target: &Target,
        tally: &Tally,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let failed = |error| target.failure(error);
        // What cannot be read leaves everything as it was.
        let mut piece = read_data(source, 0, &mut buffer).map_err(failed)?;
        self.file.set_len(0).map_err(|error| self.failure(&error))?;
        self.has_begun.set(true);
        while let Some((offset, length)) = piece {
            let bytes = buffer.get(..length).unwrap_or_default();
            self.file.write_all_at(bytes, offset).map_err(|error| self.failure(&error))?;
            tally.add_bytes(length as u64);
            piece = read_data(source, offset + length as u64, &mut buffer).map_err(failed)?;
        }
        self.file.set_len(source.metadata().size).map_err(|error| self.failure(&error))
    }

    fn is_file(&self) -> Result<bool, Failure> {
        let metadata = self.file.metadata().map_err(|error| self.failure(&error))?;
        Ok(metadata.is_file())
    }

    /// An error of writing it.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::host(self.path.as_os_str(), error)
    }
}

impl Drop for Output {
    /// No file rather than an empty one. There is another error to tell.
    fn drop(&mut self) {
        let (Some(directory), Some(name)) = (&self.made_in, self.path.file_name()) else { return };
        if self.has_begun.get() {
            return;
        }
        let is_ours =
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
                let ours = self.file.metadata();
                ours.is_ok_and(|ours| (ours.dev(), ours.ino()) == (stat.st_dev, stat.st_ino))
            });
        if is_ours {
            _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
    }
}

/// The directory that a file lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
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
        if fs::metadata(file).is_ok_and(|file| identity(&file) == identity(&metadata)) {
            let shown = names::in_message(path.as_os_str().as_bytes());
            return Err(Failure::new(Exit::Failed, format!("{shown}: is what is read"))
                .hint("choose another file for what is written"));
        }
    }
    Ok(())
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
