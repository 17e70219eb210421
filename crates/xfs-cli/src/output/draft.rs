//! A regular file that is being written, and how it comes to its name.
//!
//! Owns: where a draft lies, and replacing an existing file. Does **not** own: what is in it.
//!
//! A draft has no name (`O_TMPFILE`), so that a run that is killed leaves nothing. Where the filesystem has no such
//! files it is called `.ferroxfs-PID-N`, beside its place.
//!
//! | at its place | the draft lies | and comes there by |
//! |---|---|---|
//! | nothing | beside it | link(2) |
//! | a file with one name, whose owner, mode and attributes it can get | beside it | rename(2) |
//! | any other file: it has several names, belongs to another user, is a mount point | beside it | a copy, when the room is set aside |
//! | a file in a directory where nothing can be made | in `$TMPDIR` | a copy, when the room is set aside |
//!
//! # Invariants
//!
//! - **I1** Until [`publish`](Draft::publish) nothing at the place changes.
//! - **I2** No signal is asked about while a draft is published, and a draft that is dropped is gone.
//! - **I3** Of the copy a kill leaves a part. A full disk does not: its room is set aside before.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::place::{self, FilePlace, Place};
use crate::sandbox::{Reach, Rights};

/// The mode of a new file, but for the umask.
const MODE: Mode = Mode::from_raw_mode(0o666);
/// Names that are tried for a draft, of which others may have some.
const MOST_NAMES: u32 = 1000;
const CHUNK_BYTES: usize = 1 << 20;
/// Attributes that say something of the contents, or give them rights: new contents do not get them.
const OF_CONTENTS: [&str; 3] = ["security.capability", "security.ima", "security.evm"];
/// Room for the names of all attributes of a file, and for the value of one: the limits of Linux.
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// A regular file that is being written.
pub(crate) struct Draft {
    file: File,
    /// The directory of its place.
    directory: OwnedFd,
    directory_path: PathBuf,
    /// The name of its place.
    name: OsString,
    /// Its name for now, if it has one.
    temporary: Option<OsString>,
    replaces: Replaces,
}

/// What has the name.
enum Replaces {
    Nothing,
    /// A file that the draft can stand for.
    File(File),
    /// A file that gets the contents of the draft.
    Contents(File),
}

impl Draft {
    /// Makes a draft.
    pub(super) fn make(place: FilePlace) -> io::Result<Self> {
        let FilePlace { directory: directory_path, name, present } = place;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &directory_path, flags, Mode::empty())?;
        let beside = make_beside(&directory);
        let is_beside = beside.is_ok();
        let (file, temporary) = match (beside, &present) {
            (Ok(made), _) => made,
            (Err(error), None) => return Err(error.into()),
            // This one gets no name.
            (Err(_), Some(_)) => (tempfile::tempfile()?, None),
        };
        let mut draft =
            Self { file, directory, directory_path, name, temporary, replaces: Replaces::Nothing };
        if let Some(present) = present {
            let stands = is_beside && can_stand_for(&draft.file, &present)?;
            draft.replaces = match stands {
                true => Replaces::File(present),
                false => {
                    draft.remove();
                    Replaces::Contents(present)
                }
            };
        }
        Ok(draft)
    }

    /// Makes a draft that takes the place of the file at `path` as a whole, or of nothing. `None` for a device, and for a
    /// file that only its contents can be replaced of.
    pub(crate) fn of_image(path: &Path) -> io::Result<Option<Self>> {
        let Place::File(place) = place::find(path)? else { return Ok(None) };
        let draft = Self::make(place)?;
        Ok(Some(draft).filter(|draft| !matches!(draft.replaces, Replaces::Contents(_))))
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A path by which this process can open it.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.temporary {
            Some(name) => self.directory_path.join(name),
            None => by_descriptor(&self.file),
        }
    }

    /// Whether one directory is enough for both to be published.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let is_copied = |draft: &Self| matches!(draft.replaces, Replaces::Contents(_));
        let identity = |draft: &Self| {
            rustix::fs::fstat(&draft.directory).map(|stat| (stat.st_dev, stat.st_ino)).ok()
        };
        is_copied(self) || is_copied(other) || identity(self) == identity(other)
    }

    /// The rights on the host that it takes to publish it.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match self.replaces {
            Replaces::Contents(_) => Reach::Nothing,
            _ => Reach::Beneath(self.directory.as_fd(), Rights::Names),
        }
    }

    /// Has the file at its place be this one, or hold the same.
    ///
    /// # Errors
    ///
    /// What the host says. The place is as it was then.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.replaces, Replaces::Nothing) {
            Replaces::Nothing => match self.link() {
                Err(Errno::EXIST) => Ok(self.rename()?),
                linked => Ok(linked?),
            },
            Replaces::Contents(present) => copy(&self.file, &present),
            Replaces::File(present) => match self.rename() {
                // It is a mount point, or a directory keeps others from renaming what they do not own.
                Err(Errno::BUSY | Errno::XDEV | Errno::PERM | Errno::ACCESS) => {
                    copy(&self.file, &present)
                }
                renamed => Ok(renamed?),
            },
        }
    }

    /// Gives it its name, which nothing has.
    fn link(&mut self) -> Result<(), Errno> {
        match &self.temporary {
            Some(draft) => {
                let (directory, empty) = (&self.directory, AtFlags::empty());
                rustix::fs::linkat(directory, draft, directory, &self.name, empty)?;
            }
            None => {
                let (from, follow) = (by_descriptor(&self.file), AtFlags::SYMLINK_FOLLOW);
                rustix::fs::linkat(CWD, &from, &self.directory, &self.name, follow)?;
            }
        }
        self.remove();
        Ok(())
    }

    /// Renames it over the file that has its name.
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

    /// Takes the name for now away.
    fn remove(&mut self) {
        if let Some(name) = self.temporary.take() {
            _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
        }
    }
}

