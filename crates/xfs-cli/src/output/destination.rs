//! Resolution of the path of an output to a file of the host.
//!
//! Owns: following symbolic links, and recognising descriptors of this process. A path such as
//! `/dev/stdout` is resolved to the descriptor that the shell has opened, with its position:
//! opening the path again would overwrite the contents before that position.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::parent;
use crate::terminal::standard_output;

/// The largest number of symbolic links that one path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// The file that a path leads to.
pub(super) enum Destination {
    /// A duplicate of a descriptor that this process already has.
    Open(File),
    /// The path of a device, a pipe, or a file of /proc.
    Special(PathBuf),
    /// The path of a regular file, which may not exist yet.
    File(FileDestination),
}

/// The resolved path of a regular file.
pub(super) struct FileDestination {
    /// The path of the directory that the file is in.
    pub(super) directory: PathBuf,
    /// The name of the file in `directory`. No symbolic link has this name.
    pub(super) name: OsString,
    /// The existing file, open for writing; `None` if it does not exist yet.
    pub(super) present: Option<File>,
}

impl FileDestination {
    /// Returns the path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// Resolves the path of an output. A directory, or a file that must not be written, is an error.
pub(super) fn find(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_owned();
    for _ in 0..=MAX_LINKS {
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(Errno::ISDIR.into());
        }
        match in_proc(&path) {
            Some(InProc::Descriptor(number)) => {
                return descriptor(number, &path).map(Destination::Open);
            }
            // A link in /proc may lead to a file without a path.
            Some(InProc::Other) => return Ok(Destination::Special(path)),
            None => {}
        }
        let kind = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            metadata => Some(metadata?.file_type()),
        };
        let present = match kind {
            None => None,
            Some(kind) if kind.is_symlink() => {
                path = parent(&path).join(fs::read_link(&path)?);
                continue;
            }
            Some(kind) if kind.is_dir() => return Err(Errno::ISDIR.into()),
            Some(kind) if kind.is_file() => Some(File::options().write(true).open(&path)?),
            Some(_) => return Ok(Destination::Special(path)),
        };
        let name = path.file_name().ok_or(Errno::NOENT)?.to_owned();
        return Ok(Destination::File(FileDestination {
            directory: parent(&path).to_owned(),
            name,
            present,
        }));
    }
    Err(Errno::LOOP.into())
}

/// Opens a device or a pipe for writing. Opening a pipe waits until another process has opened the
/// pipe for reading.
pub(super) fn open_special(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOCTTY.bits().cast_signed();
    File::options().write(true).custom_flags(flags).open(path)
}

enum InProc {
    /// The number of a descriptor of this process.
    Descriptor(i32),
    Other,
}

/// Returns the descriptor that a path in /proc names, or `InProc::Other`. Returns `None` for a path
/// outside /proc.
fn in_proc(path: &Path) -> Option<InProc> {
    let directory = parent(path).canonicalize().ok().filter(|path| path.starts_with("/proc"))?;
    let own = Path::new("/proc/self").canonicalize().ok()?;
    let number = path.file_name()?.to_str().and_then(|name| name.parse().ok());
    match number {
        Some(number) if directory.starts_with(own) && directory.ends_with("fd") => {
            Some(InProc::Descriptor(number))
        }
        _ => Some(InProc::Other),
    }
}

/// Returns a duplicate of the descriptor `number` of this process, whose path is `path`.
fn descriptor(number: i32, path: &Path) -> io::Result<File> {
    let owned: OwnedFd = match number {
        1 if standard_output::was_closed() => return Err(Errno::BADF.into()),
        0 => rustix::stdio::stdin().try_clone_to_owned()?,
        1 => rustix::stdio::stdout().try_clone_to_owned()?,
        2 => rustix::stdio::stderr().try_clone_to_owned()?,
        _ => {
            let of_this_process = pidfd_open(getpid(), PidfdFlags::empty());
            let got = of_this_process
                .and_then(|process| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
            match got {
                Err(Errno::BADF) => return Err(Errno::BADF.into()),
                // Containers and old kernels lack the system call. Appending overwrites nothing.
                Err(_) => return File::options().append(true).open(path),
                Ok(owned) => owned,
            }
        }
    };
    Ok(File::from(owned))
}
