//! Who has served a mount of an image that is to be mounted again.
//!
//! umount(2) returns before the server has closed the image, and a mount that comes then waits for that, as the
//! kernel's own does. Owns: telling such a server from who uses the image. Does **not** own: locks, which say alone
//! when the image is free.
//!
//! A process is one if it has locked the image, its command line is one of ours that mounts, and neither its table
//! of mounts nor ours shows a mount of what it has locked. One that has yet to mount looks the same, and is waited
//! for until it has.

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

use crate::cli::{self, Command};
use crate::names;
use crate::{helper, process};

/// How long it has for closing the image.
const PATIENCE: Duration = Duration::from_secs(30);
/// After that who waits is told so.
const SILENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether the mount is there.
const INTERVAL: Duration = Duration::from_millis(100);

/// What tells a file, or a block device, from others.
type Identity = (u64, u64, u64);

/// A process that has served an image, and has it locked still.
struct Predecessor {
    number: String,
    process: OwnedFd,
}

/// Who has an image locked.
enum User {
    /// Who has served it, and is leaving.
    Predecessor(Predecessor),
    /// Somebody else, too.
    Other,
    /// Nobody who is to be seen.
    Nobody,
}

/// Why an image cannot be opened.
pub(super) struct Refusal {
    pub(super) error: OpenError,
    /// The process that should have closed it by now.
    pub(super) predecessor: Option<String>,
}

/// Opens what a predecessor may not have closed yet. `tell` says to who waits for what.
pub(super) fn open_after<T>(
    open: impl Fn() -> Result<T, OpenError>,
    mut tell: impl FnMut(String),
) -> Result<T, Refusal> {
    let began = Instant::now();
    let (mut is_told, mut was_nobody) = (false, false);
    loop {
        let error = match open() {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let Some(image) = taken(&error) else { return Err(Refusal { error, predecessor: None }) };
        let predecessor = match find(image) {
            User::Predecessor(predecessor) => predecessor,
            // It may have closed it meanwhile.
            User::Nobody if !was_nobody => {
                was_nobody = true;
                std::thread::sleep(INTERVAL);
                continue;
            }
            User::Nobody | User::Other => return Err(Refusal { error, predecessor: None }),
        };
        was_nobody = false;
        if began.elapsed() >= PATIENCE {
            return Err(Refusal { error, predecessor: Some(predecessor.number) });
        }
        if began.elapsed() >= SILENCE && !is_told {
            let shown = names::in_message(image.as_os_str().as_encoded_bytes());
            let number = &predecessor.number;
            tell(format!("{shown}: waits for process {number}, which has served it, to close it"));
            is_told = true;
        }
        // What this gives is seen when the image is opened.
        _ = process::wait_for(&predecessor.process, PollFlags::IN, INTERVAL);
    }
}

/// What somebody else has opened, if that is why an image cannot be opened.
fn taken(error: &OpenError) -> Option<&Path> {
    let OpenError::Device(error) = error else { return None };
    match error.failure() {
        DeviceFailure::Locked(_) | DeviceFailure::Busy => Some(error.path()),
        DeviceFailure::LockedBelow { below, .. } => Some(below),
        DeviceFailure::TwinBusy { twin, .. } => Some(twin),
        _ => None,
    }
}

fn find(image: &Path) -> User {
    let Ok(image) = image.metadata().map(|image| identity(&image)) else { return User::Nobody };
    let mut found = User::Nobody;
    for (number, process) in process::all() {
        let locked = locked(&number);
        if !locked.contains(&image) {
            continue;
        }
        if !is_server(&number) || is_mounted("self", &locked) || is_mounted(&number, &locked) {
            return User::Other;
        }
        found = User::Predecessor(Predecessor { number, process });
    }
    found
}

fn identity(file: &Metadata) -> Identity {
    // Of a device, whatever it is called.
    if file.rdev() == 0 { (file.dev(), file.ino(), 0) } else { (0, 0, file.rdev()) }
}

/// What a process has locked, as far as this user may see it.
fn locked(number: &str) -> Vec<Identity> {
    let has_lock = |descriptor: &str| {
        let facts = fs::read_to_string(format!("/proc/{number}/fdinfo/{descriptor}"));
        let is_lock = |line: &str| line.starts_with("lock:") && line.contains("FLOCK");
        facts.is_ok_and(|facts| facts.lines().any(is_lock))
    };
    let descriptors = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    let locked = descriptors.filter(|entry| entry.file_name().to_str().is_some_and(has_lock));
    locked.filter_map(|entry| Some(identity(&fs::metadata(entry.path()).ok()?))).collect()
}

/// Whether a process was started to serve a mount, or is about to be gone.
fn is_server(number: &str) -> bool {
    let Ok(line) = fs::read(format!("/proc/{number}/cmdline")) else { return false };
    if line.is_empty() {
        // It is dying, whatever it was: its memory goes before its locks.
        return true;
    }
    let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    let parsed = cli::parse(helper::arguments(words));
    parsed.is_ok_and(|cli| matches!(cli.command, Command::Mount(_)))
}

/// Whether a process sees a mount of one of these.
fn is_mounted(process: &str, images: &[Identity]) -> bool {
    sources(process).iter().any(|source| {
        let path = Path::new("/proc").join(process).join("root");
        let path = path.join(source.strip_prefix("/").unwrap_or(source));
        path.metadata().is_ok_and(|found| images.contains(&identity(&found)))
    })
}

#[cfg(test)]
mod tests;
