//! Changing a volume by path, in the style of `std::fs`.
//!
//! Owns: the properties of new files, and the choice of the operations on a [`Node`] that make up
//! an operation by path. The documentation of [`Volume`] states the rules that hold for all
//! operations by path.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use xfs_buffer::{Error, PosixError};
use xfs_vfs::{Access, CreateOptions, NewKind, RenameMode};

use super::Volume;
use crate::file::File;
use crate::node::Node;
use crate::resolve::{LastLink, MAX_LINKS, asks_for_directory, resolve_from};
use crate::{FileType, Result};

/// Options of regular files that are made by path.
const FILE: CreateOptions = CreateOptions::new(0o644);
/// Options of directories that are made by path.
const DIRECTORY: CreateOptions = CreateOptions::new(0o755);
/// The largest number of attempts to open or make a file while other callers remove and make the
/// same file.
const MOST_RACES: u32 = 100;
const LINK: CreateOptions = CreateOptions::new(0o777);

impl Volume {
    /// Opens a regular file for reading and writing. A missing file is made, and an existing file
    /// is opened and then [truncated](File::set_len). A link in the last component is followed,
    /// also if its target does not exist yet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::create`], [`Node::open`] and [`File::set_len`]. Returns EEXIST
    /// only if other callers repeatedly make and remove the file. Also returns ELOOP.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        if asks_for_directory(path.as_os_str().as_bytes()) {
            self.path_end(path, |_| PosixError::IsDirectory)?;
            return Err(PosixError::IsDirectory.into());
        }
        match self.lookup(path) {
            Err(Error::Posix(PosixError::NotFound)) => {}
            found => return open_empty(&found?),
        }
        let PathEnd { directory, name, .. } = self.path_end(path, |_| PosixError::IsDirectory)?;
        match directory.create(name, &NewKind::Regular, &FILE) {
            Err(Error::Posix(PosixError::Exists)) => self.find_or_create(directory, name),
            made => made?.open_new(),
        }
    }

    /// Opens or makes a file as [`create_file`](Self::create_file) does, after a lookup has not
    /// found the file. The name may exist nevertheless: it may be a symbolic link whose target does
    /// not exist, or another caller may make the file at the same time.
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

    /// Makes a file with these contents, or replaces the contents of an existing one. The call
    /// makes several changes: until the contents are durable, a crash may leave the file empty or
    /// with a part of them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`create_file`](Self::create_file) and [`File::write_at`], as an
    /// [`std::io::Error`].
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> std::io::Result<()> {
        let mut file = self.create_file(path)?;
        file.write_all(contents.as_ref())?;
        file.close().map_err(std::io::Error::from)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::create`].
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.create_node(path, &NewKind::Directory, &DIRECTORY).map(drop)
    }

    /// Makes a directory, and all missing directories above it. Each is made in a change of its
    /// own, the highest first. Directories that were made before an error or a crash stay.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::create`], except EEXIST. Also returns ENOTDIR if one of the
    /// names exists and is no directory, also if it is a symbolic link.
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

    /// Makes a file of any kind.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::create`].
    pub fn create_node(
        &self,
        path: impl AsRef<Path>,
        kind: &NewKind<'_>,
        options: &CreateOptions,
    ) -> Result<Node> {
        let path_end = self.path_end(path.as_ref(), |_| PosixError::Exists)?;
        if *kind != NewKind::Directory {
            path_end.check_free_of_slash()?;
        }
        path_end.directory.create(path_end.name, kind, options)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::create`]. Also returns ENAMETOOLONG for a target of more than
    /// 1023 bytes.
    pub fn symlink(&self, target: impl AsRef<OsStr>, path: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref().as_bytes();
        self.create_node(path, &NewKind::Symlink(target), &LINK).map(drop)
    }

    /// Gives the file at `original` another name. A symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::link`].
    pub fn hard_link(&self, original: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let file = self.lookup_no_follow(original)?;
        let path_end = self.path_end(path.as_ref(), |_| PosixError::Exists)?;
        path_end.check_free_of_slash()?;
        path_end.directory.link(&file, path_end.name)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path_end = self.path_end(path.as_ref(), |_| PosixError::IsDirectory)?;
        if path_end.has_slash {
            path_end.directory_there()?;
            return Err(PosixError::IsDirectory.into());
        }
        path_end.directory.remove_file(path_end.name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::remove_dir`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let PathEnd { directory, name, .. } = self.path_end(path.as_ref(), not_removed)?;
        directory.remove_dir(name)
    }

    /// Removes a directory and everything in it. Links are removed, not followed. The removal stops
    /// at the first error. Files that were removed before that, or before a crash, stay removed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::remove_file`] and [`Node::remove_dir`]. Also returns EACCES if
    /// the caller may not list one of the directories.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path_end = self.path_end(path.as_ref(), not_removed)?;
        let top = path_end.directory_there()?;
        let PathEnd { directory: above, name, .. } = path_end;
        // A stack on the heap: the tree may be deeper than the thread's stack.
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

    /// Moves a file or directory. An existing target is replaced.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Node::rename`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let from = self.path_end(from.as_ref(), |_| PosixError::Busy)?;
        let to = self.path_end(to.as_ref(), |_| PosixError::Busy)?;
        if from.has_slash || to.has_slash {
            from.directory_there()?;
        }
        from.directory.rename(from.name, &to.directory, to.name, RenameMode::Replace)
    }

    /// Checks the caller's access to the inode that a path means, links followed: see
    /// [`Node::access`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup) and [`Node::access`].
    #[doc(alias = "faccessat")]
    pub fn access(&self, path: impl AsRef<Path>, wanted: Access) -> Result<()> {
        self.lookup(path)?.access(wanted)
    }

    /// Makes all earlier changes durable before the call returns.
    ///
    /// # Errors
    ///
    /// - EROFS on a volume that is open for reading.
    /// - The first error of a file whose buffered bytes could not be written, or of bytes that a
    ///   dropped handle [has lost](File#buffered-bytes). In this case everything else is durable.
    /// - The error of the log. The volume is shut down then.
    pub fn sync(&self) -> Result<()> {
        let mount = self.volume_ref().mount()?;
        let written = mount.write_back_all();
        mount.journal.force_all()?;
        written
    }

    /// Looks up the directory of the last name in a path, and returns it with the name. If the path
    /// does not end in a name, returns the error that `refusal` gives.
    fn path_end<'a>(
        &self,
        path: &'a Path,
        refusal: impl FnOnce(&Last<'a>) -> PosixError,
    ) -> Result<PathEnd<'a>> {
        let (above, last) = split(path);
        let directory = self.lookup(above)?;
        if directory.file_type() != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
        match last {
            Last::Name { name, has_slash } => Ok(PathEnd { directory, name, has_slash }),
            last => Err(refusal(&last).into()),
        }
    }
}

