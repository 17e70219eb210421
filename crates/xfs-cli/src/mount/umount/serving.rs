//! The server of a mount, and how its work ends.
//!
//! Owns: finding the process that serves the mount, or else its image, and finding out how the
//! server ended. Does **not** own: the unmount itself.
//!
//! The exit status of the process is the best source: it says whether the server has closed the
//! volume. If the process is not visible, or its status is unknown, the lock on the image says when
//! the image is closed. The log of the image then says whether the volume was closed cleanly.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use xfs_fuse::{
    ACCESS_ATTRIBUTE, IMAGE_ATTRIBUTE, NAMESPACE_ATTRIBUTE, PROCESS_ATTRIBUTE, source_of,
};

use super::exit_status::exit_status;
use crate::cli::options::SandboxWhen;
use crate::failure::Failure;
use crate::mount::process::{self, wait_for};
use crate::mount::serve::inside;
use crate::mount::stats::read_attribute;
use crate::sandbox::Namespaces;

/// How long the server may take to close the volume.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the parent of the server may take to reap the server. Some parents never do.
const REAPING: Duration = Duration::from_secs(1);
/// The interval between two attempts to lock the image.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The access that the server of a mount has to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountAccess {
    Reads,
    Writes,
    /// The volume was shut down on request, so there is nothing to make durable.
    Down,
    /// The access is unknown, because this process has no right to read it from the mount.
    Unknown,
}

/// The server of a mount. Its process is held open, so that its PID cannot mean another process.
pub(super) struct Serving {
    pub(super) access: MountAccess,
    process: Option<OwnedFd>,
    /// The path of the image; `None` if the image is not visible to this process.
    image: Option<PathBuf>,
}

/// How the server of a mount ended.
#[derive(Debug)]
pub(in crate::mount) enum Ending {
    Well,
    /// The server process ended with an exit status that means a failure.
    Badly(ExitStatus),
    /// The image is closed, but its log is dirty.
    LogDirty,
    /// The server has not ended.
    NotYet,
    /// The server has ended, but it is unknown how.
    Unknown,
    /// It is unknown whether the server has ended, because neither its process nor the image is
    /// visible.
    Unseen,
}

impl Serving {
    /// Finds the server of the mount on a folder; `None` if the server is gone.
    ///
    /// # Errors
    ///
    /// The folder is not a mount of ferroxfs.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, Failure> {
        match Self::ask(folder) {
            // The server may have died between two questions.
            Err(_) if is_dead(folder) => Ok(None),
            asked => asked,
        }
    }

    fn ask(folder: &Path) -> Result<Option<Self>, Failure> {
        if is_dead(folder) {
            return Ok(None);
        }
        match rustix::fs::getxattr(folder, PROCESS_ATTRIBUTE, &mut [0_u8; 0]) {
            Err(errno) if hides_server(errno) => {
                let image = source_of(folder);
                return Ok(Some(Self { access: MountAccess::Unknown, process: None, image }));
            }
            _ => {}
        }
        let number: Option<i32> = attribute_number(folder, PROCESS_ATTRIBUTE)?;
        let namespace = attribute_number(folder, NAMESPACE_ATTRIBUTE).ok().flatten();
        let process = number.and_then(|number| find_process(number, namespace));
        let access = match read_attribute(folder, ACCESS_ATTRIBUTE)?.as_slice() {
            b"ro" => MountAccess::Reads,
            b"down" => MountAccess::Down,
            _ => MountAccess::Writes,
        };
        // In another mount namespace the same path can be another file.
        let identity = read_attribute(folder, IMAGE_ATTRIBUTE).unwrap_or_default();
        let is_it = |image: &PathBuf| {
            image.metadata().is_ok_and(|found| image_identity(&found).into_bytes() == identity)
        };
        Ok(Some(Self { access, process, image: source_of(folder).filter(is_it) }))
    }

    /// Waits until the server has closed the image, and returns how the server ended.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn wait(&self) -> Result<Ending, Errno> {
        if let Some(process) = &self.process {
            if !wait_for(process, PollFlags::IN, PATIENCE)? {
                return Ok(Ending::NotYet);
            }
            let mut status = exit_status(process);
            if status.is_none() && wait_for(process, PollFlags::empty(), REAPING)? {
                status = exit_status(process);
            }
            match status {
                Some(status) if status.success() => return Ok(Ending::Well),
                Some(status) => return Ok(Ending::Badly(status)),
                None => {}
            }
        }
        let unseen = if self.process.is_some() { Ending::Unknown } else { Ending::Unseen };
        let Some(image) = &self.image else { return Ok(unseen) };
        match wait_for_lock(image)? {
            Lock::Free => Ok(self.ending_by_log(image)),
            Lock::Taken => Ok(Ending::NotYet),
            Lock::None => Ok(unseen),
        }
    }

    /// Returns how the server ended, as far as the log of the image shows it.
    fn ending_by_log(&self, image: &Path) -> Ending {
        if matches!(self.access, MountAccess::Reads | MountAccess::Down) {
            return Ending::Well;
        }
        let opened = ferroxfs::OpenOptions::new().no_recovery(true).open_devices(image);
        let Ok(devices) = opened else { return Ending::Unknown };
        // The image may come from an attacker.
        let sandbox = SandboxWhen::Auto;
        let namespaces = Namespaces::make(sandbox, &[]);
        let clean =
            inside(sandbox, &namespaces, || Some(devices.describe().ok()?.log?.ok()?.clean));
        match clean {
            Ok(Some(true)) => Ending::Well,
            Ok(Some(false)) => Ending::LogDirty,
            // The position of the volume in the image, or of its log, is not known here.
            Ok(None) | Err(_) => Ending::Unknown,
        }
    }
}

