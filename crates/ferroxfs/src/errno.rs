//! The one table that gives each error its errno.

use std::io;

use crate::Error;
use xfs_buffer::PosixError;

/// The errno values of Linux. XFS reports corruption as EUCLEAN. Here a bad checksum is EUCLEAN
/// too.
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
}

/// Returns the errno that the kernel's XFS would return for this error.
#[must_use]
pub fn errno(error: &Error) -> i32 {
    match error {
        Error::Io(io) => io.source.raw_os_error().unwrap_or(code::EIO),
        Error::Corrupt(_) => code::EUCLEAN,
        Error::Unsupported(_) => code::EOPNOTSUPP,
        Error::Posix(posix) => posix_errno(*posix),
        Error::Shutdown => code::EIO,
    }
}

fn posix_errno(error: PosixError) -> i32 {
    match error {
        PosixError::NotFound => code::ENOENT,
        PosixError::NotDirectory => code::ENOTDIR,
        PosixError::IsDirectory => code::EISDIR,
        PosixError::InvalidArgument => code::EINVAL,
        PosixError::SymlinkLoop => code::ELOOP,
        PosixError::NameTooLong => code::ENAMETOOLONG,
        PosixError::NoAttribute => code::ENODATA,
        PosixError::OutOfRange => code::ERANGE,
        PosixError::Stale => code::ESTALE,
        PosixError::ReadOnly => code::EROFS,
        PosixError::Exists => code::EEXIST,
        PosixError::NotEmpty => code::ENOTEMPTY,
        PosixError::NoSpace => code::ENOSPC,
        PosixError::FileTooLarge => code::EFBIG,
        PosixError::TooManyLinks => code::EMLINK,
        PosixError::NotPermitted => code::EPERM,
        PosixError::AccessDenied => code::EACCES,
        PosixError::ValueTooLong => code::E2BIG,
        PosixError::Busy => code::EBUSY,
        PosixError::CrossDevice => code::EXDEV,
        PosixError::NotSupported => code::EOPNOTSUPP,
        PosixError::WouldBlock => code::EAGAIN,
        PosixError::Deadlock => code::EDEADLK,
        PosixError::Interrupted => code::EINTR,
        PosixError::TimedOut => code::ETIMEDOUT,
        PosixError::BadDescriptor => code::EBADF,
    }
}

/// Returns an `io::Error` of the kind that the errno has. Its source is `error`.
pub(crate) fn to_io_error(error: Error) -> io::Error {
    let kind = io::Error::from_raw_os_error(errno(&error)).kind();
    io::Error::new(kind, error)
}
