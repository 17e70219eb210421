//! Owners, permissions, times, extended attributes and flags on the host.
//!
//! The order matters: a change of owner takes away set-uid bits and capabilities, so it comes first;
//! an ACL changes the group's permissions, so the mode comes after it; anything changes times, so
//! they come last, but for flags that forbid every further change.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Gid, IFlags, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::place::Draft;
use super::project;
use crate::exit::Exit;
use crate::facts::{Facts, FileKind, Time};
use crate::failure::Failure;
use crate::names;
use crate::source::Source;

/// What can fail to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Owner,
    SetId,
    Device,
    Trusted,
    Security,
    Project,
    Flags,
    User,
    AccessList,
    Permissions,
    Times,
}

impl Lack {
    fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::SetId => "set-uid and set-gid bits",
            Self::Device => "device files",
            Self::Trusted => "trusted attributes",
            Self::Security => "security attributes",
            Self::Project => "project id",
            Self::Flags => "flags (immutable, append-only and their like)",
            Self::User => "user attributes",
            Self::AccessList => "access control lists",
            Self::Permissions => "permissions",
            Self::Times => "times",
        }
    }

    /// Whether this is what only root may set: then it is fine to lack it without an owner.
    fn needs_privilege(self) -> bool {
        match self {
            Self::Owner
            | Self::SetId
            | Self::Device
            | Self::Trusted
            | Self::Security
            | Self::Project
            | Self::Flags => true,
            Self::User | Self::AccessList | Self::Permissions | Self::Times => false,
        }
    }
}

/// What could not be set, counted by kind: a line for each file would bury everything else.
pub(super) struct Shortfalls {
    ignores_owner: bool,
    kinds: Vec<Shortfall>,
}

struct Shortfall {
    lack: Lack,
    /// Files, however much each of them lacks.
    count: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Shortfalls {
    pub(super) fn new(ignores_owner: bool) -> Self {
        Self { ignores_owner, kinds: Vec::new() }
    }

    /// Notes what the file `path` lacks.
    pub(super) fn note(&mut self, lack: Lack, path: &[u8]) {
        if self.ignores_owner && lack.needs_privilege() {
            return;
        }
        match self.kinds.iter_mut().find(|shortfall| shortfall.lack == lack) {
            Some(shortfall) if shortfall.last == path => {}
            Some(shortfall) => {
                shortfall.count += 1;
                shortfall.last = path.to_vec();
            }
            None => {
                let (first, last) = (path.to_vec(), path.to_vec());
                self.kinds.push(Shortfall { lack, count: 1, first, last });
            }
        }
    }

    /// Notes an error, unless there is none.
    fn check(&mut self, result: Result<(), Errno>, lack: Lack, path: &[u8]) -> bool {
        if result.is_err() {
            self.note(lack, path);
        }
        result.is_ok()
    }

    /// All of it as one failure, if there is anything.
    pub(super) fn into_failure(self) -> Option<Failure> {
        if self.kinds.is_empty() {
            return None;
        }
        let describe = |Shortfall { lack, count, first, .. }: &Shortfall| {
            let (name, first) = (lack.name(), names::in_message(first));
            match count {
                1 => format!("{name} (of {first})"),
                _ => format!("{name} (of {count} files, the first is {first})"),
            }
        };
        let parts: Vec<String> = self.kinds.iter().map(describe).collect();
        let message = format!("could not be set: {}", parts.join("; "));
        let failure = Failure::new(Exit::Failed, message);
        Some(match self.kinds.iter().all(|shortfall| shortfall.lack.needs_privilege()) {
            true if rustix::process::geteuid().is_root() => failure.hint(
                "root may not here (a user namespace, a mount option, or a server): --ignore-owner says that \
                 this is no matter",
            ),
            true => failure.hint("run it as root, or say --ignore-owner where that is no matter"),
            false => failure,
        })
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
    let has_owner = notes.check(rustix::fs::fchown(file, uid, gid), Lack::Owner, path);
    for attribute in source.attributes().into_iter().flatten() {
        let name = OsStr::from_bytes(&attribute.name);
        let set = rustix::fs::fsetxattr(file, name, &attribute.value, XattrFlags::empty());
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    let mode = permitted_mode(facts, has_owner, (path, notes));
    notes.check(rustix::fs::fchmod(file, mode), Lack::Permissions, path);
    set_project(file, facts, (path, notes));
    notes.check(rustix::fs::futimens(file, &times(facts)), Lack::Times, path);
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
    let has_owner = notes.check(owned, Lack::Owner, path);
    for attribute in source.attributes().into_iter().flatten() {
        let key = OsStr::from_bytes(&attribute.name);
        // There is no call that takes a directory and a name (before Linux 6.13), and no /proc in the sandbox.
        // Nothing else in this process goes by the working directory.
        let set = rustix::process::fchdir(directory)
            .and_then(|()| rustix::fs::lsetxattr(name, key, &attribute.value, XattrFlags::empty()));
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    if facts.kind() != FileKind::Symlink {
        let mode = permitted_mode(facts, has_owner, (path, notes));
        // The draft was just made and is no link, so following would change nothing.
        let set = rustix::fs::chmodat(directory, name, mode, AtFlags::empty());
        notes.check(set, Lack::Permissions, path);
    }
    let set = rustix::fs::utimensat(directory, name, &times(facts), AtFlags::SYMLINK_NOFOLLOW);
    notes.check(set, Lack::Times, path);
    // A project takes an open file, and none of these can be opened.
    if facts.project != 0 {
        notes.note(Lack::Project, path);
    }
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
        notes.note(Lack::SetId, path);
        mode &= !SET_ID;
    }
    Mode::from_raw_mode(mode)
}

fn attribute_kind(name: &[u8]) -> Lack {
    match name.split(|&byte| byte == b'.').next() {
        Some(b"user") => Lack::User,
        Some(b"trusted") => Lack::Trusted,
        Some(b"security") => Lack::Security,
        _ => Lack::AccessList,
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

fn set_project(file: BorrowedFd<'_>, facts: &Facts, (path, notes): Notes<'_>) {
    if facts.project != 0 {
        let set = project::set(file, facts.project, facts.xflags);
        notes.check(set, Lack::Project, path);
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
    notes.check(set, Lack::Flags, path);
}
