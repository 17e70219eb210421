//! A regular file of the host that is being written, and the ways in which it gets its name.
//!
//! Owns: the location of the staged file, and how it replaces an existing file. Does **not** own:
//! the contents of the file.
//!
//! A staged file has no name (`O_TMPFILE`), so that a killed run leaves nothing. On a filesystem
//! without unnamed files it is named `.ferroxfs-PID-N`, beside the destination.
//!
//! | at the destination | the staged file is | and is published by |
//! |---|---|---|
//! | nothing | beside it | link(2); rename(2) if another file has taken the name since |
//! | a file with one name, whose owner, mode and attributes it can get | beside it | rename(2) |
//! | another user's file, one with more names, a mount point | beside it | a copy (space first) |
//! | a file in a directory where nothing can be created | in `$TMPDIR` | a copy (space first) |
//! | a named pipe | in `$TMPDIR` | writing it from start to end |
//!
//! # Invariants
//!
//! - **I1** Until [`publish`](StagedFile::publish) nothing changes at the destination.
//! - **I2** Publishing does not check for signals, except to a named pipe, whose reader may be slow
//!   or missing. A staged file that is dropped is removed.
//! - **I3** A kill during the copy leaves a partial copy. A full disk does not, because all space
//!   is reserved before the copy.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::destination::{self, Destination, FileDestination};
use crate::interrupt;
use crate::sandbox::{Reach, Rights};

/// The mode of a new file, before the umask.
const MODE: Mode = Mode::from_raw_mode(0o666);
/// The mode of a new file that only its owner may read.
const PRIVATE_MODE: Mode = Mode::from_raw_mode(0o600);
/// The number of temporary names to try, because some names may be taken.
const MOST_NAMES: u32 = 1000;
const CHUNK_BYTES: usize = 1 << 20;
/// The time between two looks whether a program reads a named pipe.
const READER_PAUSE: Duration = Duration::from_millis(50);
/// Attributes that are computed from the contents of a file, or that give rights to the program in
/// the file. They are not copied to a file with new contents.
const OF_CONTENTS: [&str; 3] = ["security.capability", "security.ima", "security.evm"];
/// The largest size in bytes of the list of attribute names, and of one value, as in Linux.
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// A regular file that is being written.
pub(crate) struct StagedFile {
    file: File,
    /// The directory that the destination is in.
    directory: OwnedFd,
    directory_path: PathBuf,
    /// The name of the destination in its directory.
    name: OsString,
    /// The temporary name of the staged file; `None` if it has no name.
    temporary: Option<OsString>,
    replaces: Replaces,
}

/// The file at the destination, and how it is replaced.
enum Replaces {
    Nothing,
    /// A file whose name the staged file can take.
    File(File),
    /// A file that keeps its name and gets the contents of the staged file.
    Contents(File),
    /// The named pipe at this path, whose reader gets the contents of the staged file.
    Pipe(PathBuf),
}

impl StagedFile {
    /// Creates a staged file for this destination.
    pub(super) fn make(place: FileDestination) -> io::Result<Self> {
        Self::make_with(place, MODE)
    }

