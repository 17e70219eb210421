//! Changing what a volume holds, by path, in the style of `std::fs`.
//!
//! Owns: what is made, and of which operations on a [`Node`] one by path is put together. What holds for all of
//! them stands in the documentation of [`Volume`].

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use xfs_buffer::{Error, PosixError};

use super::Volume;
use crate::errno::to_io_error;
use crate::file::File;
use crate::node::Node;
use crate::permission::Access;
use crate::resolve::{LastLink, MAX_LINKS, asks_for_directory, resolve_from};
use crate::writing::{Creation, NewKind, RenameMode};
use crate::{FileType, Result};

/// Of files that are made by path.
const FILE: Creation = Creation { mode: 0o644, uid: 0, gid: 0, umask: 0 };
/// Of directories.
const DIRECTORY: Creation = Creation { mode: 0o755, uid: 0, gid: 0, umask: 0 };
/// As often may somebody else make what is to be made, and remove it, before it is found.
const MOST_RACES: u32 = 100;
const LINK: Creation = Creation { mode: 0o777, uid: 0, gid: 0, umask: 0 };

impl Volume {
    /// Opens a regular file, which is made if there is none, and cut to nothing if there is. A link in the
    /// last place is followed, also to where there is nothing yet. One that is there is opened and then
    /// [cut](File::set_len).
    ///
    /// # Errors
    ///
    /// As [`Node::create`], EEXIST only if others make and remove it again and again; as [`Node::open`] and
    /// [`File::set_len`]; ELOOP.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        if asks_for_directory(path.as_os_str().as_bytes()) {
            self.place(path, |_| PosixError::IsDirectory)?;
            return Err(PosixError::IsDirectory.into());
        }
        match self.lookup(path) {
            Err(Error::Posix(PosixError::NotFound)) => {}
            found => return open_empty(&found?),
        }
        let Place { directory, name, .. } = self.place(path, |_| PosixError::IsDirectory)?;
        match directory.create(name, &NewKind::Regular, &FILE) {
            Err(Error::Posix(PosixError::Exists)) => self.find_or_create(directory, name),
            made => made?.open_new(),
        }
    }

    /// The same where something has a name that a lookup has not found: a link to nothing, or what somebody
    /// else makes at the same time.
    fn find_or_create(&self, mut directory: Node, name: &OsStr) -> Result<File> {
        let (mut name, mut links, mut races) = (name.to_os_string(), 0, 0);
        while races < MOST_RACES {
            let found = match directory.lookup(&name) {
                Err(Error::Posix(PosixError::NotFound)) => {
                    match directory.create(&name, &NewKind::Regular, &FILE) {
                        Err(Error::Posix(PosixError::Exists)) => races += 1,
                        made => return made?.open_new(),
                    }
                    continue;
                }
                found => found?,
            };
            if found.file_type() != FileType::Symlink {
                return open_empty(&found);
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(PosixError::SymlinkLoop.into());
            }
            let target = found.read_link()?;
            if asks_for_directory(target.as_bytes()) {
                return Err(PosixError::IsDirectory.into());
            }
            let (above, Last::Name { name: last, .. }) = split(Path::new(&target)) else {
                return Err(PosixError::IsDirectory.into());
            };
            directory = resolve_from(&self.root()?, &directory, above, LastLink::Follow)?;
            name = last.to_os_string();
        }
        Err(PosixError::Exists.into())
    }

    /// Makes a file with these contents, or replaces the contents of one. That is not one change: a crash may leave the
    /// file empty, or with a part of them, until it is durable.
    ///
    /// # Errors
    ///
    /// As [`create_file`](Self::create_file) and [`File::write_at`], as an [`std::io::Error`].
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> std::io::Result<()> {
        let mut file = self.create_file(path).map_err(to_io_error)?;
        file.write_all(contents.as_ref())?;
        file.close().map_err(to_io_error)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As [`Node::create`].
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.create_node(path, &NewKind::Directory, &DIRECTORY).map(drop)
    }

    /// Makes a directory and those above it that are missing: each by itself, the highest first, and what was made
    /// before an error or a crash stays.
    ///
    /// # Errors
    ///
    /// As [`Node::create`], but for EEXIST; ENOTDIR where one of them is something else, also a link.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut directory = self.root()?;
        for component in path.as_ref().components() {
            let Component::Normal(name) = component else {
                if component == Component::ParentDir {
                    directory = directory.parent()?;
                }
                continue;
            };
            let made = match directory.create(name, &NewKind::Directory, &DIRECTORY) {
                Err(Error::Posix(PosixError::Exists)) => directory.lookup(name),
                made => made,
            }?;
            if made.file_type() != FileType::Directory {
                return Err(PosixError::NotDirectory.into());
            }
            directory = made;
        }
        Ok(())
    }

    /// Makes anything, under a path.
    ///
    /// # Errors
    ///
    /// As [`Node::create`].
    pub fn create_node(
        &self,
        path: impl AsRef<Path>,
        kind: &NewKind<'_>,
        creation: &Creation,
    ) -> Result<Node> {
        let place = self.place(path.as_ref(), |_| PosixError::Exists)?;
        if *kind != NewKind::Directory {
            place.check_free_of_slash()?;
        }
        place.directory.create(place.name, kind, creation)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    ///
    /// As [`Node::create`]; ENAMETOOLONG for a target of more than 1023 bytes.
    pub fn symlink(&self, target: impl AsRef<OsStr>, path: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref().as_bytes();
        self.create_node(path, &NewKind::Symlink(target), &LINK).map(drop)
    }

    /// Gives the file at `original` one more name. A symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// As [`Node::link`].
    pub fn hard_link(&self, original: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let file = self.lookup_no_follow(original)?;
        let place = self.place(path.as_ref(), |_| PosixError::Exists)?;
        place.check_free_of_slash()?;
        place.directory.link(&file, place.name)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let place = self.place(path.as_ref(), |_| PosixError::IsDirectory)?;
        if place.has_slash {
            place.directory_there()?;
            return Err(PosixError::IsDirectory.into());
        }
        place.directory.remove_file(place.name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_dir`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let Place { directory, name, .. } = self.place(path.as_ref(), not_removed)?;
        directory.remove_dir(name)
    }

    /// Removes a directory and all that is in it. Links are removed, not followed. It stops at the
    /// first error; what was removed before, and before a crash, stays removed.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_file`] and [`Node::remove_dir`]; EACCES for who may not list one of the directories.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let place = self.place(path.as_ref(), not_removed)?;
        let top = place.directory_there()?;
        let Place { directory: above, name, .. } = place;
        // A stack of its own: the tree may be deeper than the thread's.
        let mut open = vec![(top, name.to_os_string())];
        while let Some((directory, _)) = open.last() {
            let mut below = None;
            for entry in directory.entries()? {
                let entry = entry?;
                let node = entry.node()?;
                if node.file_type() == FileType::Directory {
                    below = Some((node, entry.name().to_os_string()));
                    break;
                }
                directory.remove_file(entry.name())?;
            }
            match below {
                Some(below) => open.push(below),
                None => {
                    let Some((_, name)) = open.pop() else { break };
                    open.last().map_or(&above, |(parent, _)| parent).remove_dir(name)?;
                }
            }
        }
        Ok(())
    }

    /// Moves a file or directory; what has the new name loses it.
    ///
    /// # Errors
    ///
    /// As [`Node::rename`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let from = self.place(from.as_ref(), |_| PosixError::Busy)?;
        let to = self.place(to.as_ref(), |_| PosixError::Busy)?;
        if from.has_slash || to.has_slash {
            from.directory_there()?;
        }
        from.directory.rename(from.name, &to.directory, to.name, RenameMode::Replace)
    }

    /// Whether who asks may use what a path means so, links followed: see [`Node::access`].
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup) and [`Node::access`].
    #[doc(alias = "faccessat")]
    pub fn access(&self, path: impl AsRef<Path>, wanted: Access) -> Result<()> {
        self.lookup(path)?.access(wanted)
    }

    /// Returns when everything that was done before is durable.
    ///
    /// # Errors
    ///
    /// - EROFS on a volume that is open for reading.
    /// - The first error of a file that could not be written, or [was not](File#what-waits-in-memory) when a handle was
    ///   dropped: the rest is durable then.
    /// - What stopped the log; the volume is shut down then.
    pub fn sync(&self) -> Result<()> {
        let parts = self.share().parts()?;
        let written = parts.write_back_all();
        parts.journal.force_all()?;
        written
    }

    /// Where a path leads to, without following a link there. What it ends with if that is no name gives the error.
    fn place<'a>(
        &self,
        path: &'a Path,
        refusal: impl FnOnce(&Last<'a>) -> PosixError,
    ) -> Result<Place<'a>> {
        let (above, last) = split(path);
        let directory = self.lookup(above)?;
        if directory.file_type() != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
        match last {
            Last::Name { name, has_slash } => Ok(Place { directory, name, has_slash }),
            last => Err(refusal(&last).into()),
        }
    }
}

