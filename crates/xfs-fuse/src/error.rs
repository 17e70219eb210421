//! Why a volume could not be mounted.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// Why a volume could not be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The machine has no FUSE, or does not let us use it.
    #[error("/dev/fuse: {source}")]
    NoDevice {
        /// What opening it gave.
        source: io::Error,
    },
    /// fusermount3 could not be started.
    #[error("fusermount3: {source}")]
    NoHelper {
        /// What starting it gave.
        source: io::Error,
    },
    /// fusermount3 did not mount.
    #[error("{said}")]
    Helper {
        /// What it printed.
        said: String,
    },
    /// Nothing can be mounted there.
    #[error("{source}")]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What the system call gave.
        source: io::Error,
    },
    /// Only root may mount so, and an ordinary user asks for it.
    #[error("{option}: only root may mount with this option")]
    Privileged {
        /// The option.
        option: &'static str,
    },
    /// The kernel's FUSE is too old.
    #[error("this kernel speaks version {major}.{minor} of FUSE; 7.36 (Linux 5.17) is needed")]
    OldKernel {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// Rings are asked for, and the kernel's FUSE has none, or does not give them.
    #[error("io_uring: this kernel's FUSE does not offer it")]
    NoRings,
    /// Rings are asked for, and cannot be made.
    #[error("io_uring: {source}")]
    Rings {
        /// What the system gave.
        source: io::Error,
    },
    /// The server is to check permissions, and cannot see who asks.
    #[error("nodefault_permissions: /proc: {source}")]
    Callers {
        /// What the system gave.
        source: io::Error,
    },
    /// The server is to check permissions of what another program has mounted.
    #[error("nodefault_permissions: who checks is said by the program that has mounted this")]
    TakenOver,
    /// Something else that a connection needs.
    #[error("the connection to the kernel: {what}: {source}")]
    Failed {
        /// What it was about.
        what: String,
        /// What the system gave.
        source: io::Error,
    },
}

impl MountError {
    /// What the user can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoDevice { source } if source.kind() == io::ErrorKind::NotFound => {
                Some("load the kernel's FUSE (modprobe fuse), or give the container its device")
            }
            Self::NoDevice { .. } if rustix::process::geteuid().is_root() => Some(
                "a container, or a security module, keeps root from /dev/fuse: have it allow that device",
            ),
            Self::NoDevice { .. } => Some(DEVICE_RIGHTS),
            Self::NoHelper { source } if source.kind() == io::ErrorKind::NotFound => {
                Some("install fuse3, through which an ordinary user mounts")
            }
            Self::NoHelper { .. } => Some(
                "its permissions say who may start it: it belongs to root, with the set-user-ID bit",
            ),
            Self::Helper { said } if said.contains("user_allow_other") => {
                Some("root has to allow that in /etc/fuse.conf; without allow_other it is allowed")
            }
            Self::Helper { said } if said.contains("/dev/fuse") => Some(DEVICE_RIGHTS),
            Self::NoRings if is_switched_off() && rustix::process::geteuid().is_root() => {
                Some("switch it on: echo Y > /sys/module/fuse/parameters/enable_uring")
            }
            Self::NoRings if is_switched_off() => Some(RINGS_ARE_OFF),
            Self::NoRings => {
                Some("Linux 6.14 has it, where it was built with it; others mount without")
            }
            Self::Callers { source } if Errno::from_io_error(source) == Some(Errno::NODEV) => {
                Some("mount the /proc of this process namespace (mount -t proc proc /proc)")
            }
            Self::Rings { source } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("the setting kernel.io_uring_disabled or a container's filter forbids it")
            }
            // The others come to a request that was under way when the connection ended.
            Self::MountPoint { source, .. }
                if matches!(
                    Errno::from_io_error(source),
                    Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED)
                ) =>
            {
                Some("who served what is mounted there was killed: ferroxfs umount clears it away")
            }
            _ => None,
        }
    }
}

/// Whether the kernel has rings, and does not offer them.
fn is_switched_off() -> bool {
    std::fs::read_to_string(RINGS_SWITCH).is_ok_and(|switch| switch.trim() == "N")
}

const DEVICE_RIGHTS: &str = "ask for the right to read and write /dev/fuse";
const RINGS_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
const RINGS_ARE_OFF: &str =
    "root can switch it on: echo Y > /sys/module/fuse/parameters/enable_uring";
