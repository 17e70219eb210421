//! Opening a regular file: checks of its type and permissions, and conflicting leases.

use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_locks::{OpenMode, Wait};
use xfs_sync::AtomicBool;
use xfs_vfs::Access;

use super::File;
use super::description::FileDescription;
use crate::Result;
use crate::node::Node;
use crate::volume_ref::InodeRef;

impl Node {
    /// Checks that this is a regular file and that the caller has the access `wanted` to it, and
    /// opens it with `open`.
    fn into_file(
        self,
        wanted: Access,
        open: impl FnOnce(InodeRef) -> Result<Arc<FileDescription>>,
    ) -> Result<File> {
        match self.file_type() {
            crate::FileType::Regular => {}
            crate::FileType::Directory => return Err(PosixError::IsDirectory.into()),
            _ => return Err(PosixError::InvalidArgument.into()),
        }
        self.check(wanted)?;
        let description = self.inode_ref().cloned().map(open).transpose()?;
        let (has_written, reads) = (AtomicBool::new(false), true);
        Ok(File { node: self, position: 0, is_direct: false, reads, has_written, description })
    }

    /// Opens the file as [`open_read_only`](Self::open_read_only) does, but consumes the node, for
    /// a caller that needs only the file.
    pub(crate) fn into_read_only(self) -> Result<File> {
        self.into_file(Access::READ, |inode_ref| FileDescription::open(inode_ref, OpenMode::Read))
    }

    /// Opens a regular file, for reading, and for writing if its volume is open for writing.
    /// Conflicting leases are broken. The call waits until they have ended.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for anything else without contents, EACCES; EPERM for an
    /// immutable file if its volume is open for writing. [`open_read_only`](Self::open_read_only)
    /// can open such a file.
    pub fn open(&self) -> Result<File> {
        self.clone().into_file(self.all_access(), |inode_ref| {
            FileDescription::open(inode_ref, OpenMode::Write)
        })
    }

    /// Opens a regular file for writing only. Reading fails with EBADF.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    #[doc(alias = "O_WRONLY")]
    pub fn open_write_only(&self) -> Result<File> {
        let open = |inode_ref| FileDescription::open(inode_ref, OpenMode::Write);
        let mut file = self.clone().into_file(Access::WRITE, open)?;
        file.reads = false;
        Ok(file)
    }

    /// Opens the file as [`open`](Self::open) does, for the caller that has just made it. The mode
    /// of the file is not checked: it applies to later opens.
    pub(crate) fn open_new(&self) -> Result<File> {
        self.clone().into_file(Access::empty(), |inode_ref| {
            FileDescription::open(inode_ref, OpenMode::Write)
        })
    }

    /// Returns the access that an open without a mode requests: reading, and also writing on a
    /// volume that is open for writing.
    fn all_access(&self) -> Access {
        if self.inode_ref().is_some() { Access::READ | Access::WRITE } else { Access::READ }
    }

    /// Opens a regular file for reading. Writing fails with EBADF.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    #[doc(alias = "O_RDONLY")]
    pub fn open_read_only(&self) -> Result<File> {
        self.clone().into_read_only()
    }

    /// Opens a regular file in a mode. A conflicting lease is broken in any case. `wait` says
    /// whether this call waits until the lease has ended.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open). Also returns EAGAIN with [`Wait::No`], EINTR or
    /// ETIMEDOUT if the [`Waiter`](xfs_locks::Waiter) ends the wait with this error.
    #[doc(alias = "O_NONBLOCK")]
    pub fn open_as(&self, mode: OpenMode, wait: Wait<'_>) -> Result<File> {
        let wanted = match mode {
            OpenMode::Read => Access::READ,
            OpenMode::Write => self.all_access(),
        };
        self.clone().into_file(wanted, |inode_ref| FileDescription::try_open(inode_ref, mode, wait))
    }
}