/// The directory of the last name in a path, and that name.
struct PathEnd<'a> {
    directory: Node,
    name: &'a OsStr,
    /// Whether a slash follows the name, which must then name a directory.
    has_slash: bool,
}

impl PathEnd<'_> {
    /// Looks up this name in its directory. The result must be a directory.
    fn directory_there(&self) -> Result<Node> {
        let node = self.directory.lookup(self.name)?;
        match node.file_type() {
            FileType::Directory => Ok(node),
            _ => Err(PosixError::NotDirectory.into()),
        }
    }

    /// Checks that no slash follows the name, for an operation that makes something other than a
    /// directory. If a slash follows, returns EEXIST if the name exists, and the error of the
    /// lookup if it does not.
    fn check_free_of_slash(&self) -> Result<()> {
        if !self.has_slash {
            return Ok(());
        }
        self.directory.lookup(self.name)?;
        Err(PosixError::Exists.into())
    }
}

/// The last component of a path.
#[derive(Debug, PartialEq, Eq)]
enum Last<'a> {
    /// A name in a directory. `has_slash` says whether slashes follow it.
    Name { name: &'a OsStr, has_slash: bool },
    /// The component `.`.
    Dot,
    /// The component `..`.
    DotDot,
    /// The path has no component: it is empty or has only slashes.
    Nothing,
}

/// Splits a path before its last component. Returns the path of its directory, and that component.
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

/// Returns the error of removing a directory by a path whose last component is `last`, such as
/// `..`.
fn not_removed(last: &Last<'_>) -> PosixError {
    match last {
        Last::DotDot => PosixError::NotEmpty,
        Last::Nothing => PosixError::Busy,
        Last::Name { .. } | Last::Dot => PosixError::InvalidArgument,
    }
}

/// Opens an existing file, and truncates it to length 0.
fn open_empty(node: &Node) -> Result<File> {
    let file = node.open()?;
    file.set_len(0)?;
    Ok(file)
}
