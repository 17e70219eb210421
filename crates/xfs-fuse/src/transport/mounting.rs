//! Mounting and unmounting: by the system call as root, otherwise through fusermount3.
//!
//! Owns: creating a mounted connection, and removing the mount. Does **not** own: serving the
//! connection.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use super::device::Device;
use crate::{Checks, MountError};

/// The filesystem type, with the subtype, that `mount` and /proc/mounts show.
pub(super) const TYPE: &str = "fuse.ferroxfs";
const SUBTYPE: &str = "ferroxfs";
/// The name of the set-user-ID program that mounts for ordinary users.
const FUSERMOUNT: &str = "fusermount3";
/// Environment variable that names the socket over which fusermount3 must send the connection.
const FUSERMOUNT_SOCKET: &str = "_FUSE_COMMFD";
/// Prefix of a mount point that names no folder, but the descriptor of a connection that another
/// program has opened and mounted.
const DESCRIPTOR_PREFIX: &str = "/dev/fd/";

/// Flag of statx that requests a mount ID that is never reused (Linux 6.8). Older kernels ignore
/// it.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The attributes of a mount that are passed to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFacts {
    /// The image or device that `df` shows as the source.
    pub source: PathBuf,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether users other than the mounting one may use the mount.
    pub allow_other: bool,
    /// Whether set-ID bits are honoured.
    pub suid: bool,
    /// Whether device files are usable.
    pub dev: bool,
    /// Whether programs may be executed.
    pub exec: bool,
    /// Whether symbolic links are followed.
    pub symlinks: bool,
}

/// The mount point of a volume.
#[derive(Debug)]
pub(crate) struct MountPoint {
    /// The folder on which this process has mounted the volume. `None` if another program has
    /// mounted it.
    mounted: Option<MountedFolder>,
}

/// A folder, and the ID of the mount that this process has made on it.
#[derive(Clone, Debug)]
struct MountedFolder {
    folder: PathBuf,
    /// The ID of the mount, which distinguishes it from other mounts on the same folder.
    mount: u64,
}

impl MountPoint {
    /// Opens a connection and mounts it on `folder`.
    pub(crate) fn mount(
        folder: &Path,
        facts: &MountFacts,
        checks: Checks,
    ) -> Result<(Device, Self), MountError> {
        if let Some(number) = inherited_number(folder) {
            if checks == Checks::Server {
                return Err(MountError::TakenOver);
            }
            let failed = |source| MountError::MountPoint { path: folder.to_owned(), source };
            let device = Device::inherited(number).map_err(failed)?;
            return Ok((device, Self { mounted: None }));
        }
        let folder = check_folder(folder)?;
        let device = if rustix::process::geteuid().is_root() {
            mount_directly(&folder, facts, checks)?
        } else {
            mount_through_helper(&folder, facts, checks)?
        };
        let mount = mount_number(&folder).map_err(|errno| {
            // No worker would serve this mount.
            let _ = unmount(&folder, Unmount::WhenUnused);
            MountError::MountPoint { path: folder.clone(), source: errno.into() }
        })?;
        Ok((device, Self { mounted: Some(MountedFolder { folder, mount }) }))
    }

    /// Opens the root of the mount, which keeps the mount in use. Returns `None` if another program
    /// has made the mount.
    pub(crate) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(MountedFolder { folder, mount }) = &self.mounted else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, flags, Mode::empty())?;
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH;
        let found = statx(&root, "", flags, StatxFlags::MNT_ID | STATX_MNT_ID_UNIQUE)?;
        if found.stx_mnt_id == *mount { Ok(Some(root)) } else { Err(Errno::INVAL.into()) }
    }

    /// Returns whether the mount still exists.
    pub(crate) fn is_mounted(&self) -> bool {
        let is_ours = |MountedFolder { folder, mount }: &MountedFolder| {
            mount_number(folder).ok() == Some(*mount)
        };
        self.mounted.as_ref().is_some_and(is_ours)
    }

    /// Returns the function that the caller runs before this process aborts. The function starts
    /// another process, which unmounts.
    pub(crate) fn cleaner(&self) -> Box<dyn Fn() + Send> {
        let mounted = self.mounted.clone();
        Box::new(move || {
            if let Some(mounted) = &mounted {
                mounted.unmount_from_elsewhere();
            }
        })
    }

    /// Unmounts the mount of this process. Returns EINVAL, and unmounts nothing, if another
    /// filesystem has been mounted on the folder since.
    pub(crate) fn unmount(&self, when: Unmount) -> io::Result<()> {
        let Some(MountedFolder { folder, mount }) = &self.mounted else { return Ok(()) };
        if mount_number(folder)? != *mount {
            return Err(Errno::INVAL.into());
        }
        unmount(folder, when)
    }
}

