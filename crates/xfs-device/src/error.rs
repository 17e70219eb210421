//! Errors of opening a device: the path, the failure, and advice for the user.
//!
//! Does **not** own failures of reads and writes on an open device. Those are plain [`io::Error`]s,
//! as the trait `BlockDevice` says.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::DeviceAccess;
use crate::lock_holder::LockHolder;
use crate::metadump::MetadumpError;
use crate::signature::Contents;
use crate::usage::KernelUse;

/// The error of opening a device.
#[derive(Debug)]
pub struct DeviceError {
    path: PathBuf,
    failure: DeviceFailure,
    /// The process that has the device open. `None` if the failure has another reason, or if the
    /// process cannot be found.
    holder: Option<Box<LockHolder>>,
}

/// An error from another crate, which uses this crate to open further kinds of devices, such as
/// disk images.
pub trait SourceError: Error + Send + Sync {
    /// Returns the kind of the error.
    fn kind(&self) -> SourceErrorKind;

    /// Returns advice for the user about the error, or `None` if there is none.
    fn hint(&self) -> Option<&'static str>;
}

/// The kinds of a [`SourceError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The device has a feature that ferroxfs does not support.
    Refused,
    /// The device is damaged.
    Damaged,
    /// The host or a server returned an error.
    Failed,
}

/// The reason why a device could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceFailure {
    /// The host refused to open the device.
    Open(io::Error),
    /// The device is a write-protected block device.
    #[doc(alias = "BLKROGET")]
    WriteProtected,
    /// The device has zones that it accepts only sequential writes to.
    #[doc(alias = "BLKREPORTZONE")]
    HostManaged,
    /// The path leads to this kind of file, which is neither a regular file nor a block device.
    NotADevice(&'static str),
    /// The length or the sector size of the device could not be determined.
    Measure(io::Error),
    /// Another program holds a lock that this access conflicts with.
    Locked(DeviceAccess),
    /// Another program uses a file or disk of which the device is made.
    LockedBelow {
        /// The access that was requested.
        access: DeviceAccess,
        /// The file or disk that is in use.
        below: PathBuf,
    },
    /// Another device made of the same file or disk is mounted, claimed or being written.
    TwinBusy {
        /// The other device that is in use.
        twin: PathBuf,
        /// The file or disk of which both devices are made.
        common: PathBuf,
    },
    /// The host could not lock the device.
    Lock(io::Error),
    /// The device is mounted, or another device is made of it.
    InUse(KernelUse, DeviceAccess),
    /// The kernel refuses exclusive access. It does not say which program or mount uses the device.
    Busy,
    /// The device is a disk image in a format that cannot be opened with this access.
    ForeignImage(Contents, DeviceAccess),
    /// The device is a disk image or a remote disk. The crate that opens such devices failed to
    /// open it.
    Source(Box<dyn SourceError>),
    /// The device is a metadata image that cannot be read.
    Metadump(MetadumpError),
}

impl DeviceError {
    /// Creates the error of opening the device at `path`.
    #[must_use]
    pub fn new(path: &Path, failure: DeviceFailure) -> Self {
        let held = match &failure {
            DeviceFailure::Locked(_) | DeviceFailure::Busy => Some(path),
            DeviceFailure::LockedBelow { below, .. } => Some(below.as_path()),
            _ => None,
        };
        let holder = held.and_then(LockHolder::find).map(Box::new);
        Self { path: path.to_owned(), failure, holder }
    }

    /// Returns the path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the failure.
    #[must_use]
    pub fn failure(&self) -> &DeviceFailure {
        &self.failure
    }

    /// Returns the failure without the path.
    #[must_use]
    pub fn into_failure(self) -> DeviceFailure {
        self.failure
    }

    /// Returns the process that has the device open. Returns `None` if the failure has another
    /// reason, or if the process cannot be found.
    #[must_use]
    pub fn holder(&self) -> Option<&LockHolder> {
        self.holder.as_deref()
    }

    /// Returns the failure as text, with the process that has the device open if it is known.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.holder {
            Some(holder) => match &self.failure {
                DeviceFailure::LockedBelow { below, .. } => {
                    format!("is made of {}; {holder}", below.display())
                }
                _ => holder.to_string(),
            },
            None => match (&self.failure, crate::lock_holder::user_of_device(&self.path)) {
                (DeviceFailure::Busy, Some(user)) => format!("is in use: {user}"),
                (failure, _) => failure.to_string(),
            },
        }
    }

    /// Returns advice for the user about the failure, or `None` if there is none.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match (&self.holder, &self.failure) {
            (
                Some(holder),
                DeviceFailure::Locked(access) | DeviceFailure::LockedBelow { access, .. },
            ) => Some(holder.hint(*access).into()),
            (Some(holder), _) => Some(holder.hint(DeviceAccess::ReadWrite).into()),
            (None, failure) => failure.hint().map(Cow::Borrowed),
        }
    }
}

