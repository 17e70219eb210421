//! Owners, permissions, times, extended attributes and flags on the host.
//!
//! The order matters: a change of owner takes away set-uid bits and capabilities, so it comes first;
//! an ACL changes the group's permissions, so the mode comes after it; anything changes times, so
//! they come last, but for flags that forbid every further change.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, IFlags, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::place::Draft;
use crate::exit::Exit;
use crate::facts::{Facts, FileKind, Time};
use crate::failure::Failure;
use crate::names;
use crate::source::Source;

/// What could not be set, counted by kind: a line for each file would bury everything else.
pub(crate) struct Shortfalls {
    ignores_owner: bool,
    kinds: Vec<Shortfall>,
}

struct Shortfall {
    kind: String,
    count: u64,
    first: Vec<u8>,
}

impl Shortfalls {
    pub(super) fn new(ignores_owner: bool) -> Self {
        Self { ignores_owner, kinds: Vec::new() }
    }

    /// Notes that `kind` could not be set on the file `path`.
    pub(super) fn note(&mut self, kind: &str, path: &[u8]) {
        if self.ignores_owner {
            return;
        }
        match self.kinds.iter_mut().find(|shortfall| shortfall.kind == kind) {
            Some(shortfall) => shortfall.count += 1,
            None => {
                let (kind, first) = (kind.to_owned(), path.to_vec());
                self.kinds.push(Shortfall { kind, count: 1, first });
            }
        }
    }

    /// Notes an error, unless there is none.
    fn check(&mut self, result: Result<(), Errno>, kind: &str, path: &[u8]) -> bool {
        if result.is_err() {
            self.note(kind, path);
        }
        result.is_ok()
    }

    /// All of it as one failure, if there is anything.
    pub(super) fn into_failure(self) -> Option<Failure> {
        if self.kinds.is_empty() {
            return None;
        }
        let lines: Vec<String> = self
            .kinds
            .iter()
            .map(|Shortfall { kind, count, first }| {
                let first = names::in_message(first);
                match count {
                    1 => format!("{kind} (of {first})"),
                    _ => format!("{kind} (of {count} files, the first is {first})"),
                }
            })
            .collect();
        let message = format!("could not be set: {}", lines.join("; "));
        let hint = "run it as root, or say --ignore-owner where that does not matter";
        Some(Failure::new(Exit::Failed, message).hint(hint))
    }
}

/// Which file, and where what is missing is noted.
type Notes<'a> = (&'a [u8], &'a mut Shortfalls);

/// Sets everything on an open file or directory but its flags.
pub(super) fn apply_to_open<S: Source>(
    file: impl AsFd,
    source: &S,
    facts: &Facts,
    (path, notes): Notes<'_>,
) {
    let file = file.as_fd();
    let (uid, gid) = owner(facts);
    let has_owner = notes.check(rustix::fs::fchown(file, uid, gid), "owner", path);
    for attribute in source.attributes().into_iter().flatten() {
        let name = OsStr::from_bytes(&attribute.name);
        let set = rustix::fs::fsetxattr(file, name, &attribute.value, XattrFlags::empty());
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    let mode = permitted_mode(facts, has_owner, (path, notes));
    notes.check(rustix::fs::fchmod(file, mode), "permissions", path);
    notes.check(rustix::fs::futimens(file, &times(facts)), "times", path);
    note_project(facts, (path, notes));
}

/// Sets everything on what cannot be opened: links, devices, pipes, sockets.
pub(super) fn apply_by_name<S: Source>(
    draft: &Draft<'_>,
    source: &S,
    facts: &Facts,
    (path, notes): Notes<'_>,
) {
    let (directory, name) = draft.place();
    let (uid, gid) = owner(facts);
    let owned = rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
    let has_owner = notes.check(owned, "owner", path);
    // There is no call that takes a directory and a name; the way through /proc ends in the same
    // directory, and the last component is not followed.
    let by_proc = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    let by_proc = by_proc.join(name);
    for attribute in source.attributes().into_iter().flatten() {
        let key = OsStr::from_bytes(&attribute.name);
        let set = rustix::fs::lsetxattr(&by_proc, key, &attribute.value, XattrFlags::empty());
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    if facts.kind() != FileKind::Symlink {
        let mode = permitted_mode(facts, has_owner, (path, notes));
        // The draft was just made and is no link, so following would change nothing.
        let set = rustix::fs::chmodat(directory, name, mode, AtFlags::empty());
        notes.check(set, "permissions", path);
    }
    let set = rustix::fs::utimensat(directory, name, &times(facts), AtFlags::SYMLINK_NOFOLLOW);
    notes.check(set, "times", path);
    note_project(facts, (path, notes));
}

fn owner(facts: &Facts) -> (Option<Uid>, Option<Gid>) {
    // All ones means "leave it" to the kernel, and is no owner that it would accept.
    let uid = (facts.uid != u32::MAX).then(|| Uid::from_raw(facts.uid));
    let gid = (facts.gid != u32::MAX).then(|| Gid::from_raw(facts.gid));
    (uid, gid)
}

/// A set-uid bit must not make a file run as somebody whom the image did not name.
fn permitted_mode(facts: &Facts, has_owner: bool, (path, notes): Notes<'_>) -> Mode {
    const SET_ID: u32 = 0o6000;
    let mut mode = facts.mode & 0o7777;
    if !has_owner && facts.kind() != FileKind::Directory && mode & SET_ID != 0 {
        notes.note("set-uid and set-gid bits", path);
        mode &= !SET_ID;
    }
    Mode::from_raw_mode(mode)
}

fn attribute_kind(name: &[u8]) -> &'static str {
    match name.split(|&byte| byte == b'.').next() {
        Some(b"user") => "user attributes",
        Some(b"trusted") => "trusted attributes",
        Some(b"security") => "security attributes",
        _ => "access control lists",
    }
}

fn times(facts: &Facts) -> Timestamps {
    let timespec = |time: Time| Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanoseconds.min(999_999_999)),
    };
    Timestamps {
        last_access: timespec(facts.accessed),
        last_modification: timespec(facts.modified),
    }
}

/// Setting a project takes a call for which there is no safe wrapper.
fn note_project(facts: &Facts, (path, notes): Notes<'_>) {
    if facts.project != 0 {
        notes.note("project id", path);
    }
}

/// The flags that mean something outside of XFS, as FS_IOC_FSGETXATTR and FS_IOC_GETFLAGS call them.
const FLAGS: [(u32, IFlags); 5] = [
    (0x0000_0008, IFlags::IMMUTABLE),
    (0x0000_0010, IFlags::APPEND),
    (0x0000_0020, IFlags::SYNC),
    (0x0000_0040, IFlags::NOATIME),
    (0x0000_0080, IFlags::NODUMP),
];

/// Whether a file has flags to set.
pub(super) fn has_flags(facts: &Facts) -> bool {
    !flags(facts).is_empty()
}

fn flags(facts: &Facts) -> IFlags {
    let wanted = FLAGS.iter().filter(|(bit, _)| facts.xflags & bit != 0);
    wanted.fold(IFlags::empty(), |flags, (_, flag)| flags | *flag)
}

/// Sets flags. Nothing can be done to an immutable file any more, not even to rename or link it.
pub(super) fn apply_flags(file: impl AsFd, facts: &Facts, (path, notes): Notes<'_>) {
    let (file, flags) = (file.as_fd(), flags(facts));
    let set = rustix::fs::ioctl_getflags(file)
        .and_then(|before| rustix::fs::ioctl_setflags(file, before | flags));
    notes.check(set, "flags (immutable, append-only and their like)", path);
}