impl MountedFolder {
    /// Starts another process that unmounts, and does not wait for that process. Unmounting waits
    /// for answers of the server, which is this process, and this process is ending.
    fn unmount_from_elsewhere(&self) {
        let Self { folder, mount } = self;
        if mount_number(folder).ok() != Some(*mount) {
            return;
        }
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("umount");
            // `-i` skips our own helper, which would look at the mounted volume.
            command.args(["-i", "-l"]);
            command
        } else {
            let mut command = Command::new(FUSERMOUNT);
            command.args(["-u", "-z"]);
            command
        };
        command.arg("--").arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Err(error) = command.spawn() {
            tracing::warn!(%error, "the dead mount cannot be cleared away");
        }
    }
}

/// How to unmount a mount that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// If the mount is in use, it stays, and unmounting returns an error.
    Now,
    /// The mount leaves the directory tree at once, and ends when no program uses it any more.
    WhenUnused,
}

/// Unmounts a folder. A symbolic link is followed.
///
/// # Errors
///
/// EBUSY if the mount is in use, EINVAL if nothing is mounted on the folder, or the message of
/// fusermount3.
pub fn unmount(folder: &Path, when: Unmount) -> io::Result<()> {
    // Neither way of unmounting follows a link at the end. This call asks the server nothing.
    let folder = folder.canonicalize()?;
    if rustix::process::geteuid().is_root() {
        let flags = match when {
            Unmount::Now => UnmountFlags::NOFOLLOW,
            Unmount::WhenUnused => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        };
        return Ok(rustix::mount::unmount(&folder, flags)?);
    }
    let mut command = Command::new(FUSERMOUNT);
    command.arg("-u").args((when == Unmount::WhenUnused).then_some("-z")).arg("--").arg(&folder);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() { Ok(()) } else { Err(io::Error::other(error_text(&output.stderr))) }
}

/// Changes the flags of a mount: read-only, and the use of devices, programs and set-ID bits. The
/// options of the mount's server do not change.
///
/// # Errors
///
/// EPERM unless the caller is root. EBUSY if the mount is to become read-only and a file is open
/// for writing.
pub fn remount(folder: &Path, facts: &MountFacts) -> io::Result<()> {
    Ok(rustix::mount::mount_remount(folder, flags(facts), c"")?)
}

fn inherited_number(folder: &Path) -> Option<i32> {
    folder.to_str()?.strip_prefix(DESCRIPTOR_PREFIX)?.parse().ok()
}

/// Returns the ID of the mount on a folder, without a request to its server. From Linux 6.8 on, the
/// ID is never reused. Older kernels may reuse it after the mount has ended.
fn mount_number(folder: &Path) -> Result<u64, Errno> {
    let wanted = StatxFlags::MNT_ID | STATX_MNT_ID_UNIQUE;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    Ok(statx(CWD, folder, flags, wanted)?.stx_mnt_id)
}

/// Returns the absolute path of a folder on which to mount. The path must be absolute because the
/// process leaves its current directory later.
fn check_folder(folder: &Path) -> Result<PathBuf, MountError> {
    let failed = |source| MountError::MountPoint { path: folder.to_owned(), source };
    let full = folder.canonicalize().map_err(failed)?;
    let metadata = std::fs::metadata(&full).map_err(failed)?;
    if !metadata.is_dir() {
        return Err(failed(Errno::NOTDIR.into()));
    }
    Ok(full)
}

