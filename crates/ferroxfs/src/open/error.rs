//! Errors of opening a volume, and what a user can do about them.

use std::borrow::Cow;
use std::io;

use thiserror::Error;
use xfs_device::{DeviceError, DeviceFailure, FindError, SourceErrorKind};
use xfs_format::superblock::Unsupported;
use xfs_format::{Check, Corruption, Structure};
use xfs_log::Refusal;

use crate::Error;

/// Why a volume could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or device could not be opened or locked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The file or device holds no XFS filesystem, or more than one.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The volume could not be read, is corrupt, or has a feature that is not supported.
    #[error(transparent)]
    Volume(#[from] Error),
    /// The log holds changes that are not in place yet, and this crate does not replay some of
    /// them.
    #[error("the log is dirty: {0}")]
    DirtyLog(Refusal),
    /// The log is dirty, and replaying it failed.
    #[error("the log cannot be replayed: {0}")]
    Recovery(#[source] Error),
    /// Quota was asked for, and cannot be started. The volume opens without quota.
    #[error("quota cannot be started: {0}")]
    Quota(#[source] Error),
    /// The log cannot be read, so that it is unknown whether it is clean.
    #[error("the state of the log is not known: {0}")]
    Log(#[source] Error),
    /// The log is external and its device was not named.
    #[error("the log is on a device of its own, and no log device was given")]
    LogDeviceMissing,
    /// A realtime device was named, but the volume has no realtime section on a device of its own.
    /// The text says which section it has instead: none, or an internal one.
    #[error("a realtime device was named, but the volume has {0}")]
    RealtimeDevice(&'static str),
    /// No realtime device was named, but the volume has a realtime section on a device of its own,
    /// and opening it for writing needs this device.
    #[error("the volume has a realtime device, and none was given")]
    RealtimeDeviceMissing,
    /// The system cannot start the threads of a volume that is open for writing.
    #[error("cannot start the threads of the volume: {0}")]
    Threads(#[source] io::Error),
}

impl OpenError {
    /// Returns advice for the user about this error, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Device(error) => error.hint(),
            Self::Find(error) => error.hint(),
            _ => self.plain_hint().map(Cow::Borrowed),
        }
    }

    /// Returns the errno that stands for this error, for a program that has to report a number.
    ///
    /// Damage gives EUCLEAN, as [`Error::errno`] does. A volume or a device that is in use gives
    /// EBUSY, and a file without a volume EINVAL. An error of the host keeps its number.
    ///
    /// ```
    /// # let (folder, _) = xfs_trans::testing::make_file();
    /// let missing = ferroxfs::Volume::open(folder.path().join("missing.img"));
    /// let not_found = std::io::Error::from_raw_os_error(missing.err().ok_or("opened")?.errno());
    /// assert_eq!(not_found.kind(), std::io::ErrorKind::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Device(source) => errno_of_failure(source.failure()),
            Self::Find(FindError::Io(source)) | Self::Threads(source) => {
                source.raw_os_error().unwrap_or(code::EIO)
            }
            Self::Volume(source)
            | Self::Recovery(source)
            | Self::Quota(source)
            | Self::Log(source) => source.errno(),
            Self::DirtyLog(_) => code::EOPNOTSUPP,
            Self::LogDeviceMissing
            | Self::RealtimeDevice(_)
            | Self::RealtimeDeviceMissing
            | Self::Find(_) => code::EINVAL,
        }
    }

    fn plain_hint(&self) -> Option<&'static str> {
        match self {
            Self::Device(_) | Self::Find(_) => None,
            Self::DirtyLog(_) | Self::Recovery(_) => Some(
                "mount and unmount it once to replay the log, or read it as it stands with \
                 --no-recovery",
            ),
            Self::Log(_) => Some(
                "copy the files with ferroxfs salvage, give up the log with ferroxfs repair \
                 --allow-loss, or read what there is, as it stands, with --no-recovery",
            ),
            Self::Quota(_) => Some("open the volume without quota, or repair it first"),
            Self::LogDeviceMissing => Some("name it with --log-device"),
            Self::RealtimeDevice(_) => Some("leave out --rt-device"),
            Self::RealtimeDeviceMissing => Some("name it with --rt-device"),
            Self::Volume(Error::Corrupt(corruption))
                if corruption.structure() == Structure::RealtimeSuperblock =>
            {
                Some("name the realtime device of this volume with --rt-device, or none")
            }
            Self::Volume(Error::Unsupported(Unsupported::NeedsRepair)) => {
                Some("run ferroxfs repair, or read it as it stands with --no-recovery")
            }
            Self::Threads(_) => Some(NO_THREADS),
            Self::Volume(Error::Corrupt(corruption)) if is_first_sector(corruption) => Some(
                "ferroxfs check looks for a copy of the superblock, and ferroxfs repair restores it",
            ),
            Self::Volume(_) => None,
        }
    }
}

