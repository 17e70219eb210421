//! Who serves a mount, and how that ends.
//!
//! Owns: finding the process or the image that is to be waited for, and what is to be known of the end.
//! Does **not** own: unmounting.
//!
//! What is best is asked first: the exit status of the process says whether it has closed the volume. Where
//! the process is not to be seen, or its status is not told, the lock on the image says when it is closed,
//! and its log whether well.

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
use crate::cli::SandboxWhen;
use crate::commands::mount::inside;
use crate::commands::stats::read_attribute;
use crate::failure::Failure;
use crate::process::{self, wait_for};
use crate::sandbox::Namespaces;

/// How long the process that serves may take to close the volume.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long its parent may take to ask how it has ended. Some never ask.
const REAPING: Duration = Duration::from_secs(1);
/// How often a lock is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// What the server can do with the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
    /// The volume was shut down on demand: there is nothing to make durable.
    Down,
    /// It cannot be asked.
    Unknown,
}

/// Who serves a mount. Held open, so that a number cannot come to mean another process.
pub(super) struct Serving {
    pub(super) access: Access,
    process: Option<OwnedFd>,
    /// The image, where it is to be seen from here.
    image: Option<PathBuf>,
}

/// How serving has ended.
#[derive(Debug)]
pub(super) enum Ending {
    Well,
    /// Its process has ended so.
    Badly(ExitStatus),
    /// Everything is closed, but the log says that this was not done well.
    LogDirty,
    /// It goes on.
    NotYet,
    /// How it ended is not to be known from here.
    Unknown,
    /// Nor is when.
    Unseen,
}

impl Serving {
    /// Finds who serves the mount on a folder; `None` if nobody does any more.
    ///
    /// # Errors
    ///
    /// Nothing of ours is mounted there.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, Failure> {
        match Self::ask(folder) {
            // It may have died between two questions.
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
                return Ok(Some(Self { access: Access::Unknown, process: None, image }));
            }
            _ => {}
        }
        let number: Option<i32> = told(folder, PROCESS_ATTRIBUTE)?;
        let namespace = told(folder, NAMESPACE_ATTRIBUTE).ok().flatten();
        let process = number.and_then(|number| find_process(number, namespace));
        let access = match read_attribute(folder, ACCESS_ATTRIBUTE)?.as_slice() {
            b"ro" => Access::Reads,
            b"down" => Access::Down,
            _ => Access::Writes,
        };
        // In another tree of mounts the same path can be another file.
        let identity = read_attribute(folder, IMAGE_ATTRIBUTE).unwrap_or_default();
        let is_it = |image: &PathBuf| {
            image.metadata().is_ok_and(|found| image_identity(&found).into_bytes() == identity)
        };
        Ok(Some(Self { access, process, image: source_of(folder).filter(is_it) }))
    }

    /// Waits until the image is closed, and says how that went.
    ///
    /// # Errors
    ///
    /// The system's.
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
            Lock::Free => Ok(self.judge_log(image)),
            Lock::Taken => Ok(Ending::NotYet),
            Lock::None => Ok(unseen),
        }
    }

    /// What the log says of the end of who wrote it.
    fn judge_log(&self, image: &Path) -> Ending {
        if matches!(self.access, Access::Reads | Access::Down) {
            return Ending::Well;
        }
        let opened = ferroxfs::OpenOptions::new().no_recovery(true).open_devices(image);
        let Ok(devices) = opened else { return Ending::Unknown };
        // It may hold anything.
        let sandbox = SandboxWhen::Auto;
        let namespaces = Namespaces::make(sandbox);
        let clean =
            inside((sandbox, &namespaces), || Some(devices.describe().ok()?.log?.ok()?.clean));
        match clean {
            Ok(Some(true)) => Ending::Well,
            Ok(Some(false)) => Ending::LogDirty,
            // Where in it the volume lies is not known here, or where its log.
            Ok(None) | Err(_) => Ending::Unknown,
        }
    }
}

/// As the mount tells it.
fn image_identity(image: &Metadata) -> String {
    format!("{}:{}", image.dev(), image.ino())
}

/// The number that an attribute is; `None` if it is none.
fn told<T: std::str::FromStr>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let value = read_attribute(folder, name)?;
    Ok(std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()))
}

/// Whether who served a mount is gone. What stat(2) says may come from before that.
fn is_dead(folder: &Path) -> bool {
    rustix::fs::getxattr(folder, PROCESS_ATTRIBUTE, &mut [0_u8; 0]) == Err(Errno::NOTCONN)
}

/// Whether a mount that gives this for its root can be ended all the same: its server finds the root damaged
/// (EUCLEAN), or cannot read it from the device, or the root is closed to who asks.
fn hides_server(errno: Errno) -> bool {
    matches!(errno, Errno::UCLEAN | Errno::IO | Errno::ACCESS)
}

/// The process that has this number in its own namespace, if it is to be seen from here.
fn find_process(number: i32, namespace: Option<u64>) -> Option<OwnedFd> {
    let own = namespace_of("self");
    if namespace.is_none() || own.is_none() || namespace == own {
        return process::open(number);
    }
    // One in a namespace below ours has a number here as well.
    process::all().find_map(|(name, process)| {
        let is_it = namespace_of(&name) == namespace && number_in_its_own(&name)? == number;
        is_it.then_some(process)
    })
}

/// The namespace of processes that one is in.
fn namespace_of(process: &str) -> Option<u64> {
    Some(std::fs::metadata(format!("/proc/{process}/ns/pid")).ok()?.ino())
}

/// The number of a process in the innermost namespace that it is in.
fn number_in_its_own(process: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// What became of the lock on an image.
enum Lock {
    Free,
    Taken,
    /// It cannot be seen.
    None,
}

/// Waits until nobody has an image locked for writing.
fn wait_for_lock(image: &Path) -> Result<Lock, Errno> {
    // What is no file must not have us wait.
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
