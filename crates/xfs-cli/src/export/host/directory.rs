//! Directories and names on the host. No other part of the export passes file names to the kernel.
//!
//! Every call is relative to a descriptor of a directory inside the destination, takes a single
//! component, and does not follow a symbolic link of that name. A staged file has only a temporary
//! name.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};

/// How a copy handles an existing file of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The new file replaces the existing file.
    Replace,
    /// The existing file stays, and the new one is not created.
    Keep,
}

/// An open directory inside the destination.
pub(crate) struct Directory {
    descriptor: OwnedFd,
    /// The path of this directory, for messages.
    path: Vec<u8>,
    /// The names of the directories from the destination down to this one. A hard link to a file in
    /// this directory finds the directory again by these names.
    components: Vec<Vec<u8>>,
}

/// The first name that a file with several names got on the host.
#[derive(Clone)]
pub(super) struct FirstName {
    directory: Vec<Vec<u8>>,
    name: Vec<u8>,
    device: u64,
    inode: u64,
}

impl FirstName {
    /// Returns whether `stat` describes the file that got this name: whether device and inode
    /// number are the same.
    const fn is(&self, stat: &Stat) -> bool {
        stat.st_dev == self.device && stat.st_ino == self.inode
    }
}

const ENTER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

impl Directory {
    /// Opens the destination itself. Symbolic links in the path that the user gave are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| Failure::host(path.as_os_str(), &error.into()))?;
        let path = path.as_os_str().as_bytes().to_vec();
        Ok(Self { descriptor, path, components: Vec::new() })
    }

    /// Returns the path of this directory, for messages.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the path of a file in this directory, for messages.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        match (self.path.ends_with(b"/"), name.is_empty()) {
            (_, true) => self.path.clone(),
            (true, false) => [&self.path, name].concat(),
            (false, false) => [&self.path, b"/".as_slice(), name].concat(),
        }
    }

    pub(super) fn duplicate(&self) -> Result<Self, Errno> {
        Ok(Self {
            descriptor: rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 0)?,
            path: self.path.clone(),
            components: self.components.clone(),
        })
    }

    /// Creates a directory, or enters an existing one. The boolean says whether the directory is
    /// new.
    pub(super) fn make_directory(&self, name: &[u8], mode: u32) -> Result<(Self, bool), Errno> {
        let mode = Mode::from_raw_mode(mode & 0o777) | Mode::RWXU;
        let is_new = match rustix::fs::mkdirat(self, OsStr::from_bytes(name), mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error),
        };
        let mut components = self.components.clone();
        components.push(name.to_vec());
        let descriptor = rustix::fs::openat(self, OsStr::from_bytes(name), ENTER, Mode::empty())?;
        Ok((Self { descriptor, path: self.path_of(name), components }, is_new))
    }

    /// Removes from the directory those permissions of the owner that are not in `mode`. The
    /// directory had them until now, so that it could be filled.
    pub(super) fn restrict_mode(&self, mode: u32) {
        if mode & 0o700 == 0o700 {
            return;
        }
        if let Ok(stat) = rustix::fs::fstat(&self.descriptor) {
            let restricted = stat.st_mode & 0o777 & (mode | 0o077);
            // A directory that stays too open for its owner is no reason to fail.
            _ = rustix::fs::fchmod(&self.descriptor, Mode::from_raw_mode(restricted));
        }
    }

    /// Creates a regular file under a temporary name, and opens it for writing.
    pub(super) fn make_file(&self, mode: u32) -> Result<(StagedEntry<'_>, OwnedFd), Errno> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o777);
        let (name, file) = self.try_names(|name| rustix::fs::openat(self, name, flags, mode))?;
        Ok((StagedEntry { parent: self, name: Some(name) }, file))
    }

    /// Gives a staged file the owner and mode of the regular file `name`, which it will replace, as
    /// far as the user has the right to set them.
    pub(super) fn copy_owner_and_mode(&self, name: &[u8], staged: &OwnedFd) {
        let Ok(there) = self.stat(name) else { return };
        if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
            return;
        }
        let owner = (Uid::from_raw(there.st_uid), Gid::from_raw(there.st_gid));
        let is_owned = rustix::fs::fstat(staged).is_ok_and(|own| {
            (own.st_uid, own.st_gid) == (there.st_uid, there.st_gid)
                || rustix::fs::fchown(staged, Some(owner.0), Some(owner.1)).is_ok()
        });
        if is_owned {
            // Contents of an image get no set-ID bits.
            _ = rustix::fs::fchmod(staged, Mode::from_raw_mode(there.st_mode & 0o1777));
        }
    }

    /// Creates a symbolic link under a temporary name.
    pub(super) fn make_symlink(&self, target: &[u8]) -> Result<StagedEntry<'_>, Errno> {
        let target = OsStr::from_bytes(target);
        let (name, ()) = self.try_names(|name| rustix::fs::symlinkat(target, self, name))?;
        Ok(StagedEntry { parent: self, name: Some(name) })
    }

    /// Creates a device file, a pipe or a socket under a temporary name.
    pub(super) fn make_special(&self, facts: &Facts) -> Result<StagedEntry<'_>, Errno> {
        let kind = match facts.kind() {
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::CharDevice => FileType::CharacterDevice,
            FileKind::Socket => FileType::Socket,
            _ => FileType::Fifo,
        };
        let device = match kind {
            FileType::BlockDevice | FileType::CharacterDevice => {
                rustix::fs::makedev(facts.device.0, facts.device.1)
            }
            _ => 0,
        };
        let mode = Mode::from_raw_mode(facts.mode & 0o777);
        let (name, ()) =
            self.try_names(|name| rustix::fs::mknodat(self, name, kind, mode, device))?;
        Ok(StagedEntry { parent: self, name: Some(name) })
    }

    /// Calls `make` with one temporary name after another, until a name is free.
    fn try_names<T>(
        &self,
        mut make: impl FnMut(&OsStr) -> Result<T, Errno>,
    ) -> Result<(Vec<u8>, T), Errno> {
        const TRIES: u32 = 1000;
        let process = std::process::id();
        for counter in 0..TRIES {
            let name = format!(".ferroxfs-{process}-{counter}");
            match make(OsStr::new(&name)) {
                Ok(made) => return Ok((name.into_bytes(), made)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    /// Returns the identity of the file `name` of this directory. With the identity, `link` finds
    /// the file again.
    pub(super) fn made(&self, name: &[u8]) -> Result<FirstName, Errno> {
        let stat = self.stat(name)?;
        Ok(FirstName {
            directory: self.components.clone(),
            name: name.to_vec(),
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    fn stat(&self, name: &[u8]) -> Result<Stat, Errno> {
        rustix::fs::statat(self, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the directory that holds the file `made`, which lies below this directory. `None` if
    /// the file no longer has the name that `made` states.
    fn directory_of(&self, made: &FirstName) -> Result<Option<Self>, Errno> {
        // The path is resolved again, component by component: it holds only directories, and they
        // are entered without following links.
        let mut directory = self.duplicate()?;
        for component in &made.directory {
            let name = OsStr::from_bytes(component);
            directory.descriptor = match rustix::fs::openat(&directory, name, ENTER, Mode::empty())
            {
                Ok(descriptor) => descriptor,
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        match directory.stat(&made.name) {
            Ok(stat) if made.is(&stat) => Ok(Some(directory)),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the regular file `made`, which lies below this directory, once more.
    ///
    /// # Errors
    ///
    /// ENOENT if the file no longer has the name that `made` states; otherwise the error of the
    /// host.
    pub(super) fn reopen(&self, made: &FirstName) -> Result<OwnedFd, Errno> {
        let directory = self.directory_of(made)?.ok_or(Errno::NOENT)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = OsStr::from_bytes(&made.name);
        let file = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
        // The name may have changed since it was checked.
        if made.is(&rustix::fs::fstat(&file)?) { Ok(file) } else { Err(Errno::NOENT) }
    }

    /// Adds `name` in this directory to the file `made` below `root`. Returns false if that file is
    /// gone or has as many names as the host allows.
    pub(super) fn link(
        &self,
        root: &Self,
        made: &FirstName,
        name: &[u8],
        existing: Existing,
    ) -> Result<bool, Errno> {
        let Some(directory) = root.directory_of(made)? else { return Ok(false) };
        let from = OsStr::from_bytes(&made.name);
        let staged = self.try_names(|staged| {
            rustix::fs::linkat(&directory, from, self, staged, AtFlags::empty())
        });
        match staged {
            Ok((staged, ())) => {
                let staged = StagedEntry { parent: self, name: Some(staged) };
                staged.publish(name, existing)?;
                Ok(true)
            }
            Err(Errno::MLINK) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A file under a temporary name. The file is removed if this value is dropped before
/// `publish`.
pub(super) struct StagedEntry<'a> {
    parent: &'a Directory,
    name: Option<Vec<u8>>,
}

impl StagedEntry<'_> {
    /// Returns the directory of the file, and its temporary name.
    pub(super) fn place(&self) -> (&Directory, &OsStr) {
        (self.parent, OsStr::from_bytes(self.name.as_deref().unwrap_or_default()))
    }

    /// Renames the file from its temporary name to `name`.
    pub(super) fn publish(mut self, name: &[u8], existing: Existing) -> Result<(), Errno> {
        let to = OsStr::from_bytes(name);
        let (parent, from) = self.place();
        match existing {
            Existing::Replace => rustix::fs::renameat(parent, from, parent, to)?,
            Existing::Keep => {
                rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE)?;
            }
        }
        // Renaming one name of a file over another name of it does nothing and succeeds.
        _ = rustix::fs::unlinkat(parent, from, AtFlags::empty());
        self.name = None;
        Ok(())
    }
}

impl Drop for StagedEntry<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            _ = rustix::fs::unlinkat(self.parent, OsStr::from_bytes(name), AtFlags::empty());
        }
    }
}
