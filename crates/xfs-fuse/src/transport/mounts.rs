//! The mounts of ferroxfs in the system's mount table (`/proc/self/mountinfo`).
//!
//! Owns: reading that table. Does **not** own: changing it ([`mounting`](super::mounting)).

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xfs_sync::{Mutex, Slot, Slots};

use super::mounting::TYPE;

/// Path of the mount table as this process sees it.
const TABLE: &str = "/proc/self/mountinfo";

/// How long a snapshot of the mount table is valid. The kernel signals a change of the mount's
/// flags, but not a change of the filesystem's flags.
const FRESH: Duration = Duration::from_secs(1);

/// Reports whether a mount has been made read-only, for callers that ask often.
///
/// The kernel does not notify the server. A descriptor of the mount table can be polled, and
/// reports each change once. So each per-CPU slot has a descriptor of its own, and no thread waits
/// for another.
pub(crate) struct ReadOnlyProbe {
    /// The absolute path of the mount point.
    folder: PathBuf,
    snapshots: Slots<Mutex<Option<TableSnapshot>, Slot>>,
}

/// The last read of the mount table: its time, whether the mount was read-only then, and a
/// descriptor of the table that reports changes.
struct TableSnapshot {
    table: File,
    at: Instant,
    is_read_only: bool,
}

impl ReadOnlyProbe {
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder, snapshots: Slots::new(|| Mutex::new(None)) }
    }

    /// Returns whether the mount is read-only now. Returns `false` if the mount table cannot be
    /// read.
    pub(crate) fn is_read_only(&self) -> bool {
        let mut snapshot = self.snapshots.mine().lock();
        let current = snapshot
            .take()
            .filter(|snapshot| snapshot.at.elapsed() < FRESH && !has_changed(&snapshot.table));
        // A descriptor reports changes from its opening on. A change during the read is seen next
        // time.
        *snapshot = current.or_else(|| {
            let table = File::open(TABLE).ok()?;
            let (at, is_read_only) = (Instant::now(), is_read_only(&self.folder));
            Some(TableSnapshot { table, at, is_read_only })
        });
        snapshot.as_ref().is_some_and(|snapshot| snapshot.is_read_only)
    }
}

fn has_changed(table: &File) -> bool {
    let mut polled = [PollFd::new(table, PollFlags::PRI)];
    // If the poll fails, read the table again.
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
}

/// The row of a mount of ferroxfs in the mount table.
struct MountRow<'a> {
    /// The mount point, with the escape sequences of the table.
    place: &'a str,
    /// The options of the mount, and the options of the filesystem.
    options: [&'a str; 2],
    /// The source of the mount (the image), with the escape sequences of the table.
    source: &'a str,
}

/// Returns whether ferroxfs's mount on a folder has been made read-only. `folder` is an absolute
/// path. Returns `false` if the mount table cannot be read.
pub(crate) fn is_read_only(folder: &Path) -> bool {
    row(&table(), folder).is_some_and(|row| row.is_read_only())
}

/// Returns the image that ferroxfs has mounted on a folder, by the absolute path that it had at the
/// time of the mount. Sends no request to the server. Returns `None` if the folder has no mount of
/// ferroxfs.
#[must_use]
pub fn source_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    row(&table(), &folder).map(|row| row.source())
}

/// Returns the images that a process sees mounted by ferroxfs, by their absolute paths in the
/// process's directory tree. `process` is the name of the process's folder in /proc. The list is
/// empty if the mount table cannot be read.
#[must_use]
pub fn sources(process: &str) -> Vec<PathBuf> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    rows(&String::from_utf8_lossy(&table)).map(|row| row.source()).collect()
}

/// A volume that is mounted through this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount point.
    pub folder: PathBuf,
    /// The absolute path of the image or device at the time of the mount.
    pub image: PathBuf,
    /// Whether the mount is read-only.
    pub is_read_only: bool,
    /// The other options of the mount and of its filesystem, each once, as the mount table shows
    /// them: `nodev`, `allow_other`.
    pub options: Vec<String>,
}

/// Returns the mounts of ferroxfs that this process sees. Sends no request to their servers.
#[must_use]
pub fn mounts() -> Vec<MountEntry> {
    let mounted = |row: MountRow<'_>| MountEntry {
        folder: PathBuf::from(OsString::from_vec(unescape(row.place))),
        image: row.source(),
        is_read_only: row.is_read_only(),
        options: row.other_options(),
    };
    rows(&table()).map(mounted).collect()
}

fn table() -> String {
    String::from_utf8_lossy(&std::fs::read(TABLE).unwrap_or_default()).into_owned()
}

/// Returns the row of ferroxfs's mount on a folder, or `None` if there is none. If a folder has
/// several such mounts, returns the latest one, which is the visible one.
fn row<'a>(table: &'a str, folder: &Path) -> Option<MountRow<'a>> {
    let mut escaped = folder.to_string_lossy().replace('\\', "\\134");
    for (letter, code) in [(" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")] {
        escaped = escaped.replace(letter, code);
    }
    rows(table).filter(|row| row.place == escaped).last()
}

/// Returns the rows of all mounts of ferroxfs.
fn rows(table: &str) -> impl Iterator<Item = MountRow<'_>> {
    table.lines().filter_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(4);
        let (place, own) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let (kind, source, all) = (filesystem.next()?, filesystem.next()?, filesystem.next()?);
        (kind == TYPE).then_some(MountRow { place, options: [own, all], source })
    })
}

impl MountRow<'_> {
    fn source(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(unescape(self.source)))
    }

    fn is_read_only(&self) -> bool {
        self.all_options().any(|option| option == "ro")
    }

    /// Returns the options other than `ro` and `rw`, each once.
    fn other_options(&self) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        for option in self.all_options().filter(|option| !matches!(*option, "ro" | "rw")) {
            if !options.iter().any(|earlier| earlier == option) {
                options.push(option.to_owned());
            }
        }
        options
    }

    fn all_options(&self) -> impl Iterator<Item = &str> {
        self.options.iter().flat_map(|list| list.split(','))
    }
}

/// Replaces the escape sequences of the table, a backslash and three octal digits, by their bytes.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
