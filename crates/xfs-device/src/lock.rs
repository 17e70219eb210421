//! Locks on the host's files and devices, with which cooperating programs avoid using the same
//! bytes.
//!
//! Owns: the locking protocol that all users of the same bytes follow. Does **not** own: finding
//! the devices that share the same bytes ([`stack`](crate::stack)).
//!
//! # The protocol
//!
//! flock(2) covers a whole file. On the file itself it is exclusive for a writer and shared for a
//! reader. On every file or disk below it is shared. Programs that know only flock, such as udev,
//! conflict with these locks.
//!
//! In addition each user announces the sectors that it uses on the file and on every file or disk
//! below. It does so with a shared OFD lock on bytes far beyond the contents: sector `n` is byte
//! `READERS + n` or `WRITERS + n`. Then it checks for conflicting announcements: a writer checks
//! both kinds, a reader checks writers. Announcements are shared locks, so a read-only descriptor
//! suffices. If two conflicting users start at the same time, both may be refused, but they are
//! never both admitted.
//!
//! QEMU announces its users in the same way on bytes of its own. QEMU's announcements are honoured
//! here for whole files.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::FlockOperation;

use crate::file::DeviceAccess;
use crate::stack::{FileIdentity, Level, Span};

/// The length of a sector in bytes.
const SECTOR_BYTES: u64 = 512;
/// A number of sectors that no file can reach.
const MAX_SECTORS: u64 = 1 << 54;
const READERS: u64 = 1 << 61;
const WRITERS: u64 = 1 << 62;

/// The range of bytes that QEMU locks while it uses a file in any way. The next constants are the
/// ranges for reading, for writing, and for the demand that no other program writes.
const QEMU_USES: Span = Span { start: 100, end: 104 };
const QEMU_READS: Span = Span { start: 100, end: 101 };
const QEMU_WRITES: Span = Span { start: 101, end: 102 };
const QEMU_FORBIDS_WRITERS: Span = Span { start: 201, end: 202 };

/// Announces, with shared OFD locks, that this process uses this span of an open file or device.
/// Returns `false` if another user conflicts. Returns `true` if no user conflicts, and also if the
/// host has no OFD locks.
pub(crate) fn announce(file: &File, span: Span, access: DeviceAccess) -> bool {
    let (readers, writers) = (sectors(READERS, span), sectors(WRITERS, span));
    let qemu_locks: &[Span] = match (access, span.is_whole()) {
        (DeviceAccess::ReadWrite, true) => &[QEMU_READS, QEMU_WRITES, QEMU_FORBIDS_WRITERS],
        (DeviceAccess::ReadWrite, false) => &[QEMU_WRITES],
        (DeviceAccess::ReadOnly, true) => &[QEMU_READS, QEMU_FORBIDS_WRITERS],
        (DeviceAccess::ReadOnly, false) => &[],
    };
    // The writer of another partition announces that it writes, and does not forbid other writers.
    let qemu_asks: &[Span] = match (access, span.is_whole()) {
        (DeviceAccess::ReadWrite, true) => &[QEMU_USES, QEMU_FORBIDS_WRITERS],
        (DeviceAccess::ReadWrite, false) => &[QEMU_FORBIDS_WRITERS],
        (DeviceAccess::ReadOnly, true) => &[QEMU_WRITES],
        (DeviceAccess::ReadOnly, false) => &[],
    };
    let (own, others): (Span, &[Span]) = match access {
        DeviceAccess::ReadOnly => (readers, &[writers]),
        DeviceAccess::ReadWrite => (writers, &[readers, writers]),
    };
    let is_set = std::iter::once(&own).chain(qemu_locks).all(|span| set(file, *span));
    let is_free = others.iter().chain(qemu_asks).all(|span| is_free(file, *span));
    is_set && is_free
}

/// Releases all announcements (shared OFD locks) that were made through this descriptor.
pub(crate) fn withdraw(file: &File) {
    let lock = lock_of(libc::F_UNLCK, 0, 0);
    // An unlock without a lock fails, and nothing depends on it.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&lock));
}

/// Locks one file or disk of which the device is made. Returns `false` if another program uses it
/// in a way that conflicts with `access`.
pub(crate) fn lock_level(level: &Level, access: DeviceAccess) -> bool {
    let Some(file) = &level.file else { return !is_locked_elsewhere(level.identity, access) };
    // A host without these locks has no conflicting ones.
    let shared = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared);
    let is_locked = shared != Err(rustix::io::Errno::WOULDBLOCK);
    is_locked && (level.is_shared || announce(file, level.span, access))
}

/// Returns whether /proc/locks lists a conflicting lock of another program, on a file that this
/// process cannot open.
fn is_locked_elsewhere(identity: FileIdentity, access: DeviceAccess) -> bool {
    let FileIdentity::File { device, inode } = identity else { return false };
    let text = std::fs::read_to_string(Path::new("/proc/locks")).unwrap_or_default();
    text.lines().any(|line| conflicts(line, device, inode, access))
}

/// Returns whether this line of /proc/locks describes a lock on the inode that conflicts with the
/// access.
fn conflicts(line: &str, device: u64, inode: u64, access: DeviceAccess) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, class, _, mode, _, place, start, _] = words.as_slice() else { return false };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    if *place != format!("{major:02x}:{minor:02x}:{inode}") {
        return false;
    }
    let is_writer = match *class {
        "FLOCK" => *mode == "WRITE",
        "OFDLCK" => start.parse().is_ok_and(|start: u64| start >= WRITERS),
        _ => return false,
    };
    is_writer || access == DeviceAccess::ReadWrite
}

/// Returns the bytes whose locks announce the use of the sectors in `span`: one byte for each
/// sector. `base` is the byte for sector 0.
fn sectors(base: u64, span: Span) -> Span {
    let start = (span.start / SECTOR_BYTES).min(MAX_SECTORS);
    let end = span.end.div_ceil(SECTOR_BYTES).clamp(start, MAX_SECTORS);
    Span { start: base + start, end: base + end }
}

/// Sets a shared lock on a span of bytes. Returns `false` if an exclusive lock of another program
/// conflicts.
fn set(file: &File, span: Span) -> bool {
    let Some(lock) = lock_over(libc::F_RDLCK, span) else { return true };
    let set = fcntl(file, FcntlArg::F_OFD_SETLK(&lock));
    !matches!(set, Err(Errno::EAGAIN | Errno::EACCES))
}

/// Returns whether no other program has a lock on the span of bytes.
fn is_free(file: &File, span: Span) -> bool {
    let Some(mut lock) = lock_over(libc::F_WRLCK, span) else { return true };
    let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock));
    asked.is_err() || i32::from(lock.l_type) == libc::F_UNLCK
}

/// Returns the argument of fcntl(2) for a lock over a span; `kind` is `F_RDLCK`, `F_WRLCK` or
/// `F_UNLCK`. Returns `None` for an empty span, because fcntl(2) interprets the length 0 as "to the
/// end".
fn lock_over(kind: i32, span: Span) -> Option<libc::flock> {
    let length = span.end.checked_sub(span.start).filter(|length| *length > 0)?;
    Some(lock_of(kind, i64::try_from(span.start).ok()?, i64::try_from(length).ok()?))
}

fn lock_of(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests;
