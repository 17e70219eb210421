//! The previous server of an image that is to be mounted again.
//!
//! umount(2) returns before the server has closed the image. A later mount of the image waits until
//! the server has closed it, as a mount by the kernel does. Owns: distinguishing such a server from
//! other users of the image. Does **not** own: the locks, which alone show when the image is free.
//!
//! A process is a previous server if three conditions hold. It has locked the image; its command
//! line is one of `ferroxfs mount`; and neither its mount table nor that of this process shows a
//! mount of the locked image. A process that is about to mount the image looks the same, so a later
//! mount also waits until that process has mounted.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroxfs::OpenError;
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use xfs_device::DeviceFailure;
use xfs_fuse::sources;

use super::{helper, process};
use crate::cli::{self, Command};
use crate::terminal::names;

/// How long the previous server may take to close the image.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time after which a wait is reported to the user.
const SILENCE: Duration = Duration::from_secs(1);
/// The interval between two attempts to open the image.
const INTERVAL: Duration = Duration::from_millis(100);

/// The identity of a file (device and inode number), or of a block device (device number).
type ImageIdentity = (u64, u64, u64);

/// A process that has served an image and still holds the lock on the image.
struct Predecessor {
    number: String,
    process: OwnedFd,
}

/// The kind of process that holds the lock on an image.
enum ImageUser {
    /// The previous server, which is about to end.
    Predecessor(Predecessor),
    /// A process that is not a previous server. A previous server may also hold a lock on the
    /// image.
    Other,
    /// No process, or none that is visible to this process.
    None,
}

/// The reason why an image cannot be opened.
pub(crate) struct Refusal {
    pub(super) error: OpenError,
    /// The PID of the previous server, if the reason is that it has not closed the image in time;
    /// `None` for any other reason.
    pub(super) predecessor: Option<String>,
}

/// Calls `open`, and repeats the call as long as a previous server has not closed the image. Passes
/// a message to `tell` if the wait is long.
pub(crate) fn open_after<T>(
    open: impl Fn() -> Result<T, OpenError>,
    mut tell: impl FnMut(String),
) -> Result<T, Refusal> {
    let began = Instant::now();
    let (mut is_told, mut was_none) = (false, false);
    loop {
        let error = match open() {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let Some(image) = taken(&error) else { return Err(Refusal { error, predecessor: None }) };
        let predecessor = match find(image) {
            ImageUser::Predecessor(predecessor) => predecessor,
            // It may have closed the image meanwhile.
            ImageUser::None if !was_none => {
                was_none = true;
                std::thread::sleep(INTERVAL);
                continue;
            }
            ImageUser::None | ImageUser::Other => {
                return Err(Refusal { error, predecessor: None });
            }
        };
        was_none = false;
        if began.elapsed() >= PATIENCE {
            return Err(Refusal { error, predecessor: Some(predecessor.number) });
        }
        if began.elapsed() >= SILENCE && !is_told {
            let shown = names::in_message(image.as_os_str().as_encoded_bytes());
            let number = &predecessor.number;
            tell(format!(
                "{shown}: waiting for process {number}, which served it before, to close it"
            ));
            is_told = true;
        }
        // Opening the image shows the result.
        _ = process::wait_for(&predecessor.process, PollFlags::IN, INTERVAL);
    }
}

/// If an image cannot be opened because another process has locked or uses a file, returns the path
/// of that file. Returns `None` for any other error.
fn taken(error: &OpenError) -> Option<&Path> {
    let OpenError::Device(error) = error else { return None };
    match error.failure() {
        DeviceFailure::Locked(_) | DeviceFailure::Busy => Some(error.path()),
        DeviceFailure::LockedBelow { below, .. } => Some(below),
        DeviceFailure::TwinBusy { twin, .. } => Some(twin),
        _ => None,
    }
}

fn find(image: &Path) -> ImageUser {
    let Ok(image) = image.metadata().map(|image| identity(&image)) else {
        return ImageUser::None;
    };
    let mut found = ImageUser::None;
    for (number, process) in process::all() {
        let locked = locked(&number);
        if !locked.contains(&image) {
            continue;
        }
        if !is_server(&number) || is_mounted("self", &locked) || is_mounted(&number, &locked) {
            return ImageUser::Other;
        }
        found = ImageUser::Predecessor(Predecessor { number, process });
    }
    found
}

fn identity(file: &Metadata) -> ImageIdentity {
    // A device is identified by its number, whatever its name.
    if file.rdev() == 0 { (file.dev(), file.ino(), 0) } else { (0, 0, file.rdev()) }
}

/// Returns the files that the process with this PID has locked, as far as this user may see them.
fn locked(number: &str) -> Vec<ImageIdentity> {
    let has_lock = |descriptor: &str| {
        let facts = fs::read_to_string(format!("/proc/{number}/fdinfo/{descriptor}"));
        let is_lock = |line: &str| line.starts_with("lock:") && line.contains("FLOCK");
        facts.is_ok_and(|facts| facts.lines().any(is_lock))
    };
    let descriptors = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    let locked = descriptors.filter(|entry| entry.file_name().to_str().is_some_and(has_lock));
    locked.filter_map(|entry| Some(identity(&fs::metadata(entry.path()).ok()?))).collect()
}

/// Returns whether the process with this PID was started as `ferroxfs mount`. A process that is
/// about to end has lost its command line, and counts as such a server.
fn is_server(number: &str) -> bool {
    let Ok(line) = fs::read(format!("/proc/{number}/cmdline")) else { return false };
    if line.is_empty() {
        // A process that ends loses its memory before its locks.
        return true;
    }
    let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    let parsed = cli::parse(helper::arguments(words));
    parsed.is_ok_and(|cli| matches!(cli.command, Command::Mount(_)))
}

/// Returns whether the mount table of a process shows a mount of one of these images. `process` is
/// the name of the process in /proc.
fn is_mounted(process: &str, images: &[ImageIdentity]) -> bool {
    sources(process).iter().any(|source| {
        let path = Path::new("/proc").join(process).join("root");
        let path = path.join(source.strip_prefix("/").unwrap_or(source));
        path.metadata().is_ok_and(|found| images.contains(&identity(&found)))
    })
}

#[cfg(test)]
mod tests;
