//! Setting owners, permissions, times, extended attributes and flags of files on the host.
//!
//! The order matters. A change of owner clears set-uid bits and capabilities, so the owner is set
//! first. An ACL changes the permissions of the group, so the mode is set after the ACL. Every
//! change alters the times, so the times are set last, except for flags that forbid every further
//! change.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Gid, IFlags, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::directory::StagedEntry;
use super::project;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::Source;
use crate::terminal::names;

/// A kind of property that could not be set for a file on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
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

impl Property {
    fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::SetId => "set-uid and set-gid bits",
            Self::Device => "device files",
            Self::Trusted => "trusted attributes",
            Self::Security => "security attributes",
            Self::Project => "project id",
            Self::Flags => "flags (immutable, append-only and similar)",
            Self::User => "user attributes",
            Self::AccessList => "access control lists",
            Self::Permissions => "permissions",
            Self::Times => "times",
        }
    }

    /// Returns whether only root may set the property. Other users expect such a property to be
    /// missing.
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

/// Properties that could not be set, counted by kind. One message for each kind is enough: a
/// message for each file would hide all other output.
pub(super) struct Shortfalls {
    ignores_owner: bool,
    kinds: Vec<Shortfall>,
}

struct Shortfall {
    lack: Property,
    /// The number of files that lack this property.
    count: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Shortfalls {
    pub(super) fn new(ignores_owner: bool) -> Self {
        Self { ignores_owner, kinds: Vec::new() }
    }

    /// Records that the file at `path` lacks a property.
    pub(super) fn note(&mut self, lack: Property, path: &[u8]) {
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

    /// Records that the file at `path` lacks a property, if the `result` of setting it is an error.
    /// Returns whether the property was set.
    fn check(&mut self, result: Result<(), Errno>, lack: Property, path: &[u8]) -> bool {
        if result.is_err() {
            self.note(lack, path);
        }
        result.is_ok()
    }

    /// Returns one failure for all properties that could not be set; `None` if all were set.
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
                "root must not set them here (a user namespace, a mount option, or a server): \
             --ignore-owner ignores this",
            ),
            true => failure.hint("run the command as root, or ignore this with --ignore-owner"),
            false => failure,
        })
    }
}

/// The path of a file whose properties are being set, and the record of those that could not be
/// set.
pub(super) struct AttributeNotes<'a> {
    /// The path of the file.
    pub(super) path: &'a [u8],
    pub(super) shortfalls: &'a mut Shortfalls,
}

