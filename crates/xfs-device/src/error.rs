//! Why a device could not be opened: the path, what failed, and what to do about it.
//!
//! Does **not** own failures of reads and writes on an open device: those are plain
//! [`io::Error`]s, as the trait says.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::Access;
#[cfg(feature = "disk-images")]
use crate::image::ImageRefusal;
use crate::lock_holder::LockHolder;
use crate::signature::Contents;
use crate::usage::Usage;

/// A device that could not be opened.
#[derive(Debug)]
pub struct DeviceError {
    path: PathBuf,
    failure: DeviceFailure,
    /// The process that has it open, where that is the failure and it can be found.
    holder: Option<Box<LockHolder>>,
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
    /// Another program uses the file or disk that the device is made of.
    LockedBelow {
        /// The access that was asked for.
        access: Access,
        /// The file or disk.
        below: PathBuf,
    },
    /// Another device that is made of the same file or disk is mounted, claimed or being written.
    TwinBusy {
        /// The other device.
        twin: PathBuf,
        /// The file or disk that both are made of.
        common: PathBuf,
    },
    /// The host could not lock it.
    Lock(io::Error),
    /// Somebody else uses it: it is mounted, or another device is made of it.
    InUse(Usage, Access),
    /// The kernel will not give it exclusively, and does not say to whom it belongs.
    Busy,
    /// It is a disk image in a format that cannot be opened like this.
    ForeignImage(Contents, Access),
    /// It is a qcow2 image with a feature that is not read.
    #[cfg(feature = "disk-images")]
    Refused(ImageRefusal),
    /// It is a qcow2 image whose header or tables are damaged.
    DamagedImage,
}

impl DeviceError {
    /// Says that `failure` kept the device at `path` from being opened.
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

    /// The process that has it open, where that is the failure and it can be found.
    #[must_use]
    pub fn holder(&self) -> Option<&LockHolder> {
        self.holder.as_deref()
    }

    /// What stood in the way, with the process that has it open where that is known.
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

    /// What the user can do, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match (&self.holder, &self.failure) {
            (
                Some(holder),
                DeviceFailure::Locked(access) | DeviceFailure::LockedBelow { access, .. },
            ) => Some(holder.hint(*access).into()),
            (Some(holder), _) => Some(holder.hint(Access::ReadWrite).into()),
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
            Self::Locked(Access::ReadOnly) | Self::LockedBelow { access: Access::ReadOnly, .. } => {
                "wait until the program that writes it is done (of a mount: ferroxfs umount DIR), or read it \
                 as it is with --live"
            }
            Self::TwinBusy { .. } => {
                "unmount the other device or stop what uses it, and detach it (losetup -d)"
            }
            Self::Locked(Access::ReadWrite)
            | Self::LockedBelow { access: Access::ReadWrite, .. } => {
                "wait until the other program that uses it is done (of a mount: ferroxfs umount DIR)"
            }
            Self::InUse(Usage::Mounted { .. }, Access::ReadOnly) => {
                "unmount it; for reading alone there is --live"
            }
            Self::InUse(Usage::Mounted { .. }, Access::ReadWrite) => "unmount it",
            Self::WriteProtected => "what only reads can be done; a mount with -o ro",
            Self::InUse(Usage::Loop { .. }, _) => "detach the loop device (losetup -d)",
            Self::Busy => {
                "unmount it, stop what is made of it (volume group, RAID, swap), or end what writes it"
            }
            Self::ForeignImage(Contents::Ewf, _) => "convert it to a raw image (ewfexport -f raw)",
            Self::ForeignImage(..) => {
                "convert it (qemu-img convert -O raw) or attach it as a block device (qemu-nbd)"
            }
            #[cfg(feature = "disk-images")]
            Self::Refused(refusal) => refusal.hint(),
            Self::DamagedImage => "check it with qemu-img check",
            Self::NotADevice(_) | Self::Measure(_) | Self::Lock(_) => {
                return None;
            }
        })
    }
}

/// What root can do is not hinted at to root.
fn permission_hint() -> Option<&'static str> {
    Some(match rustix::process::geteuid().is_root() {
        true => {
            "lsattr says whether it is immutable; a read-only mount of its filesystem, or a security \
                 module, may keep root from it as well"
        }
        false => {
            "its permissions (ls -l) say who may, and lsattr whether it is immutable; for a disk of \
                  the machine be root"
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
            Self::NotADevice(found) => {
                write!(f, "is {found}, neither an image file nor a block device")
            }
            Self::Measure(error) => write!(f, "does not tell its size: {error}"),
            Self::Locked(Access::ReadOnly) => f.write_str("another program is writing it"),
            Self::Locked(Access::ReadWrite) => f.write_str("another program has it open"),
            Self::LockedBelow { access: Access::ReadOnly, below } => {
                write!(f, "another program is writing {}, which it is made of", below.display())
            }
            Self::LockedBelow { access: Access::ReadWrite, below } => {
                write!(f, "another program has {} open, which it is made of", below.display())
            }
            Self::TwinBusy { twin, common } => {
                write!(f, "{} is in use, which is made of {} too", twin.display(), common.display())
            }
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
            #[cfg(feature = "disk-images")]
            Self::Refused(refusal) => {
                write!(f, "is a qcow2 disk image that {refusal}, which is not read here")
            }
            Self::DamagedImage => {
                f.write_str("is a qcow2 disk image whose header or tables are damaged")
            }
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
