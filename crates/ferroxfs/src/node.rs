//! A handle on one inode.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use xfs_buffer::{BufferCache, PosixError};
use xfs_dir::Directory;
use xfs_format::InodeNumber;
use xfs_format::inode::{FileType, ForkKind};
use xfs_inode::Inode;

use crate::attributes::{self, Attribute};
use crate::extents::FileExtents;
use crate::file::File;
use crate::metadata::Metadata;
use crate::share::Share;
use crate::whereabouts::{self, Parent};
use crate::{ReadDir, Result};

/// A handle on one inode, as a descriptor opened with `O_PATH` is: it can be asked for metadata,
/// looked into, or opened.
///
/// Cloning is cheap. The handle keeps the volume open.
#[derive(Clone)]
pub struct Node {
    share: Arc<Share>,
    inode: Arc<Inode>,
}

impl Node {
    pub(crate) fn new(share: Arc<Share>, inode: Arc<Inode>) -> Self {
        Self { share, inode }
    }

    /// The inode number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        self.inode.number()
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// The buffer cache of the volume.
    pub(crate) fn cache(&self) -> &Arc<BufferCache> {
        &self.share.cache
    }

    /// The in-core inode.
    #[must_use]
    pub fn inode(&self) -> &Arc<Inode> {
        &self.inode
    }

    /// Metadata.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        Metadata::new(&self.inode, self.cache().geometry())
    }

    /// Type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.inode.file_type()
    }

    /// The inode that `name` means in this directory; links are not followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR; what the volume holds may be corrupt.
    pub fn lookup(&self, name: &OsStr) -> Result<Self> {
        if name.as_bytes() == b"." {
            return self.directory().map(|_| self.clone());
        }
        let (number, _) = self.directory()?.lookup(name.as_bytes())?;
        self.share.node(number)
    }

    /// The directory above this one; the root's is the root.
    ///
    /// # Errors
    ///
    /// ENOTDIR; what the volume holds may be corrupt.
    pub fn parent(&self) -> Result<Self> {
        let parent = self.directory()?.parent()?;
        self.share.node(parent)
    }

    /// The entries of this directory, without `.` and `..`, in the order of their place on disk.
    ///
    /// # Errors
    ///
    /// ENOTDIR; damage that shows later is an item of the iterator.
    pub fn entries(&self) -> Result<ReadDir> {
        self.directory().map(|_| ReadDir::new(self.clone()))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    ///
    /// EISDIR for a directory, EINVAL for anything else that has no contents, and
    /// [`Unsupported`](xfs_format::superblock::Unsupported) for data on a realtime device.
    pub fn open(&self) -> Result<File> {
        match self.file_type() {
            FileType::Regular => File::new(self.clone()),
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Where a symbolic link points.
    ///
    /// # Errors
    ///
    /// EINVAL if this is no link; what the volume holds may be corrupt.
    pub fn read_link(&self) -> Result<OsString> {
        if self.file_type() != FileType::Symlink {
            return Err(PosixError::InvalidArgument.into());
        }
        self.inode.read_target(self.cache()).map(OsString::from_vec)
    }

    /// The extended attributes, under the names that Linux shows to root. A part that cannot be
    /// read is an error among them.
    #[must_use]
    pub fn attributes(&self) -> Vec<Result<Attribute>> {
        attributes::list(self)
    }

    /// The value of one extended attribute, by its Linux name such as `user.mime_type`.
    ///
    /// # Errors
    ///
    /// ENODATA if there is none; what the volume holds may be corrupt.
    pub fn attribute(&self, name: &OsStr) -> Result<Vec<u8>> {
        attributes::value(self, name)
    }

    /// Where the data, or the attributes, lie on the device. Holes are left out.
    #[must_use]
    pub fn extents(&self, fork: ForkKind) -> FileExtents<'_> {
        FileExtents::new(self, fork)
    }

    /// The directories that hold this inode and under which name: from the parent pointers.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP on a volume without parent pointers; what the volume holds may be corrupt.
    pub fn parents(&self) -> Result<Vec<Parent>> {
        whereabouts::parents(self)
    }

    pub(crate) fn directory(&self) -> Result<Directory<'_>> {
        Directory::new(self.cache(), &self.inode)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number()).finish_non_exhaustive()
    }
}
