//! Opening a regular file: in which mode, who may, and whose leases are in the way.

use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_locks::{OpenMode, Wait};
use xfs_sync::AtomicBool;

use super::File;
use super::description::Description;
use crate::Result;
use crate::node::Node;
use crate::permission::Access;
use crate::share::User;

impl Node {
    /// This regular file, open in this mode by `open`, if who asks may use it so.
    fn into_file(
        self,
        wanted: Access,
        open: impl FnOnce(User) -> Result<Arc<Description>>,
    ) -> Result<File> {
        match self.file_type() {
            crate::FileType::Regular => {}
            crate::FileType::Directory => return Err(PosixError::IsDirectory.into()),
            _ => return Err(PosixError::InvalidArgument.into()),
        }
        self.check(wanted)?;
        let description = self.user().cloned().map(open).transpose()?;
        let (has_written, reads) = (AtomicBool::new(false), true);
        Ok(File { node: self, position: 0, is_direct: false, reads, has_written, description })
    }

    /// As [`open_read_only`](Self::open_read_only), for who needs the node no more.
    pub(crate) fn into_read_only(self) -> Result<File> {
        self.into_file(Access::READ, |user| Description::open(user, OpenMode::Read))
    }

    /// Opens a regular file, for reading and writing where its volume is open for writing. Leases that
    /// do not go with that are broken, and waited for.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for anything else that has no contents, EACCES; EPERM for an immutable file where
    /// its volume is open for writing: [`open_read_only`](Self::open_read_only) opens it.
    pub fn open(&self) -> Result<File> {
        self.clone().into_file(self.all_access(), |user| Description::open(user, OpenMode::Write))
    }

    /// Opens a regular file for writing only. What would read it fails with EBADF.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[doc(alias = "O_WRONLY")]
    pub fn open_write_only(&self) -> Result<File> {
        let open = |user| Description::open(user, OpenMode::Write);
        let mut file = self.clone().into_file(Access::WRITE, open)?;
        file.reads = false;
        Ok(file)
    }

    /// As [`open`](Self::open), for who has just made the file: its mode is for those who come later.
    pub(crate) fn open_new(&self) -> Result<File> {
        self.clone().into_file(Access::empty(), |user| Description::open(user, OpenMode::Write))
    }

    /// What there is to do with the contents: on a volume that is open for reading, that.
    fn all_access(&self) -> Access {
        if self.user().is_some() { Access::READ | Access::WRITE } else { Access::READ }
    }

    /// Opens a regular file for reading. What would write to it fails with EBADF.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[doc(alias = "O_RDONLY")]
    pub fn open_read_only(&self) -> Result<File> {
        self.clone().into_read_only()
    }

    /// Opens a regular file in a mode; `wait` says what to do where a lease is in the way, which is then
    /// being broken.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); EAGAIN with [`Wait::No`], EINTR and ETIMEDOUT as the
    /// [`Waiter`](xfs_locks::Waiter) ends.
    #[doc(alias = "O_NONBLOCK")]
    pub fn open_as(&self, mode: OpenMode, wait: Wait<'_>) -> Result<File> {
        let wanted = match mode {
            OpenMode::Read => Access::READ,
            OpenMode::Write => self.all_access(),
        };
        self.clone().into_file(wanted, |user| Description::try_open(user, mode, wait))
    }
}