    fn make_with(place: FileDestination, mode: Mode) -> io::Result<Self> {
        let FileDestination { directory: directory_path, name, present } = place;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &directory_path, flags, Mode::empty())?;
        let beside = make_beside(&directory, mode);
        let is_beside = beside.is_ok();
        let (file, temporary) = match (beside, &present) {
            (Ok(made), _) => made,
            (Err(error), None) => return Err(error.into()),
            // This file is copied and never gets a name.
            (Err(_), Some(_)) => (tempfile::tempfile()?, None),
        };
        let mut staged =
            Self { file, directory, directory_path, name, temporary, replaces: Replaces::Nothing };
        if let Some(present) = present {
            let stands = is_beside && can_stand_for(&staged.file, &present)?;
            staged.replaces = match stands {
                true => Replaces::File(present),
                false => {
                    staged.remove();
                    Replaces::Contents(present)
                }
            };
        }
        Ok(staged)
    }

    /// Creates a staged file that will take the name `path`. Returns `None` for a device, and for a
    /// file of which only the contents can be replaced.
    pub(crate) fn of_image(path: &Path) -> io::Result<Option<Self>> {
        Self::of_image_with(path, MODE)
    }

    /// Creates a staged file whose contents will be written to the named pipe `path`.
    pub(crate) fn of_pipe(path: &Path) -> io::Result<Self> {
        let directory_path = std::env::temp_dir();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &directory_path, flags, Mode::empty())?;
        let (file, temporary) = (tempfile::tempfile()?, None);
        let (name, replaces) = (OsString::new(), Replaces::Pipe(path.to_owned()));
        Ok(Self { file, directory, directory_path, name, temporary, replaces })
    }

    /// Creates a staged file that will take the name `path`, and that only its owner may read.
    /// Otherwise works as [`of_image`](Self::of_image).
    pub(crate) fn private(path: &Path) -> io::Result<Option<Self>> {
        Self::of_image_with(path, PRIVATE_MODE)
    }

    fn of_image_with(path: &Path, mode: Mode) -> io::Result<Option<Self>> {
        let Destination::File(place) = destination::find(path)? else { return Ok(None) };
        let staged = Self::make_with(place, mode)?;
        Ok(Some(staged).filter(|staged| !matches!(staged.replaces, Replaces::Contents(_))))
    }

    /// Returns the staged file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns a path with which this process can open the staged file.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.temporary {
            Some(name) => self.directory_path.join(name),
            None => by_descriptor(&self.file),
        }
    }

    /// Returns whether changes in a single directory suffice to put both files at their
    /// destinations.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let is_copied = |staged: &Self| matches!(staged.replaces, Replaces::Contents(_));
        let identity = |staged: &Self| {
            rustix::fs::fstat(&staged.directory).map(|stat| (stat.st_dev, stat.st_ino)).ok()
        };
        is_copied(self) || is_copied(other) || identity(self) == identity(other)
    }

    /// Returns the directory that the destination is in.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Returns the rights on the host that the process needs to put the staged file at its
    /// destination.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match self.replaces {
            Replaces::Contents(_) => Reach::Nothing,
            Replaces::Pipe(_) => Reach::Host,
            _ => Reach::Beneath(self.directory.as_fd(), Rights::Names),
        }
    }

    /// Puts the staged file, or its contents, at the destination. Before this call, the destination
    /// does not change (I1).
    ///
    /// # Errors
    ///
    /// The errors of the host. Except after a failed copy (I3), the destination has not changed.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.replaces, Replaces::Nothing) {
            Replaces::Nothing => match self.link() {
                Err(Errno::EXIST) => Ok(self.rename()?),
                linked => Ok(linked?),
            },
            Replaces::Contents(present) => copy(&self.file, &present),
            Replaces::Pipe(path) => {
                let mut pipe = open_pipe(&path)?;
                each_chunk(&self.file, |bytes, _| write_interruptibly(&mut pipe, bytes))
            }
            Replaces::File(present) => match self.rename() {
                // The file is a mount point, or it is in a sticky directory and belongs to another
                // user.
                Err(Errno::BUSY | Errno::XDEV | Errno::PERM | Errno::ACCESS) => {
                    copy(&self.file, &present)
                }
                renamed => Ok(renamed?),
            },
        }
    }

    /// Gives the staged file the name of the destination, and never replaces a file.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the destination exists, also if another program has created it since this
    /// file was staged. The errors of the host.
    pub(crate) fn publish_new(mut self) -> io::Result<()> {
        match self.replaces {
            Replaces::Nothing => Ok(self.link()?),
            Replaces::File(_) | Replaces::Contents(_) | Replaces::Pipe(_) => {
                Err(Errno::EXIST.into())
            }
        }
    }

    /// Gives the staged file the name of the destination, which must be free.
    fn link(&mut self) -> Result<(), Errno> {
        match &self.temporary {
            Some(staged) => {
                let (directory, empty) = (&self.directory, AtFlags::empty());
                rustix::fs::linkat(directory, staged, directory, &self.name, empty)?;
            }
            None => {
                let (from, follow) = (by_descriptor(&self.file), AtFlags::SYMLINK_FOLLOW);
                rustix::fs::linkat(CWD, &from, &self.directory, &self.name, follow)?;
            }
        }
        self.remove();
        Ok(())
    }

    /// Renames the staged file over the existing file.
    fn rename(&mut self) -> Result<(), Errno> {
        let there = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match there {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                return Err(Errno::EXIST);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        if self.temporary.is_none() {
            let from = by_descriptor(&self.file);
            let follow = AtFlags::SYMLINK_FOLLOW;
            let link = |name: &OsStr| rustix::fs::linkat(CWD, &from, &self.directory, name, follow);
            let ((), name) = try_names(link)?;
            self.temporary = Some(name);
        }
        let from = self.temporary.as_deref().unwrap_or_default();
        rustix::fs::renameat(&self.directory, from, &self.directory, &self.name)?;
        self.temporary = None;
        Ok(())
    }

    /// Removes the temporary name of the staged file.
    fn remove(&mut self) {
        if let Some(name) = self.temporary.take() {
            _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
        }
    }
}