/// Sets all properties of an open file or directory, except the inode flags.
pub(super) fn apply_to_open<S: Source>(
    file: impl AsFd,
    source: &S,
    facts: &Facts,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) {
    let file = file.as_fd();
    let (uid, gid) = owner(facts);
    let has_owner = notes.check(rustix::fs::fchown(file, uid, gid), Property::Owner, path);
    for attribute in source.attributes().into_iter().flatten() {
        let name = OsStr::from_bytes(&attribute.name);
        let set = rustix::fs::fsetxattr(file, name, &attribute.value, XattrFlags::empty());
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    let mode = permitted_mode(facts, has_owner, AttributeNotes { path, shortfalls: notes });
    notes.check(rustix::fs::fchmod(file, mode), Property::Permissions, path);
    set_project(file, facts, AttributeNotes { path, shortfalls: notes });
    notes.check(rustix::fs::futimens(file, &times(facts)), Property::Times, path);
}

/// Sets all properties of a file that cannot be opened: a symbolic link, device, pipe or socket.
pub(super) fn apply_by_name<S: Source>(
    staged: &StagedEntry<'_>,
    source: &S,
    facts: &Facts,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) {
    let (directory, name) = staged.place();
    let (uid, gid) = owner(facts);
    let owned = rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
    let has_owner = notes.check(owned, Property::Owner, path);
    for attribute in source.attributes().into_iter().flatten() {
        let key = OsStr::from_bytes(&attribute.name);
        // Before Linux 6.13 no call takes a directory and a name, and the sandbox has no /proc.
        // Nothing else in this process uses the working directory.
        let set = rustix::process::fchdir(directory)
            .and_then(|()| rustix::fs::lsetxattr(name, key, &attribute.value, XattrFlags::empty()));
        notes.check(set, attribute_kind(&attribute.name), path);
    }
    if facts.kind() != FileKind::Symlink {
        let mode = permitted_mode(facts, has_owner, AttributeNotes { path, shortfalls: notes });
        // The staged file was just created and is no link, so following links would change nothing.
        let set = rustix::fs::chmodat(directory, name, mode, AtFlags::empty());
        notes.check(set, Property::Permissions, path);
    }
    let set = rustix::fs::utimensat(directory, name, &times(facts), AtFlags::SYMLINK_NOFOLLOW);
    notes.check(set, Property::Times, path);
    // A project needs an open file, and none of these can be opened.
    if facts.project != 0 {
        notes.note(Property::Project, path);
    }
}

fn owner(facts: &Facts) -> (Option<Uid>, Option<Gid>) {
    // All ones means "unchanged" to the kernel, and is no valid owner.
    let uid = (facts.uid != u32::MAX).then(|| Uid::from_raw(facts.uid));
    let gid = (facts.gid != u32::MAX).then(|| Gid::from_raw(facts.gid));
    (uid, gid)
}

/// Returns the mode for a file. If the owner could not be set, the mode has no set-uid and set-gid
/// bits, because they would grant the rights of another user than the one in the image.
fn permitted_mode(
    facts: &Facts,
    has_owner: bool,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) -> Mode {
    const SET_ID: u32 = 0o6000;
    let mut mode = facts.mode & 0o7777;
    if !has_owner && facts.kind() != FileKind::Directory && mode & SET_ID != 0 {
        notes.note(Property::SetId, path);
        mode &= !SET_ID;
    }
    Mode::from_raw_mode(mode)
}

fn attribute_kind(name: &[u8]) -> Property {
    match name.split(|&byte| byte == b'.').next() {
        Some(b"user") => Property::User,
        Some(b"trusted") => Property::Trusted,
        Some(b"security") => Property::Security,
        _ => Property::AccessList,
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

fn set_project(
    file: BorrowedFd<'_>,
    facts: &Facts,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) {
    if facts.project != 0 {
        let set = project::set(file, facts.project, facts.xflags);
        notes.check(set, Property::Project, path);
    }
}

/// The inode flags that have a meaning outside XFS: pairs of the bit in FS_IOC_FSGETXATTR and the
/// flag in FS_IOC_GETFLAGS.
const FLAGS: [(u32, IFlags); 5] = [
    (0x0000_0008, IFlags::IMMUTABLE),
    (0x0000_0010, IFlags::APPEND),
    (0x0000_0020, IFlags::SYNC),
    (0x0000_0040, IFlags::NOATIME),
    (0x0000_0080, IFlags::NODUMP),
];

/// Returns whether a file of the image has flags to be set on the host.
pub(super) fn has_flags(facts: &Facts) -> bool {
    !flags(facts).is_empty()
}

fn flags(facts: &Facts) -> IFlags {
    let wanted = FLAGS.iter().filter(|(bit, _)| facts.xflags & bit != 0);
    wanted.fold(IFlags::empty(), |flags, (_, flag)| flags | *flag)
}

/// Sets the inode flags of a file. Afterwards an immutable file cannot be changed, renamed or
/// linked.
pub(super) fn apply_flags(
    file: impl AsFd,
    facts: &Facts,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) {
    let (file, flags) = (file.as_fd(), flags(facts));
    let set = rustix::fs::ioctl_getflags(file)
        .and_then(|before| rustix::fs::ioctl_setflags(file, before | flags));
    notes.check(set, Property::Flags, path);
}

/// Notes that the inode flags of a file could not be set, because the file could not be opened
/// again.
pub(super) fn note_flags_missing(
    error: Errno,
    AttributeNotes { path, shortfalls: notes }: AttributeNotes<'_>,
) {
    notes.check(Err(error), Property::Flags, path);
}
