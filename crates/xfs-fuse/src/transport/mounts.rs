//! What the system's table of mounts (`/proc/self/mountinfo`) says of ours.
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

/// The table, as this process sees it.
const TABLE: &str = "/proc/self/mountinfo";

/// How long what was seen counts without another look: the table tells of a change where the mount itself is
/// changed, and not where only its filesystem is.
const FRESH: Duration = Duration::from_secs(1);

/// Whether a mount was made read-only, for who asks often.
///
/// A server is not told. The table can be asked whether it has changed, once for each descriptor of it; so
/// each slot has its own, and what a thread looks at no other one has to wait for.
pub(crate) struct ReadOnlyProbe {
    /// The full path.
    folder: PathBuf,
    snapshots: Slots<Mutex<Option<TableSnapshot>, Slot>>,
}

/// What was seen, and what tells whether it may be otherwise now.
struct TableSnapshot {
    table: File,
    at: Instant,
    is_read_only: bool,
}

impl ReadOnlyProbe {
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder, snapshots: Slots::new(|| Mutex::new(None)) }
    }

    /// Whether nothing may be written at this moment. What cannot be found out is taken for writable.
    pub(crate) fn is_read_only(&self) -> bool {
        let mut snapshot = self.snapshots.mine().lock();
        let current = snapshot
            .take()
            .filter(|snapshot| snapshot.at.elapsed() < FRESH && !has_changed(&snapshot.table));
        // Changes count from when it is opened: what comes while it is read is seen the next time.
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
    // What cannot be asked is looked at again.
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
}

/// A mount of ours in the table.
struct MountRow<'a> {
    /// Where, in the escapes of the table.
    place: &'a str,
    /// What it may do by itself, and what the filesystem may.
    options: [&'a str; 2],
    /// What is mounted, in the escapes of the table.
    source: &'a str,
}

/// Whether what is mounted of ours on a folder, given by its full path, was made read-only since: a server is
/// not told. What cannot be found out is taken for writable.
pub(crate) fn is_read_only(folder: &Path) -> bool {
    row(&table(), folder).is_some_and(|row| row.is_read_only())
}

/// What is mounted of ours on a folder: the full path of an image, as it was where it was mounted. Whoever serves
/// it is not asked. `None` if nothing of ours is to be seen there.
#[must_use]
pub fn source_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    row(&table(), &folder).map(|row| row.source())
}

/// What is mounted of ours for a process, as it is called beneath /proc: the full paths of images, in its tree.
/// Nothing where its table cannot be read.
#[must_use]
pub fn sources(process: &str) -> Vec<PathBuf> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    rows(&String::from_utf8_lossy(&table)).map(|row| row.source()).collect()
}

/// A volume that is mounted through this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// The mount point.
    pub folder: PathBuf,
    /// The full path of the image or device, as it was when it was mounted.
    pub image: PathBuf,
    /// Whether nothing can be written.
    pub is_read_only: bool,
}

/// The mounts of ours that this process sees. Their servers are not asked.
#[must_use]
pub fn mounts() -> Vec<MountedVolume> {
    let mounted = |row: MountRow<'_>| MountedVolume {
        folder: PathBuf::from(OsString::from_vec(unescape(row.place))),
        image: row.source(),
        is_read_only: row.is_read_only(),
    };
    rows(&table()).map(mounted).collect()
}

fn table() -> String {
    String::from_utf8_lossy(&std::fs::read(TABLE).unwrap_or_default()).into_owned()
}

/// The row of a folder. Of two mounts on one folder the later one is seen.
fn row<'a>(table: &'a str, folder: &Path) -> Option<MountRow<'a>> {
    let mut escaped = folder.to_string_lossy().replace('\\', "\\134");
    for (letter, code) in [(" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")] {
        escaped = escaped.replace(letter, code);
    }
    rows(table).filter(|row| row.place == escaped).last()
}

/// The rows of ours.
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
        self.options.iter().any(|list| list.split(',').any(|option| option == "ro"))
    }
}

/// What stands for a byte in the table is a backslash and three octal digits.
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