/// Returns whether a filesystem is mounted on the folder, so that another mount would hide it.
/// Sends no request to the server of that filesystem.
#[must_use]
pub fn is_mount_point(folder: &Path) -> bool {
    let Ok(full) = folder.canonicalize() else { return false };
    let Some(above) = full.parent() else { return false };
    matches!((mount_number(&full), mount_number(above)), (Ok(own), Ok(above)) if own != above)
}

fn mount_directly(folder: &Path, facts: &MountFacts, checks: Checks) -> Result<Device, MountError> {
    let device = Device::open()?;
    let mut options = format!(
        "fd={},rootmode=40000,user_id={},group_id={}{}",
        device.as_fd().as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        option_of(checks),
    );
    if facts.allow_other {
        options.push_str(",allow_other");
    }
    let failed = |source| MountError::MountPoint { path: folder.to_owned(), source };
    let options = CString::new(options).map_err(|_| failed(Errno::INVAL.into()))?;
    rustix::mount::mount(&facts.source, folder, TYPE, flags(facts), options.as_c_str())
        .map_err(|errno| failed(errno.into()))?;
    Ok(device)
}

fn flags(facts: &MountFacts) -> MountFlags {
    let mut flags = MountFlags::empty();
    for (flag, is_set) in [
        (MountFlags::RDONLY, facts.read_only),
        (MountFlags::NOSUID, !facts.suid),
        (MountFlags::NODEV, !facts.dev),
        (MountFlags::NOEXEC, !facts.exec),
        (MountFlags::NOSYMFOLLOW, !facts.symlinks),
    ] {
        flags.set(flag, is_set);
    }
    flags
}

fn mount_through_helper(
    folder: &Path,
    facts: &MountFacts,
    checks: Checks,
) -> Result<Device, MountError> {
    let privileged = [("suid", facts.suid), ("dev", facts.dev), ("nosymfollow", !facts.symlinks)];
    for (option, is_set) in privileged {
        if is_set {
            return Err(MountError::Privileged { option });
        }
    }
    let failed = |source: io::Error| MountError::Helper { said: source.to_string() };
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(errno.into()))?;
    // The program inherits the socket. There is no other thread yet that could start a program as
    // well.
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let mut command = Command::new(FUSERMOUNT);
    command
        .arg("-o")
        .arg(helper_options(facts, checks))
        .arg("--")
        .arg(folder)
        .env(FUSERMOUNT_SOCKET, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|source| MountError::NoHelper { source })?;
    drop(theirs);
    let received = receive(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(MountError::Helper { said: error_text(&output.stderr) });
    }
    received.map(Device::received).map_err(failed)
}

/// Returns the mount option that makes the kernel check permissions, with a leading comma. The text
/// is empty if the server checks them.
fn option_of(checks: Checks) -> &'static str {
    match checks {
        Checks::Kernel => ",default_permissions",
        Checks::Server => "",
    }
}

fn helper_options(facts: &MountFacts, checks: Checks) -> OsString {
    let mut options = OsString::from(if facts.read_only { "ro" } else { "rw" });
    options.push(",nosuid,nodev");
    options.push(option_of(checks));
    options.push(",subtype=");
    options.push(SUBTYPE);
    for (option, is_set) in [(",noexec", !facts.exec), (",allow_other", facts.allow_other)] {
        options.push(if is_set { option } else { "" });
    }
    options.push(",fsname=");
    // Escape the separators of options in the source.
    for byte in facts.source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            options.push("\\");
        }
        options.push(OsStr::from_bytes(&[*byte]));
    }
    options
}

/// Receives a descriptor over a socket.
fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)
    })?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| Errno::NOTCONN.into())
}

/// Returns the output of a program as one line, for an error message.
fn error_text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests;