impl DeviceFailure {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Open(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => return permission_hint(),
                _ => return None,
            },
            Self::Locked(DeviceAccess::ReadOnly)
            | Self::LockedBelow { access: DeviceAccess::ReadOnly, .. } => {
                "wait until the program that writes it is done (for a mount: ferroxfs umount DIR), \
                 or read it as it is with --live"
            }
            Self::TwinBusy { .. } => {
                "unmount the other device or stop the program that uses it, and detach it (losetup \
                 -d)"
            }
            Self::Locked(DeviceAccess::ReadWrite)
            | Self::LockedBelow { access: DeviceAccess::ReadWrite, .. } => {
                "wait until the other program that uses it is done (for a mount: ferroxfs umount \
                 DIR)"
            }
            Self::InUse(KernelUse::Mounted { .. }, DeviceAccess::ReadOnly) => {
                "unmount it; to read it as it is, use --live"
            }
            Self::InUse(KernelUse::Mounted { .. }, DeviceAccess::ReadWrite) => "unmount it",
            Self::WriteProtected => "only reading is possible; mount it with -o ro",
            Self::HostManaged => {
                "only reading is possible, because ferroxfs does not write zones in order; mount \
                 it with the kernel"
            }
            Self::InUse(KernelUse::Loop { .. }, _) => "detach the loop device (losetup -d)",
            Self::Busy => {
                "unmount it, stop the devices made of it (volume group, RAID, swap), or stop the \
                 program that writes it"
            }
            Self::ForeignImage(Contents::Ewf, _) => "convert it to a raw image (ewfexport -f raw)",
            Self::ForeignImage(Contents::XfsMetadump, _) => {
                "restore it to an image that can be written (ferroxfs mdrestore FILE IMAGE)"
            }
            Self::ForeignImage(..) => {
                "convert it (qemu-img convert -O raw) or attach it as a block device (qemu-nbd)"
            }
            Self::Source(error) => return error.hint(),
            Self::Metadump(_) => "copy it again from the machine where it was made",
            Self::NotADevice(_) | Self::Measure(_) | Self::Lock(_) => {
                return None;
            }
        })
    }
}

/// Returns advice for a permission error. The advice for root does not include becoming root.
fn permission_hint() -> Option<&'static str> {
    Some(match rustix::process::geteuid().is_root() {
        true => {
            "lsattr shows whether it is immutable; a read-only mount of its filesystem, or a \
             security module, can also refuse root"
        }
        false => {
            "check its permissions (ls -l) and whether it is immutable (lsattr); a disk of this \
             machine needs root"
        }
    })
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason())
    }
}

impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "cannot be opened: {error}"),
            Self::WriteProtected => f.write_str("is write-protected"),
            Self::HostManaged => f.write_str("is a host-managed zoned disk"),
            Self::NotADevice(found) => {
                write!(f, "is {found}, neither an image file nor a block device")
            }
            Self::Measure(error) => write!(f, "cannot be measured: {error}"),
            Self::Locked(DeviceAccess::ReadOnly) => f.write_str("another program is writing it"),
            Self::Locked(DeviceAccess::ReadWrite) => f.write_str("another program has it open"),
            Self::LockedBelow { access: DeviceAccess::ReadOnly, below } => {
                write!(
                    f,
                    "another program is writing {}, the file or disk below it",
                    below.display()
                )
            }
            Self::LockedBelow { access: DeviceAccess::ReadWrite, below } => {
                write!(f, "another program has {} open, the file or disk below it", below.display())
            }
            Self::TwinBusy { twin, common } => {
                write!(f, "{} is in use, and is also made of {}", twin.display(), common.display())
            }
            Self::Lock(error) => write!(f, "cannot be locked: {error}"),
            Self::InUse(usage, _) => usage.fmt(f),
            Self::Busy => {
                f.write_str("is in use: mounted, part of another device, or being written")
            }
            Self::ForeignImage(found, DeviceAccess::ReadOnly) => {
                write!(f, "is {found}, which ferroxfs does not read")
            }
            Self::ForeignImage(found, DeviceAccess::ReadWrite) => {
                write!(f, "is {found}, which ferroxfs does not write")
            }
            Self::Source(error) => error.fmt(f),
            Self::Metadump(error) => error.fmt(f),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.failure {
            DeviceFailure::Open(error)
            | DeviceFailure::Measure(error)
            | DeviceFailure::Lock(error) => Some(error),
            _ => None,
        }
    }
}
