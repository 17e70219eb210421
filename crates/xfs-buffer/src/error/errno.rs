//! The one table that gives each error its errno.
//!
//! The table is in the same crate as [`enum@Error`], because Rust allows a method of the error, and
//! its conversion to an [`std::io::Error`], only in the crate of the type. No code below `ferroxfs`
//! uses the method or the conversion.

use std::io;

use super::{Error, PosixError};

/// errno values of Linux. XFS reports corruption as EUCLEAN; ferroxfs reports a bad checksum as
/// EUCLEAN too.
mod code {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EINTR: i32 = 4;
    pub(super) const EIO: i32 = 5;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBADF: i32 = 9;
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EXDEV: i32 = 18;
    pub(super) const ENOTDIR: i32 = 20;
    pub(super) const EISDIR: i32 = 21;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EFBIG: i32 = 27;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EROFS: i32 = 30;
    pub(super) const EMLINK: i32 = 31;
    pub(super) const ERANGE: i32 = 34;
    pub(super) const EDEADLK: i32 = 35;
    pub(super) const ENAMETOOLONG: i32 = 36;
    pub(super) const ENOTEMPTY: i32 = 39;
    pub(super) const ELOOP: i32 = 40;
    pub(super) const ENODATA: i32 = 61;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const ETIMEDOUT: i32 = 110;
    pub(super) const ESTALE: i32 = 116;
    pub(super) const EUCLEAN: i32 = 117;
    pub(super) const EDQUOT: i32 = 122;
    pub(super) const ESRCH: i32 = 3;
}

impl Error {
    /// Returns the errno that the kernel's XFS would return for this error.
    ///
    /// For a failed device request, returns the errno of the host, or EIO if the host gave none.
    /// Returns EUCLEAN for damage, EOPNOTSUPP for an unsupported kind of volume or file, and EIO
    /// for a volume that was shut down.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Io(io) => io.source.raw_os_error().unwrap_or(code::EIO),
            Self::Corrupt(_) => code::EUCLEAN,
            Self::Unsupported(_) => code::EOPNOTSUPP,
            Self::Posix(posix) => posix.errno(),
            Self::Shutdown => code::EIO,
        }
    }
}

impl PosixError {
    /// Returns the errno of this error case.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::NotFound => code::ENOENT,
            Self::NotDirectory => code::ENOTDIR,
            Self::IsDirectory => code::EISDIR,
            Self::InvalidArgument => code::EINVAL,
            Self::SymlinkLoop => code::ELOOP,
            Self::NameTooLong => code::ENAMETOOLONG,
            Self::NoAttribute => code::ENODATA,
            Self::OutOfRange => code::ERANGE,
            Self::Stale => code::ESTALE,
            Self::ReadOnly => code::EROFS,
            Self::Exists => code::EEXIST,
            Self::NotEmpty => code::ENOTEMPTY,
            Self::NoSpace => code::ENOSPC,
            Self::FileTooLarge => code::EFBIG,
            Self::TooManyLinks => code::EMLINK,
            Self::NotPermitted => code::EPERM,
            Self::AccessDenied => code::EACCES,
            Self::ValueTooLong => code::E2BIG,
            Self::Busy => code::EBUSY,
            Self::CrossDevice => code::EXDEV,
            Self::NotSupported => code::EOPNOTSUPP,
            Self::WouldBlock => code::EAGAIN,
            Self::Deadlock => code::EDEADLK,
            Self::Interrupted => code::EINTR,
            Self::TimedOut => code::ETIMEDOUT,
            Self::QuotaExceeded => code::EDQUOT,
            Self::NoQuota => code::ESRCH,
            Self::BadDescriptor => code::EBADF,
        }
    }
}

/// Converts to an `io::Error` whose kind follows from the errno, and which wraps the original
/// error.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = Self::from_raw_os_error(error.errno()).kind();
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests;
