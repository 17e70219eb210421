//! The status of a reply: the numbers of `nfsstat3` in RFC 1813, section 2.6.

use ferroxfs::Error;
use rustix::io::Errno;

/// Why a call of NFS failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NfsStatus(u32);

impl NfsStatus {
    pub(crate) const NOT_FOUND: Self = Self(2);
    pub(crate) const IO: Self = Self(5);
    pub(crate) const EXISTS: Self = Self(17);
    pub(crate) const NOT_DIRECTORY: Self = Self(20);
    pub(crate) const IS_DIRECTORY: Self = Self(21);
    pub(crate) const INVALID: Self = Self(22);
    pub(crate) const READ_ONLY: Self = Self(30);
    pub(crate) const STALE: Self = Self(70);
    pub(crate) const BAD_HANDLE: Self = Self(10001);
    pub(crate) const NOT_SYNC: Self = Self(10002);
    pub(crate) const TOO_SMALL: Self = Self(10005);
    pub(crate) const BAD_TYPE: Self = Self(10007);

    /// Returns the number in a reply.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the status for an error of the library.
    pub(crate) fn of(error: &Error) -> Self {
        let number = match Errno::from_raw_os_error(error.errno()) {
            Errno::PERM => 1,
            Errno::NOENT => 2,
            Errno::NXIO => 6,
            Errno::ACCESS => 13,
            Errno::EXIST => 17,
            Errno::XDEV => 18,
            Errno::NODEV => 19,
            Errno::NOTDIR => 20,
            Errno::ISDIR => 21,
            Errno::INVAL => 22,
            Errno::FBIG => 27,
            Errno::NOSPC => 28,
            Errno::ROFS => 30,
            Errno::MLINK => 31,
            Errno::NAMETOOLONG => 63,
            Errno::NOTEMPTY => 66,
            Errno::DQUOT => 69,
            Errno::STALE => 70,
            Errno::NOTSUP => 10004,
            // Damage, and everything that NFS has no number for.
            _ => {
                tracing::warn!(%error, "a call failed");
                5
            }
        };
        Self(number)
    }
}

impl From<Error> for NfsStatus {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}
