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
        match self.lookup(path) {
            Err(Error::Posix(PosixError::NotFound)) => {}
            found => return open_empty(&found?),
        }
        let (directory, name) = self.place(path)?;
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
            let (above, last) = split(Path::new(&target))?;
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
        let (directory, name) = self.place(path.as_ref())?;
        directory.create(name, kind, creation)
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
        let (directory, name) = self.place(path.as_ref())?;
        directory.link(&file, name)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let (directory, name) = self.place(path.as_ref())?;
        directory.remove_file(name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_dir`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let (directory, name) = self.place(path.as_ref())?;
        directory.remove_dir(name)
    }

    /// Removes a directory and all that is in it. Links are removed, not followed. It stops at the
    /// first error; what was removed before, and before a crash, stays removed.
    ///
    /// # Errors
    ///
    /// As [`Node::remove_file`] and [`Node::remove_dir`]; EACCES for who may not list one of the directories.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (above, name) = self.place(path)?;
        let top = above.lookup(name)?;
        if top.file_type() != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
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
        let (from, name) = self.place(from.as_ref())?;
        let (to, new_name) = self.place(to.as_ref())?;
        from.rename(name, &to, new_name, RenameMode::Replace)
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

    /// The directory that a path lies in, and the name there.
    fn place<'a>(&self, path: &'a Path) -> Result<(Node, &'a OsStr)> {
        let (above, name) = split(path)?;
        let directory = self.lookup(above)?;
        if directory.file_type() != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
        Ok((directory, name))
    }
}

/// The directory of a path, and the name there.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(PosixError::InvalidArgument)?;
    Ok((path.parent().unwrap_or(Path::new("/")), name))
}

/// Opens a file that is there, and cuts it to nothing.
fn open_empty(node: &Node) -> Result<File> {
    let file = node.open()?;
    file.set_len(0)?;
    Ok(file)
}