impl Drop for Draft {
    /// No file rather than a part of one. Another error is reported.
    fn drop(&mut self) {
        self.remove();
    }
}

/// Makes a file in a directory, without a name where that can be.
fn make_beside(directory: &OwnedFd) -> Result<(File, Option<OsString>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let unnamed = rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, MODE);
    // Its name comes by that path.
    if let Ok(file) = unnamed
        && by_descriptor(&file).exists()
    {
        return Ok((file.into(), None));
    }
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let (file, name) = try_names(|name| rustix::fs::openat(directory, name, flags, MODE))?;
    Ok((file.into(), Some(name)))
}

/// Makes something under a name that nothing has.
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

/// Gives a draft owner, mode and attributes of the file that it is to stand for; false where it cannot have them, or
/// that file has further names.
fn can_stand_for(draft: &File, present: &File) -> io::Result<bool> {
    let metadata = present.metadata()?;
    Ok(metadata.nlink() == 1 && take_after(draft, present, &metadata).is_ok())
}

fn take_after(draft: &File, present: &File, metadata: &Metadata) -> Result<(), Errno> {
    let own =
        draft.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
        let (user, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        rustix::fs::fchown(draft, Some(user), Some(group))?;
    }
    // It may have got a list from its directory.
    _ = rustix::fs::fremovexattr(draft, "system.posix_acl_access");
    // The file is open for writing alone, which is enough for its attributes.
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
        rustix::fs::fsetxattr(draft, name, value, XattrFlags::empty())?;
    }
    // Other users' contents get no set-ID bits but from root, as by write(2).
    let kept = if rustix::process::geteuid().is_root() { 0o7777 } else { 0o1777 };
    rustix::fs::fchmod(draft, Mode::from_raw_mode(metadata.mode() & kept))
}

/// Gives a file the contents of another one. Its room is set aside first.
fn copy(draft: &File, present: &File) -> io::Result<()> {
    let length = draft.metadata()?.len();
    if length > 0 {
        let room = rustix::fs::fallocate(present, FallocateFlags::KEEP_SIZE, 0, length);
        // Any other error says that the filesystem cannot set room aside; most such do not run out of it.
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = room {
            return Err(error.into());
        }
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = draft.read_at(&mut buffer, offset)?;
        if read == 0 {
            break;
        }
        present.write_all_at(buffer.get(..read).unwrap_or_default(), offset)?;
        offset += read as u64;
    }
    present.set_len(length)
}
