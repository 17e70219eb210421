//! Namespaces in which nothing of the host is to be found.
//!
//! Owns: entering them, and what this takes for who is not root. Does **not** own: who has to be in them.
//!
//! A mount namespace whose root is empty takes away names, of which Landlock leaves more than contents: to
//! look at a file, and to change its mode, owner, attributes and times. What the others hold the filter has no
//! call for; they stand behind it.

#![allow(
    unsafe_code,
    reason = "the table of descriptors can be unshared too, and one is exchanged that somebody has lent"
)]

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{DupFlags, Errno, dup3};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::process::{chdir, fchdir, getegid, geteuid, pivot_root};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, move_into_link_name_space,
    set_capabilities, unshare_unsafe,
};

use super::calls::HAS_FILTER;
use crate::cli::SandboxWhen;

/// How a namespace is called beneath /proc/N/ns, made, and entered.
type Kind = (&'static str, UnshareFlags, LinkNameSpaceType);

const MOUNT: Kind = ("mnt", UnshareFlags::NEWNS, LinkNameSpaceType::Mount);
/// The last one takes five times as long as the others together, and all who make one wait for each other.
const BEHIND_THE_FILTER: [Kind; 4] = [
    ("ipc", UnshareFlags::NEWIPC, LinkNameSpaceType::InterProcessCommunication),
    ("uts", UnshareFlags::NEWUTS, LinkNameSpaceType::HostNameAndNISDomainName),
    ("cgroup", UnshareFlags::NEWCGROUP, LinkNameSpaceType::ControlGroup),
    ("net", UnshareFlags::NEWNET, LinkNameSpaceType::Network),
];

/// What is seen at `/` from inside.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root<'a> {
    /// An empty directory that cannot be written to.
    Empty,
    /// This directory, and what is mounted beneath it. Its descriptor leads to nothing above it any more.
    Directory(BorrowedFd<'a>),
    /// What was seen before.
    Same,
}

/// Moves this process into namespaces of its own. For an empty root it makes a user namespace too where it may
/// make no others without: there, files cannot be given to further groups.
///
/// # Errors
///
/// The system's; `EPERM` where this user may not.
pub(super) fn enter(root: Root<'_>) -> Result<(), Errno> {
    match root {
        Root::Same => unshare_behind(),
        Root::Directory(directory) => {
            // Of what is mounted here, which it is not in there.
            let tree = copy_of(directory)?;
            unshare(UnshareFlags::NEWNS)?;
            let behind = unshare_behind();
            change_root(tree.as_fd())?;
            lead_to_root(directory)?;
            behind
        }
        Root::Empty => match unshare(UnshareFlags::NEWNS) {
            Err(Errno::PERM) => {
                let (user, group) = (geteuid(), getegid());
                unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
                let mapped = map_ids(user.as_raw(), group.as_raw());
                let entered = mapped.and(unshare_behind()).and(empty_root());
                // Whoever makes one has them all in it.
                entered.and(drop_capabilities())
            }
            unshared => unshared.and_then(|()| unshare_behind().and(empty_root())),
        },
    }
}

/// Makes those that stand behind the filter. Each for itself: a kernel may lack one, and that is no reason to
/// do without the others, or to keep the root.
fn unshare_behind() -> Result<(), Errno> {
    let mut made = Ok(());
    for (_, flag, _) in behind_the_filter() {
        made = made.and(unshare(flag));
    }
    made
}

/// Namespaces for threads of a process that stays where it is.
pub(crate) struct Namespaces(Result<Vec<(OwnedFd, LinkNameSpaceType)>, Errno>);

impl Namespaces {
    /// Makes them, where they are wanted. Threads of a process cannot have a user namespace of their own, so these
    /// are root's alone.
    pub(crate) fn make(when: SandboxWhen) -> Self {
        if when == SandboxWhen::Never {
            return Self(Err(Errno::PERM));
        }
        let make = || {
            unshare(UnshareFlags::NEWNS)?;
            unshare_behind()?;
            // Beneath an empty root they are not found any more.
            let found = behind_the_filter().chain([MOUNT]).map(open).collect();
            empty_root().and(found)
        };
        let made = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, make);
            let thread = thread.map_err(|error| errno_of(&error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Self(made)
    }

    /// Moves this thread into them.
    ///
    /// # Errors
    ///
    /// The system's; `EPERM` where this user may not make them.
    pub(super) fn join(&self) -> Result<(), Errno> {
        let namespaces = self.0.as_ref().map_err(|errno| *errno)?;
        // The root and the working directory are this thread's own from here on.
        unshare(UnshareFlags::FS)?;
        namespaces
            .iter()
            .try_for_each(|(link, kind)| move_into_link_name_space(link.as_fd(), Some(*kind)))
    }
}

/// Those that stand behind the filter.
fn behind_the_filter() -> impl Iterator<Item = Kind> {
    BEHIND_THE_FILTER.into_iter().filter(|(name, ..)| !HAS_FILTER || *name != "net")
}

fn open((name, _, kind): Kind) -> Result<(OwnedFd, LinkNameSpaceType), Errno> {
    let link = File::open(format!("/proc/thread-self/ns/{name}")).map_err(|e| errno_of(&e))?;
    Ok((link.into(), kind))
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: no caller in this file names the table of descriptors, so all threads go on sharing it.
    unsafe { unshare_unsafe(flags) }
}

/// Has the ids of this process mean in its user namespace what they mean outside, and no others anything.
fn map_ids(user: u32, group: u32) -> Result<(), Errno> {
    let write = |name: &str, text: String| {
        std::fs::write(format!("/proc/self/{name}"), text).map_err(|error| errno_of(&error))
    };
    write("uid_map", format!("{user} {user} 1"))?;
    // Whoever could leave a group might come to files that are closed to it.
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("{group} {group} 1"))
}

fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// A directory and what is mounted beneath it, to be mounted at another place.
fn copy_of(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(directory, "", flags)
}

/// Puts an empty directory in the place of the root.
fn empty_root() -> Result<(), Errno> {
    let filesystem = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_flag(filesystem.as_fd(), "ro")?;
    fsconfig_create(filesystem.as_fd())?;
    let all = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let root = fsmount(filesystem.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, all)?;
    change_root(root.as_fd())
}

/// Puts what is mounted nowhere in the place of the root, and has this mount namespace lose all else.
fn change_root(root: BorrowedFd<'_>) -> Result<(), Errno> {
    // What is mounted and unmounted here is nobody else's business.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    move_mount(root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    fchdir(root)?;
    // The old root comes to lie over the new one, and goes.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Has a descriptor of the directory that has become the root lead there, and not to where that was mounted.
fn lead_to_root(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    // SAFETY: it is open as long as it is lent, and is not closed here; who has lent it has the same number after
    // this, of the same directory.
    let mut lent = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(directory.as_raw_fd()) });
    dup3(root, &mut lent, DupFlags::CLOEXEC)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
