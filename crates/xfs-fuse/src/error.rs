//! Errors of mounting a volume.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// The reason why a volume could not be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The machine has no FUSE device, or denies access to it.
    #[error("/dev/fuse: {source}")]
    NoDevice {
        /// The error of opening the device.
        source: io::Error,
    },
    /// fusermount3 could not be started.
    #[error("fusermount3: {source}")]
    NoHelper {
        /// The error of starting fusermount3.
        source: io::Error,
    },
    /// fusermount3 failed.
    #[error("{said}")]
    Helper {
        /// The error message of fusermount3.
        said: String,
    },
    /// The mount point cannot be used.
    #[error("{source}")]
    MountPoint {
        /// Path of the mount point.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// An ordinary user requested an option that only root may use.
    #[error("{option}: only root may mount with this option")]
    Privileged {
        /// The name of the option.
        option: &'static str,
    },
    /// The kernel's FUSE protocol is too old.
    #[error("this kernel speaks version {major}.{minor} of FUSE; 7.36 (Linux 5.17) is needed")]
    OldKernel {
        /// Major version of the kernel's FUSE protocol.
        major: u32,
        /// Minor version of the kernel's FUSE protocol.
        minor: u32,
    },
    /// io_uring was requested, but the kernel's FUSE does not support it or has it disabled.
    #[error("io_uring: this kernel's FUSE does not offer it")]
    NoRings,
    /// io_uring was requested, but rings cannot be created.
    #[error("io_uring: {source}")]
    Rings {
        /// The error of creating a ring.
        source: io::Error,
    },
    /// The server must check permissions, but cannot look up the rights of its callers.
    #[error("nodefault_permissions: /proc: {source}")]
    Callers {
        /// The error of opening /proc or of starting the helper thread.
        source: io::Error,
    },
    /// The server must check permissions. But another program has made the mount, and that program
    /// has already chosen whether the kernel or the server checks them.
    #[error("nodefault_permissions: not possible on a connection that another program has mounted")]
    TakenOver,
    /// The connection to the kernel could not be set up, for a reason that has no variant of its
    /// own.
    #[error("the connection to the kernel: {what}: {source}")]
    Failed {
        /// The step or the object that failed.
        what: String,
        /// The error that the system returned.
        source: io::Error,
    },
}

impl MountError {
    /// Returns advice for the user, or `None` if there is none for this error.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoDevice { source } if source.kind() == io::ErrorKind::NotFound => {
                Some("load the kernel's FUSE (modprobe fuse), or give the container its device")
            }
            Self::NoDevice { .. } if rustix::process::geteuid().is_root() => Some(
                "a container or a security module denies root access to /dev/fuse: allow the device there",
            ),
            Self::NoDevice { .. } => Some(DEVICE_RIGHTS),
            Self::NoHelper { source } if source.kind() == io::ErrorKind::NotFound => {
                Some("install fuse3, which ordinary users need to mount")
            }
            Self::NoHelper { .. } => {
                Some("check its permissions: it must belong to root and have the set-user-ID bit")
            }
            Self::Helper { said } if said.contains("user_allow_other") => {
                Some("root must allow that in /etc/fuse.conf, or mount without allow_other")
            }
            Self::Helper { said } if said.contains("/dev/fuse") => Some(DEVICE_RIGHTS),
            Self::NoRings if is_switched_off() && rustix::process::geteuid().is_root() => {
                Some("enable it: echo Y > /sys/module/fuse/parameters/enable_uring")
            }
            Self::NoRings if is_switched_off() => Some(RINGS_ARE_OFF),
            Self::NoRings => {
                Some("it needs Linux 6.14, built with it; on other kernels mount without io_uring")
            }
            Self::Callers { source } if Errno::from_io_error(source) == Some(Errno::NODEV) => {
                Some("mount the /proc of this process namespace (mount -t proc proc /proc)")
            }
            Self::Rings { source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("the setting kernel.io_uring_disabled or the filter of a container forbids it")
            }
            // The last two come from a request that was in progress when the connection ended.
            Self::MountPoint { source, .. }
                if matches!(
                    Errno::from_io_error(source),
                    Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED)
                ) =>
            {
                Some("the server of that mount was killed: `ferroxfs umount` clears the mount away")
            }
            _ => None,
        }
    }
}

/// Returns whether the kernel supports FUSE over io_uring but has it disabled.
fn is_switched_off() -> bool {
    std::fs::read_to_string(RINGS_SWITCH).is_ok_and(|switch| switch.trim() == "N")
}

const DEVICE_RIGHTS: &str = "ask an administrator for read and write access to /dev/fuse";
const RINGS_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
const RINGS_ARE_OFF: &str = "root can enable it: echo Y > /sys/module/fuse/parameters/enable_uring";
