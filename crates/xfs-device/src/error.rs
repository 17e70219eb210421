//! Why a device could not be opened: the path, what failed, and what to do about it.
//!
//! Does **not** own failures of reads and writes on an open device: those are plain
//! [`io::Error`]s, as the trait says.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::Access;
use crate::signature::Contents;
use crate::usage::Usage;

/// A device that could not be opened.
#[derive(Debug)]
pub struct DeviceError {
    path: PathBuf,
    failure: DeviceFailure,
}

/// What stood in the way.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceFailure {
    /// The host refused to open it.
    Open(io::Error),
    /// It is a block device that takes no writes.
    #[doc(alias = "BLKROGET")]
    WriteProtected,
    /// It is neither a regular file nor a block device, but this.
    NotADevice(&'static str),
    /// Its length or sector size could not be found out.
    Measure(io::Error),
    /// Another program holds a lock that this access conflicts with.
    Locked(Access),
    /// The host could not lock it.
    Lock(io::Error),
    /// Somebody else uses it: it is mounted, or another device is made of it.
    InUse(Usage, Access),
    /// The kernel will not give it exclusively, and does not say to whom it belongs.
    Busy,
    /// It is a disk image in a format that cannot be opened like this.
    ForeignImage(Contents, Access),
    /// It is a disk image that could not be opened as one.
    Image(io::Error),
}

impl DeviceError {
    /// Says that `failure` kept the device at `path` from being opened.
    #[must_use]
    pub fn new(path: &Path, failure: DeviceFailure) -> Self {
        Self { path: path.to_owned(), failure }
    }

    /// The path that was to be opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stood in the way.
    #[must_use]
    pub fn failure(&self) -> &DeviceFailure {
        &self.failure
    }

    /// What stood in the way, without the path.
    #[must_use]
    pub fn into_failure(self) -> DeviceFailure {
        self.failure
    }

    /// What the user can do, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.failure {
            DeviceFailure::Open(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "its permissions (ls -l) say who may, and lsattr whether it is immutable; for a disk of the machine be \
                     root"
                }
                _ => return None,
            },
            DeviceFailure::Locked(Access::ReadOnly) => {
                "wait until the program that writes it is done (of a mount: ferroxfs umount DIR), or read it \
                 as it is with --live"
            }
            DeviceFailure::Locked(Access::ReadWrite) => {
                "wait until the other program that uses it is done (of a mount: ferroxfs umount DIR)"
            }
            DeviceFailure::InUse(Usage::Mounted { .. }, Access::ReadOnly) => {
                "unmount it; for reading alone there is --live"
            }
            DeviceFailure::InUse(Usage::Mounted { .. }, Access::ReadWrite) => "unmount it",
            DeviceFailure::WriteProtected => "what only reads can be done; a mount with -o ro",
            DeviceFailure::InUse(Usage::Loop { .. }, _) => "detach the loop device (losetup -d)",
            DeviceFailure::Busy => {
                "unmount it, stop what is made of it (volume group, RAID, swap), or end what writes it"
            }
            DeviceFailure::ForeignImage(..) => {
                "convert it (qemu-img convert -O raw) or attach it as a block device (qemu-nbd)"
            }
            DeviceFailure::Image(_) => {
                "check it with qemu-img check; an image with a backing file must be converted first"
            }
            DeviceFailure::NotADevice(_) | DeviceFailure::Measure(_) | DeviceFailure::Lock(_) => {
                return None;
            }
        })
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.failure)
    }
}

impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "cannot be opened: {error}"),
            Self::WriteProtected => f.write_str("is write-protected"),
            Self::NotADevice(found) => {
                write!(f, "is {found}, neither an image file nor a block device")
            }
            Self::Measure(error) => write!(f, "does not tell its size: {error}"),
            Self::Locked(Access::ReadOnly) => f.write_str("another program is writing it"),
            Self::Locked(Access::ReadWrite) => f.write_str("another program has it open"),
            Self::Lock(error) => write!(f, "cannot be locked: {error}"),
            Self::InUse(usage, _) => usage.fmt(f),
            Self::Busy => {
                f.write_str("is in use: mounted, part of another device, or being written")
            }
            Self::ForeignImage(found, Access::ReadOnly) => {
                write!(f, "is {found}, which is not read here")
            }
            Self::ForeignImage(found, Access::ReadWrite) => {
                write!(f, "is {found}, which is not written here")
            }
            Self::Image(error) => write!(f, "cannot be opened as a disk image: {error}"),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.failure {
            DeviceFailure::Open(error)
            | DeviceFailure::Measure(error)
            | DeviceFailure::Lock(error)
            | DeviceFailure::Image(error) => Some(error),
            _ => None,
        }
    }
}
