//! Mounting and unmounting: by the system call where we may, else through fusermount3.
//!
//! Owns: getting a connection that is mounted somewhere, and getting rid of the mount. Does **not**
//! own: serving it.

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

/// The type that `mount` and /proc/mounts show, and its second part.
pub(super) const TYPE: &str = "fuse.ferroxfs";
const SUBTYPE: &str = "ferroxfs";
/// The program with the right to mount that an ordinary user lacks.
const FUSERMOUNT: &str = "fusermount3";
/// Tells it the socket over which it is to send the connection.
const FUSERMOUNT_SOCKET: &str = "_FUSE_COMMFD";
/// A mount point of this form names a connection that is open and mounted already.
const DESCRIPTOR_PREFIX: &str = "/dev/fd/";

/// Asks for the number of a mount that is never used again (Linux 6.8); an older kernel takes no notice.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// What the kernel is told of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFacts {
    /// What `df` shows as the device.
    pub source: PathBuf,
    /// Nothing is written.
    pub read_only: bool,
    /// Other users than the one who mounts may use it.
    pub allow_other: bool,
    /// Set-ID bits count.
    pub suid: bool,
    /// Device files are devices.
    pub dev: bool,
    /// Programs may be executed.
    pub exec: bool,
    /// Symbolic links are followed.
    pub symlinks: bool,
}

/// Where a volume is mounted.
#[derive(Debug)]
pub(crate) struct MountPoint {
    /// Empty where somebody else has mounted it.
    mounted: Option<MountedFolder>,
}

/// A folder, and the mount on it that is ours.
#[derive(Clone, Debug)]
struct MountedFolder {
    folder: PathBuf,
    /// Tells our mount from another.
    mount: u64,
}

impl MountPoint {
    /// Mounts a new connection.
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
            // Nobody would serve it.
            let _ = unmount(&folder, Unmount::WhenUnused);
            MountError::MountPoint { path: folder.clone(), source: errno.into() }
        })?;
        Ok((device, Self { mounted: Some(MountedFolder { folder, mount }) }))
    }

    /// The root of the mount, which is in use while that is held. `None` where somebody else has mounted it.
    pub(crate) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(MountedFolder { folder, mount }) = &self.mounted else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, flags, Mode::empty())?;
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH;
        let found = statx(&root, "", flags, StatxFlags::MNT_ID | STATX_MNT_ID_UNIQUE)?;
        if found.stx_mnt_id == *mount { Ok(Some(root)) } else { Err(Errno::INVAL.into()) }
    }

    /// Whether it is still mounted there.
    pub(crate) fn is_there(&self) -> bool {
        let is_ours = |MountedFolder { folder, mount }: &MountedFolder| {
            mount_number(folder).ok() == Some(*mount)
        };
        self.mounted.as_ref().is_some_and(is_ours)
    }

    /// What has another process unmount it, for when this one ends at once.
    pub(crate) fn cleaner(&self) -> Box<dyn Fn() + Send> {
        let mounted = self.mounted.clone();
        Box::new(move || {
            if let Some(mounted) = &mounted {
                mounted.unmount_from_elsewhere();
            }
        })
    }

    /// Unmounts, but not what somebody else has mounted on the folder since: that is EINVAL.
    pub(crate) fn unmount(&self, when: Unmount) -> io::Result<()> {
        let Some(MountedFolder { folder, mount }) = &self.mounted else { return Ok(()) };
        if mount_number(folder)? != *mount {
            return Err(Errno::INVAL.into());
        }
        unmount(folder, when)
    }
}

impl MountedFolder {
    /// Has another process unmount it, and does not wait for that: unmounting waits for whoever serves, and that is
    /// this process, which ends.
    fn unmount_from_elsewhere(&self) {
        let Self { folder, mount } = self;
        if mount_number(folder).ok() != Some(*mount) {
            return;
        }
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("umount");
            // No helper of ours, which would look at what is mounted there.
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
            tracing::warn!(%error, "what is mounted cannot be cleared away");
        }
    }
}

/// How to unmount what is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Not at all.
    Now,
    /// It leaves the tree at once, and goes when nobody uses it any more.
    WhenUnused,
}

/// Unmounts what is mounted on a folder, or where a symbolic link leads.
///
/// # Errors
///
/// EBUSY for what is in use, EINVAL for a folder on which nothing is mounted; what fusermount3 says.
pub fn unmount(folder: &Path, when: Unmount) -> io::Result<()> {
    // Neither way follows a link at the end. Whoever serves is not asked for this.
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
    if output.status.success() { Ok(()) } else { Err(io::Error::other(said(&output.stderr))) }
}

/// Sets anew what may be done on a mount: write, and use devices, programs and their set-ID bits. What its
/// server was started with stays.
///
/// # Errors
///
/// EPERM for who is not root, EBUSY for a mount with files open for writing that is not to be written any more.
pub fn remount(folder: &Path, facts: &MountFacts) -> io::Result<()> {
    Ok(rustix::mount::mount_remount(folder, flags(facts), c"")?)
}

fn inherited_number(folder: &Path) -> Option<i32> {
    folder.to_str()?.strip_prefix(DESCRIPTOR_PREFIX)?.parse().ok()
}

/// The number of the mount on a folder, which no other mount ever gets; before Linux 6.8 one that no other
/// has at the same time. Whoever serves it is not asked.
fn mount_number(folder: &Path) -> Result<u64, Errno> {
    let wanted = StatxFlags::MNT_ID | STATX_MNT_ID_UNIQUE;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    Ok(statx(CWD, folder, flags, wanted)?.stx_mnt_id)
}

/// The folder by its full path: we leave the current directory later.
fn check_folder(folder: &Path) -> Result<PathBuf, MountError> {
    let failed = |source| MountError::MountPoint { path: folder.to_owned(), source };
    let full = folder.canonicalize().map_err(failed)?;
    let metadata = std::fs::metadata(&full).map_err(failed)?;
    if !metadata.is_dir() {
        return Err(failed(Errno::NOTDIR.into()));
    }
    Ok(full)
}

/// Whether something is mounted on a folder already, which another mount would hide. Whoever serves that
/// is not asked.
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
    // The program inherits it. There is no other thread yet that could start one as well.
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
        return Err(MountError::Helper { said: said(&output.stderr) });
    }
    received.map(Device::received).map_err(failed)
}

/// The option by which the kernel checks, with the comma before it.
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
    // What separates options has to be told from what is part of one.
    for byte in facts.source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            options.push("\\");
        }
        options.push(OsStr::from_bytes(&[*byte]));
    }
    options
}

/// The descriptor that comes over a socket.
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

/// What a program has printed, on one line.
fn said(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests;