impl Drop for StagedFile {
    /// Removes a file that was not published, so that no partial file stays (I2). Errors of the
    /// removal are ignored: the caller reports the error because of which the file was not
    /// published.
    fn drop(&mut self) {
        self.remove();
    }
}

/// Creates a file in a directory, without a name if the filesystem has unnamed files. Returns the
/// file and its temporary name, if it has one.
fn make_beside(directory: &OwnedFd, mode: Mode) -> Result<(File, Option<OsString>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let unnamed = rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode);
    // Publishing links the file through this path.
    if let Ok(file) = unnamed
        && by_descriptor(&file).exists()
    {
        return Ok((file.into(), None));
    }
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let (file, name) = try_names(|name| rustix::fs::openat(directory, name, flags, mode))?;
    Ok((file.into(), Some(name)))
}

/// Calls `make` with one temporary name after another until one is free, and returns that name.
fn try_names<T>(mut make: impl FnMut(&OsStr) -> Result<T, Errno>) -> Result<(T, OsString), Errno> {
    let process = std::process::id();
    for number in 0..MOST_NAMES {
        let name = OsString::from(format!(".ferroxfs-{process}-{number}"));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, name)),
        }
    }
    Err(Errno::EXIST)
}

fn by_descriptor(file: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

/// Gives a staged file the owner, mode and attributes of the file that it replaces. Returns false
/// if the staged file cannot get them, or if the file to be replaced has several names.
fn can_stand_for(staged: &File, present: &File) -> io::Result<bool> {
    let metadata = present.metadata()?;
    Ok(metadata.nlink() == 1 && copy_owner_and_mode(staged, present, &metadata).is_ok())
}

fn copy_owner_and_mode(staged: &File, present: &File, metadata: &Metadata) -> Result<(), Errno> {
    let own =
        staged.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
        let (user, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        rustix::fs::fchown(staged, Some(user), Some(group))?;
    }
    // The file may have inherited an access control list from its directory.
    _ = rustix::fs::fremovexattr(staged, "system.posix_acl_access");
    // The file is open for writing only, which is enough to read its attributes.
    let mut names = vec![0; ATTRIBUTE_BYTES];
    let length = match rustix::fs::flistxattr(present, &mut names) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut value = vec![0; ATTRIBUTE_BYTES];
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        let name = OsStr::from_bytes(name);
        if name.is_empty() || OF_CONTENTS.iter().any(|other| name == *other) {
            continue;
        }
        let length = rustix::fs::fgetxattr(present, name, &mut value)?;
        let value = value.get(..length).unwrap_or_default();
        rustix::fs::fsetxattr(staged, name, value, XattrFlags::empty())?;
    }
    // As in write(2), only root keeps set-ID bits on contents that it did not write.
    let kept = if rustix::process::geteuid().is_root() { 0o7777 } else { 0o1777 };
    rustix::fs::fchmod(staged, Mode::from_raw_mode(metadata.mode() & kept))
}

/// Copies the contents of the staged file into the existing file, after reserving the space.
fn copy(staged: &File, present: &File) -> io::Result<()> {
    let length = staged.metadata()?.len();
    if length > 0 {
        // A full disk is noticed before the first byte is copied (I3).
        let room = rustix::fs::fallocate(present, FallocateFlags::KEEP_SIZE, 0, length);
        // Any other error means that the filesystem cannot reserve space. Most such filesystems do
        // not run out of it.
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = room {
            return Err(error.into());
        }
    }
    each_chunk(staged, |bytes, offset| present.write_all_at(bytes, offset))?;
    present.set_len(length)
}

/// Opens a named pipe for writing, when another program reads it. A signal ends the wait.
fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(pipe) => {
                rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
                return Ok(pipe.into());
            }
            Err(Errno::NXIO) => std::thread::sleep(READER_PAUSE),
            Err(error) => return Err(error.into()),
        }
        interrupt::check_io()?;
    }
}

/// Writes bytes to a pipe. A signal ends the wait for its reader.
fn write_interruptibly(pipe: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        interrupt::check_io()?;
        match pipe.write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Calls `take` with the contents of a file, piece by piece from its start, and the offset of each
/// piece in bytes.
pub(crate) fn each_chunk(
    file: &File,
    mut take: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = match file.read_at(&mut buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(());
        }
        take(buffer.get(..read).unwrap_or_default(), offset)?;
        offset += read as u64;
    }
}