/// Returns the identity of an image (device and inode number) in the form in which a mount reports
/// it, in an extended attribute.
fn image_identity(image: &Metadata) -> String {
    format!("{}:{}", image.dev(), image.ino())
}

/// Reads the extended attribute `name` of the mount at `folder` as a number. `None` if its value is
/// no number.
fn attribute_number<T: std::str::FromStr>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let value = read_attribute(folder, name)?;
    Ok(std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()))
}

/// Returns whether the server of a mount is gone. The check reads an extended attribute, because
/// stat(2) may still return cached values.
fn is_dead(folder: &Path) -> bool {
    rustix::fs::getxattr(folder, PROCESS_ATTRIBUTE, &mut [0_u8; 0]) == Err(Errno::NOTCONN)
}

/// Returns whether this error, with which reading the root of a mount fails, comes from a server
/// that still runs. Such errors mean that the root is damaged (EUCLEAN), that the device cannot
/// read it, or that the user must not enter it.
fn hides_server(errno: Errno) -> bool {
    matches!(errno, Errno::UCLEAN | Errno::IO | Errno::ACCESS)
}

/// Returns the process that has the PID `number` in the PID namespace `namespace`. `None` if the
/// process is not visible to this process.
fn find_process(number: i32, namespace: Option<u64>) -> Option<OwnedFd> {
    let own = namespace_of("self");
    if namespace.is_none() || own.is_none() || namespace == own {
        return process::open(number);
    }
    // A process in a namespace below ours also has a number here.
    process::all().find_map(|(name, process)| {
        let is_it = namespace_of(&name) == namespace && number_in_its_own(&name)? == number;
        is_it.then_some(process)
    })
}

/// Returns the PID namespace of a process, by the name of the process in /proc.
fn namespace_of(process: &str) -> Option<u64> {
    Some(std::fs::metadata(format!("/proc/{process}/ns/pid")).ok()?.ino())
}

/// Returns the PID that a process has in its innermost PID namespace.
fn number_in_its_own(process: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// The state of the write lock on an image.
enum Lock {
    Free,
    Taken,
    /// The state is unknown: the image cannot be opened, or its filesystem has no locks.
    None,
}

/// Waits until no process has the image locked for writing, but not longer than `PATIENCE`.
fn wait_for_lock(image: &Path) -> Result<Lock, Errno> {
    // A path that is not a file must not block.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(image) else {
        return Ok(Lock::None);
    };
    let end = Instant::now() + PATIENCE;
    loop {
        match try_lock(&file) {
            Ok(()) => return Ok(Lock::Free),
            Err(Errno::WOULDBLOCK) if Instant::now() < end => sleep(LOCK_INTERVAL),
            Err(Errno::WOULDBLOCK) => return Ok(Lock::Taken),
            Err(Errno::NOLCK | Errno::OPNOTSUPP) => return Ok(Lock::None),
            Err(errno) => return Err(errno),
        }
    }
}

fn try_lock(file: &File) -> Result<(), Errno> {
    flock(file, FlockOperation::NonBlockingLockShared)
}

#[cfg(test)]
mod tests;