/// Where a path leads to: the directory that it lies in, and the name there.
struct Place<'a> {
    directory: Node,
    name: &'a OsStr,
    /// A slash behind the name: it is to be that of a directory.
    has_slash: bool,
}

impl Place<'_> {
    /// The directory that has the name.
    fn directory_there(&self) -> Result<Node> {
        let node = self.directory.lookup(self.name)?;
        match node.file_type() {
            FileType::Directory => Ok(node),
            _ => Err(PosixError::NotDirectory.into()),
        }
    }

    /// What is to be made there is no directory: a slash says that there is one.
    fn check_free_of_slash(&self) -> Result<()> {
        if !self.has_slash {
            return Ok(());
        }
        self.directory.lookup(self.name)?;
        Err(PosixError::Exists.into())
    }
}

/// What a path ends with.
#[derive(Debug, PartialEq, Eq)]
enum Last<'a> {
    /// A name in a directory, perhaps with a slash behind it.
    Name { name: &'a OsStr, has_slash: bool },
    /// The directory before it.
    Dot,
    /// The one above that.
    DotDot,
    /// Nothing but slashes, or nothing at all.
    Nothing,
}

/// What a path leads through, and what it ends with.
fn split(path: &Path) -> (&Path, Last<'_>) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let (trimmed, slashes) = bytes.split_at_checked(end).unwrap_or((bytes, b""));
    let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (above, name) = trimmed.split_at_checked(start).unwrap_or((b"", trimmed));
    let last = match name {
        b"" => Last::Nothing,
        b"." => Last::Dot,
        b".." => Last::DotDot,
        name => Last::Name { name: OsStr::from_bytes(name), has_slash: !slashes.is_empty() },
    };
    (Path::new(OsStr::from_bytes(above)), last)
}

/// Why a directory is not removed by what a path ends with.
fn not_removed(last: &Last<'_>) -> PosixError {
    match last {
        Last::DotDot => PosixError::NotEmpty,
        Last::Nothing => PosixError::Busy,
        Last::Name { .. } | Last::Dot => PosixError::InvalidArgument,
    }
}

/// Opens a file that is there, and cuts it to nothing.
fn open_empty(node: &Node) -> Result<File> {
    let file = node.open()?;
    file.set_len(0)?;
    Ok(file)
}
