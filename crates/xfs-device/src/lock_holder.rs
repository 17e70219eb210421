//! The process that has a file or block device open and locked.
//!
//! Owns: reading /proc and /sys. The result is used only in messages: no decision depends on it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::DeviceAccess;
use crate::text::printable;
use crate::usage::unescape;

/// The largest number of characters of a command line that are shown.
const MAX_COMMAND: usize = 80;

/// A process that has a device open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The process ID.
    pub process: u32,
    /// The command line of the process.
    pub command: String,
    /// The mount point of the volume, if the process serves a mount.
    pub mount_point: Option<PathBuf>,
    /// The number of other processes that have the device open.
    pub others: usize,
}

impl LockHolder {
    /// Finds the process that holds a lock (flock(2)) on the file at `path`. Returns `None` if no
    /// such process is visible: it may be in another PID namespace.
    ///
    /// In two cases, returns a process that has the file open instead. A lock outlives the process
    /// that took it if another process has inherited the open file. For OFD locks, the kernel names
    /// no process.
    #[must_use]
    pub fn find(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let own = std::process::id();
        let mut processes: Vec<u32> = locks
            .lines()
            .filter_map(|line| lock_of(line, &file))
            .filter(|process| *process != own)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        let known = processes.iter().find_map(|&process| Some((process, command(process)?)));
        let (process, command) = known.or_else(|| {
            let process = opener(&file, own)?;
            Some((process, command(process)?))
        })?;
        let mount_point = mount_point(process, path);
        Some(Self { process, command, mount_point, others: processes.len().saturating_sub(1) })
    }

    /// Returns advice for the user how to get access to the device.
    #[must_use]
    pub fn hint(&self, access: DeviceAccess) -> String {
        let live = match access {
            DeviceAccess::ReadOnly => ", or read it as it is with --live",
            DeviceAccess::ReadWrite => "",
        };
        match &self.mount_point {
            Some(folder) => {
                let folder = printable(&folder.to_string_lossy());
                format!("unmount it (ferroxfs umount {folder}){live}")
            }
            None => format!("wait until it is done, or stop it{live}"),
        }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, command, mount_point, others } = self;
        match mount_point {
            Some(folder) => {
                let folder = printable(&folder.to_string_lossy());
                write!(
                    f,
                    "another program has it open: it is mounted at {folder} (process {process})"
                )?;
            }
            None => write!(f, "another program has it open: process {process} ({command})")?,
        }
        match others {
            0 => Ok(()),
            1 => f.write_str(" and another one"),
            others => write!(f, " and {others} others"),
        }
    }
}

/// Returns the kernel's use of a block device as text for a message: swap space, or another device
/// made of it. Returns `None` if there is no such use.
pub(crate) fn user_of_device(path: &Path) -> Option<String> {
    let device = fs::metadata(path).ok().filter(|device| device.rdev() != 0)?;
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_it = |name: &str| fs::metadata(name).is_ok_and(|other| other.rdev() == device.rdev());
    if swaps.lines().skip(1).filter_map(|line| line.split(' ').next()).any(is_it) {
        return Some("it is swap space (stop it with swapoff)".to_owned());
    }
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    let folder = format!("/sys/dev/block/{major}:{minor}/holders");
    let above = fs::read_dir(folder).ok()?.flatten().next()?;
    let number = above.file_name().to_string_lossy().into_owned();
    // A device of device-mapper also has a name.
    let name = fs::read_to_string(above.path().join("dm/name")).ok();
    let name = name.map(|name| format!(" ({})", printable(name.trim_end()))).unwrap_or_default();
    Some(format!("/dev/{number}{name} is made of it"))
}

/// Parses a line of /proc/locks, such as `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`. Returns
/// the process ID if the line is a flock(2) lock on this file. Returns `None` for other lines, and
/// for a process of another PID namespace.
fn lock_of(line: &str, file: &fs::Metadata) -> Option<u32> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, process, place, ..] = words.as_slice() else { return None };
    let mut parts = place.split(':');
    let (major, minor, inode) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let device = (number(major)?, number(minor)?);
    let is_device = device == (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let is_it = is_device && inode.parse() == Ok(file.ino());
    // Processes of other namespaces are 0 or negative.
    process.parse().ok().filter(|process| is_it && *process != 0)
}

/// Returns the ID of a process other than `own` that has the file open. `None` if no such process
/// is visible. Only root sees the open files of other users' processes.
fn opener(file: &fs::Metadata, own: u32) -> Option<u32> {
    let is_it = |other: &fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|process| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        *process != own
            && open.filter_map(|entry| fs::metadata(entry.path()).ok()).any(|other| is_it(&other))
    })
}

fn command(process: u32) -> Option<String> {
    let words = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    let text = if words.is_empty() {
        fs::read_to_string(format!("/proc/{process}/comm")).ok()?.trim_end().to_owned()
    } else {
        let words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        words.collect::<Vec<_>>().join(" ")
    };
    let shown: String = text.chars().take(MAX_COMMAND).collect();
    let more = if text.chars().count() > MAX_COMMAND { "..." } else { "" };
    Some(printable(&shown) + more)
}

/// Returns the mount point of the FUSE mount of the file at `path`, as the process sees it. Returns
/// `None` if there is no such mount.
fn mount_point(process: u32, path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let table = fs::read(format!("/proc/{process}/mountinfo")).ok()?;
    table.split(|byte| *byte == b'\n').find_map(|line| {
        let (left, right) = split(line, b" - ")?;
        let mut words = right.split(|byte| *byte == b' ');
        let (kind, source) = (words.next()?, words.next()?);
        let is_it = kind.starts_with(b"fuse") && unescape(source) == path.as_os_str().as_bytes();
        let place = left.split(|byte| *byte == b' ').nth(4)?;
        is_it.then(|| PathBuf::from(OsString::from_vec(unescape(place))))
    })
}

fn split<'a>(line: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = line.windows(at.len()).position(|window| window == at)?;
    Some((line.get(..place)?, line.get(place + at.len()..)?))
}

#[cfg(test)]
mod tests;
