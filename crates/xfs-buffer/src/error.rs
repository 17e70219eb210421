//! The error type of every layer above the devices.

mod errno;

use std::io;

use thiserror::Error;
use xfs_format::superblock::{SuperblockError, Unsupported};
use xfs_format::{Corruption, DiskAddr};

/// The reasons why an operation on a volume can fail.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device could not be read, written or flushed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A structure on the volume is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The volume or the file has a format or feature that is not supported.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A POSIX error: the operation is not possible on this object or for this caller.
    #[error(transparent)]
    Posix(#[from] PosixError),
    /// The volume was shut down: its log could not be written, or a shutdown was forced.
    #[error("the volume is shut down")]
    Shutdown,
}

impl Error {
    /// Returns the same error for a second caller. An error of the host keeps its errno; if it has
    /// no errno, it keeps its kind and text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Io(IoError { operation, at, length_bytes, source }) => {
                let source = match source.raw_os_error() {
                    Some(number) => io::Error::from_raw_os_error(number),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                let (at, length_bytes) = (*at, *length_bytes);
                IoError::new(operation, at, length_bytes, source).into()
            }
            Self::Corrupt(corruption) => corruption.clone().into(),
            Self::Unsupported(reason) => (*reason).into(),
            Self::Posix(case) => (*case).into(),
            Self::Shutdown => Self::Shutdown,
        }
    }
}

/// A result whose error is [`enum@Error`], unless another type is given.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A device request that failed.
#[derive(Debug, Error)]
#[error("cannot {operation} {length_bytes} bytes at {at}: {source}")]
#[non_exhaustive]
pub struct IoError {
    /// The failed operation: "read", "write" or "flush".
    pub operation: &'static str,
    /// The address of the request on the device.
    pub at: DiskAddr,
    /// The length of the request in bytes.
    pub length_bytes: u64,
    /// The error that the host's operating system returned.
    #[source]
    pub source: io::Error,
}

impl IoError {
    /// Creates the error of a failed request.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        operation: &'static str,
        at: DiskAddr,
        length_bytes: u64,
        source: io::Error,
    ) -> Self {
        Self { operation, at, length_bytes, source }
    }
}

/// The POSIX error cases, each with its [errno](Self::errno).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PosixError {
    /// ENOENT.
    #[error("no such file or directory")]
    NotFound,
    /// ENOTDIR.
    #[error("not a directory")]
    NotDirectory,
    /// EISDIR.
    #[error("is a directory")]
    IsDirectory,
    /// EINVAL.
    #[error("invalid argument")]
    InvalidArgument,
    /// ELOOP.
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// ENAMETOOLONG.
    #[error("file name too long")]
    NameTooLong,
    /// ENODATA.
    #[error("no such attribute")]
    NoAttribute,
    /// ERANGE.
    #[error("result too large")]
    OutOfRange,
    /// ESTALE.
    #[error("stale inode")]
    Stale,
    /// EROFS.
    #[error("read-only volume")]
    ReadOnly,
    /// EEXIST.
    #[error("file exists")]
    Exists,
    /// ENOTEMPTY.
    #[error("directory not empty")]
    NotEmpty,
    /// ENOSPC.
    #[error("no space left on the volume")]
    NoSpace,
    /// EFBIG.
    #[error("file too large")]
    FileTooLarge,
    /// EMLINK.
    #[error("too many links")]
    TooManyLinks,
    /// EPERM.
    #[error("operation not permitted")]
    NotPermitted,
    /// EACCES.
    #[error("permission denied")]
    AccessDenied,
    /// E2BIG.
    #[error("value too long")]
    ValueTooLong,
    /// EBUSY.
    #[error("in use")]
    Busy,
    /// EXDEV.
    #[error("source and target are on different volumes or in different projects")]
    CrossDevice,
    /// EOPNOTSUPP.
    #[error("not supported by this volume")]
    NotSupported,
    /// EAGAIN.
    #[error("held by another owner")]
    WouldBlock,
    /// EDEADLK.
    #[error("a deadlock would result")]
    Deadlock,
    /// EINTR.
    #[error("interrupted")]
    Interrupted,
    /// ETIMEDOUT.
    #[error("timed out")]
    TimedOut,
    /// EDQUOT.
    #[error("disk quota exceeded")]
    QuotaExceeded,
    /// ESRCH.
    #[error("quota of this type is not counted on the volume")]
    NoQuota,
    /// EBADF.
    #[error("the file is not open for this access")]
    BadDescriptor,
}

impl From<SuperblockError> for Error {
    fn from(error: SuperblockError) -> Self {
        match error {
            SuperblockError::Corrupt(corruption) => corruption.into(),
            SuperblockError::Unsupported(reason) => reason.into(),
        }
    }
}