/// The errno values of Linux that stand for errors of opening alone. An error of a volume has its
/// own, in the table of `xfs-buffer`.
mod code {
    pub(super) const EIO: i32 = 5;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EROFS: i32 = 30;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const EUCLEAN: i32 = 117;
}

fn errno_of_failure(failure: &DeviceFailure) -> i32 {
    let of_host = match failure {
        DeviceFailure::Open(source)
        | DeviceFailure::Measure(source)
        | DeviceFailure::Lock(source) => source.raw_os_error(),
        _ => None,
    };
    of_host.unwrap_or(match kind_of_failure(failure) {
        io::ErrorKind::ResourceBusy => code::EBUSY,
        io::ErrorKind::ReadOnlyFilesystem => code::EROFS,
        io::ErrorKind::InvalidInput => code::EINVAL,
        io::ErrorKind::InvalidData => code::EUCLEAN,
        io::ErrorKind::Unsupported => code::EOPNOTSUPP,
        _ => code::EIO,
    })
}

/// Makes an `io::Error` that keeps this error as its source. Damage, and a file without a volume,
/// become [`InvalidData`](io::ErrorKind::InvalidData). A volume that is in use becomes
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy).
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::Device(source) => kind_of_failure(source.failure()),
            OpenError::Find(FindError::Io(source)) | OpenError::Threads(source) => source.kind(),
            OpenError::Volume(source)
            | OpenError::Recovery(source)
            | OpenError::Quota(source)
            | OpenError::Log(source) => kind_of(source),
            OpenError::DirtyLog(_) => io::ErrorKind::Unsupported,
            OpenError::LogDeviceMissing
            | OpenError::RealtimeDevice(_)
            | OpenError::RealtimeDeviceMissing => io::ErrorKind::InvalidInput,
            OpenError::Find(_) => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

fn kind_of(error: &Error) -> io::ErrorKind {
    match error {
        Error::Corrupt(_) => io::ErrorKind::InvalidData,
        error => io::Error::from_raw_os_error(error.errno()).kind(),
    }
}

fn kind_of_failure(failure: &DeviceFailure) -> io::ErrorKind {
    match failure {
        DeviceFailure::Open(source)
        | DeviceFailure::Measure(source)
        | DeviceFailure::Lock(source) => source.kind(),
        DeviceFailure::WriteProtected | DeviceFailure::HostManaged => {
            io::ErrorKind::ReadOnlyFilesystem
        }
        DeviceFailure::NotADevice(_) => io::ErrorKind::InvalidInput,
        DeviceFailure::Source(error) => match error.kind() {
            SourceErrorKind::Damaged => io::ErrorKind::InvalidData,
            SourceErrorKind::Failed => io::ErrorKind::Other,
            _ => io::ErrorKind::Unsupported,
        },
        DeviceFailure::Locked(_)
        | DeviceFailure::LockedBelow { .. }
        | DeviceFailure::TwinBusy { .. }
        | DeviceFailure::InUse(..)
        | DeviceFailure::Busy => io::ErrorKind::ResourceBusy,
        _ => io::ErrorKind::Unsupported,
    }
}

/// Returns whether `corruption` reports a superblock that begins with a wrong magic number.
fn is_first_sector(corruption: &Corruption) -> bool {
    corruption.structure() == Structure::Superblock
        && matches!(corruption.check(), Check::Magic { .. })
}

/// Advice for the error that threads cannot be started.
const NO_THREADS: &str = "a limit on processes or on memory is reached: see ulimit -u and ulimit -v, and \
                          TasksMax of systemd";
