//! Namespaces that hide the host.
//!
//! Owns: creating and entering these namespaces, also for users who are not root. Does **not** own:
//! the choice of the threads that enter them.
//!
//! A mount namespace with an empty root hides the file names of the host. Landlock alone would not
//! be enough: it does not stop a process from reading the facts of a file by its name, or from
//! changing mode, owner, attributes and times of the file. The other namespaces are a second line
//! of defence: they hide things that the filter of system calls already makes unreachable.

#![allow(
    unsafe_code,
    reason = "the table of descriptors can be unshared too, and a borrowed one is exchanged"
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
use crate::cli::options::SandboxWhen;

/// The name of a namespace in /proc/N/ns, the flag to create it, and the type to enter it.
type Kind = (&'static str, UnshareFlags, LinkNameSpaceType);

const MOUNT: Kind = ("mnt", UnshareFlags::NEWNS, LinkNameSpaceType::Mount);
/// Namespaces that only forbid operations that the filter of system calls also forbids. The last
/// one, for the network, takes five times as long to create as the others together. Processes that
/// create network namespaces also wait for each other.
const SECONDARY: [Kind; 4] = [
    ("ipc", UnshareFlags::NEWIPC, LinkNameSpaceType::InterProcessCommunication),
    ("uts", UnshareFlags::NEWUTS, LinkNameSpaceType::HostNameAndNISDomainName),
    ("cgroup", UnshareFlags::NEWCGROUP, LinkNameSpaceType::ControlGroup),
    ("net", UnshareFlags::NEWNET, LinkNameSpaceType::Network),
];

/// The contents of `/` inside the new mount namespace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root<'a> {
    /// The root is an empty, read-only directory.
    Empty,
    /// The root is this directory, with the mounts beneath it. After the change of the root, the
    /// descriptor of the directory no longer leads to directories above it.
    Directory(BorrowedFd<'a>),
    /// The root stays that of the host.
    Same,
}

/// Moves this process into new namespaces. For an empty root, it also creates a user namespace, but
/// only if the user may not create the other namespaces without one: in a user namespace, the
/// process cannot give files to its supplementary groups. A process that connects to `ports` stays
/// in the network namespace.
///
/// # Errors
///
/// Errors of the system; `EPERM` if the user must not create namespaces.
pub(super) fn enter(root: Root<'_>, ports: &[u16]) -> Result<(), Errno> {
    match root {
        Root::Same => unshare_secondary(ports),
        Root::Directory(directory) => {
            // Copied from the mount table of the host, before this process leaves it.
            let tree = copy_of(directory)?;
            unshare(UnshareFlags::NEWNS)?;
            let unshared = unshare_secondary(ports);
            change_root(tree.as_fd())?;
            point_to_root(directory)?;
            unshared
        }
        Root::Empty => match unshare(UnshareFlags::NEWNS) {
            Err(Errno::PERM) => {
                let (user, group) = (geteuid(), getegid());
                unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
                let mapped = map_ids(user.as_raw(), group.as_raw());
                let entered = mapped.and(unshare_secondary(ports)).and(empty_root());
                // The creator of a user namespace has all capabilities in it.
                entered.and(drop_capabilities())
            }
            unshared => unshared.and_then(|()| unshare_secondary(ports).and(empty_root())),
        },
    }
}

/// Creates the namespaces in `SECONDARY`, one by one. If the kernel lacks one of them, the others
/// and the empty root are still created. Returns the first error.
fn unshare_secondary(ports: &[u16]) -> Result<(), Errno> {
    let mut made = Ok(());
    for (_, flag, _) in secondary(ports) {
        made = made.and(unshare(flag));
    }
    made
}

/// Namespaces that threads of a process can enter, although the process itself stays outside.
pub(crate) struct Namespaces {
    links: Result<Vec<(OwnedFd, LinkNameSpaceType)>, Errno>,
    /// The TCP ports to which the threads may connect.
    ports: Vec<u16>,
}

impl Namespaces {
    /// Creates the namespaces if `when` enables the sandbox. Only root can create them, because the
    /// threads of a process cannot have a user namespace of their own. The threads inside may
    /// connect to `ports`.
    pub(crate) fn make(when: SandboxWhen, ports: &[u16]) -> Self {
        let of = |links| Self { links, ports: ports.to_vec() };
        if when == SandboxWhen::Never {
            return of(Err(Errno::PERM));
        }
        let make = || {
            unshare(UnshareFlags::NEWNS)?;
            unshare_secondary(ports)?;
            // Beneath an empty root /proc is gone, so they are opened before.
            let found = secondary(ports)
                .chain([MOUNT])
                .map(|(name, _, kind)| Ok((open(name)?, kind)))
                .collect();
            empty_root().and(found)
        };
        let made = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, make);
            let thread = thread.map_err(|error| errno_of(&error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        of(made)
    }

    /// Returns the TCP ports to which the threads may connect.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Moves this thread into these namespaces.
    ///
    /// # Errors
    ///
    /// Errors of the system; `EPERM` if the user must not create namespaces.
    pub(super) fn join(&self) -> Result<(), Errno> {
        let namespaces = self.links.as_ref().map_err(|errno| *errno)?;
        // From here on, this thread has its own root and working directory.
        unshare(UnshareFlags::FS)?;
        namespaces
            .iter()
            .try_for_each(|(link, kind)| move_into_link_name_space(link.as_fd(), Some(*kind)))
    }
}

/// Returns the namespaces in `SECONDARY` that are needed. The network namespace is not needed if
/// there is a filter of system calls, and must not be entered by a process that connects to
/// `ports`.
fn secondary(ports: &[u16]) -> impl Iterator<Item = Kind> {
    let has_network = HAS_FILTER || !ports.is_empty();
    SECONDARY.into_iter().filter(move |(name, ..)| !has_network || *name != "net")
}

fn open(name: &str) -> Result<OwnedFd, Errno> {
    let link = File::open(format!("/proc/thread-self/ns/{name}")).map_err(|e| errno_of(&e))?;
    Ok(link.into())
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: no caller in this file names the table of descriptors, so all threads continue to
    // share it.
    unsafe { unshare_unsafe(flags) }
}

/// Maps the user and group of this process to themselves in its user namespace. No other ids are
/// mapped.
fn map_ids(user: u32, group: u32) -> Result<(), Errno> {
    let write = |name: &str, text: String| {
        std::fs::write(format!("/proc/self/{name}"), text).map_err(|error| errno_of(&error))
    };
    write("uid_map", format!("{user} {user} 1"))?;
    // A process that could leave a group might reach files that are closed to that group.
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("{group} {group} 1"))
}

fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Copies a directory and the mounts beneath it to a detached mount, which can be mounted
/// elsewhere.
fn copy_of(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(directory, "", flags)
}

/// Replaces the root of this mount namespace with an empty directory.
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

/// Replaces the root with a detached mount, and removes everything else from this mount namespace.
fn change_root(root: BorrowedFd<'_>) -> Result<(), Errno> {
    // Mounts and unmounts here must not propagate to other namespaces.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    move_mount(root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    fchdir(root)?;
    // The old root is stacked over the new one, and is then unmounted.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Makes the descriptor of the directory that is now the root lead to that root. Until this call,
/// it leads to the place where the directory was mounted before.
fn point_to_root(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    // SAFETY: the descriptor is open as long as it is borrowed, and it is not closed here. The
    // lender keeps the same number, which afterwards refers to the same directory.
    let mut lent = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(directory.as_raw_fd()) });
    dup3(root, &mut lent, DupFlags::CLOEXEC)
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
