//! An open volume.

mod bulk;
mod freeze;
mod grow;
mod inodes;
mod paths;

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use xfs_alloc::InodeState;
use xfs_buffer::{BufferCache, PosixError};
use xfs_device::BlockDevice;
use xfs_format::superblock::Label;
use xfs_format::{Geometry, InodeNumber, Superblock, Uuid};
use xfs_log::LogState;

use crate::credentials::{Capabilities, Credentials};
use crate::errno::to_io_error;
use crate::node::Node;
use crate::open::{OpenError, OpenOptions, UuidChange};
use crate::resolve::{LastLink, resolve, resolve_remembered};
use crate::share::{Core, Holder, Share};
use crate::space::{self, Space};
use crate::walk::Walk;
use crate::whereabouts::{self, Whereabouts};
pub use bulk::{BulkPath, InodeChunkUse};
pub(crate) use bulk::{metadata_of, word_of};
pub use grow::GrowError;

use crate::{Error, File, Metadata, ReadDir, Result};

/// An XFS volume, open for reading or for writing.
///
/// Cloning is cheap and gives the same volume. One that is open for reading closes with its last
/// clone, [`Node`] or [`File`], and starts no threads; one that is open for writing has threads that
/// write its log, force it now and then ([`Upkeep`](crate::Upkeep)) and free what was deleted, and is
/// closed by [`close`](Self::close). Every method may be called from any thread.
///
/// # Paths
///
/// A path is resolved from the root, as if the volume were all there is: an absolute link starts again there, and `..`
/// in the root is the root. What is made by path belongs to user and group 0, or to
/// [whom the volume acts for](Self::as_user), directories with the mode 0o755 and files with 0o644;
/// [`Node::create`] makes anything else. The directory of a path must be there.
///
/// Each change by path is one of a [`Node`], where it does not say otherwise: the [crate](crate#changes) says what a
/// crash leaves of it, when it is durable, and how it fails on a volume that is open for reading or was shut down.
/// Besides the errors of that one it has those of [`lookup`](Self::lookup), and EINVAL for a path that ends in no name.
#[derive(Clone)]
pub struct Volume(Arc<Holder>);

/// Why what a volume shows may be out of date, or not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// The log is dirty and was not replayed.
    LogNotRecovered,
    /// The volume is mounted elsewhere and may change at any time.
    Live,
}

impl Volume {
    /// Opens the volume in an image file or on a block device, for reading, with the default
    /// [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::new().open(path)
    }

    /// Opens the volume in an image file or on a block device for writing, with the default
    /// [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_writable(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::new().open_writable(path)
    }

    /// Writes everything in place and marks the log clean. A volume that is dropped without is left
    /// as a crash would leave it: the next one who opens it recovers what was durable.
    ///
    /// # Errors
    ///
    /// - EBUSY if another clone, [`Node`] or [`File`] keeps the volume open. This clone is given up all the same, and
    ///   with the last one the volume can only be dropped.
    /// - What kept an inode from being freed since the volume was opened: everything is durable then, and the log is
    ///   left to a recovery.
    /// - What stopped the log, or that the volume was shut down: what is durable is left to a recovery.
    /// - The error of a write that was [lost](File#what-waits-in-memory) with a handle, or of a discard: the volume is
    ///   closed all the same.
    ///
    /// On a volume that is open for reading there is nothing to do.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.0).ok().and_then(Holder::into_writing) {
            Some(Some(writing)) => writing.close(),
            Some(None) => Ok(()),
            None => Err(PosixError::Busy.into()),
        }
    }

    /// The same volume as somebody else: what is done by the volume that this returns, and by every
    /// [`Node`], [`File`] and listing that comes of it, is allowed or refused as Linux would by the owners,
    /// permission bits and access control lists of the files, and by these credentials. What is made
    /// belongs to them.
    ///
    /// A file that is open stays so, whatever becomes of its mode. What looks at the volume as a whole
    /// takes [`Capabilities::SYS_ADMIN`]. This keeps users of a program apart, not the program: who has
    /// [`device`](Self::device) or [`cache`](Self::cache) is not stopped.
    ///
    /// It takes some memory for each processor: keep it for as long as there is something to do.
    #[must_use]
    pub fn as_user(&self, credentials: Credentials) -> Self {
        Self(Arc::new(self.0.acting_as(credentials)))
    }

    /// Whether who asks has a capability.
    pub(crate) fn require(&self, capability: Capabilities) -> Result<()> {
        self.share().who().require(capability)
    }

    pub(crate) fn new(core: Core, findings: Vec<Error>) -> Self {
        Self(Arc::new(Holder::new(core, findings)))
    }

    /// The superblock as it was read when the volume was opened.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.share().superblock
    }

    /// Sizes of the volume, which change when it [grows](Self::grow).
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.share().cache.geometry()
    }

    /// The buffer cache: metadata by disk address, for tools that look below files.
    #[must_use]
    pub fn cache(&self) -> &Arc<BufferCache> {
        &self.share().cache
    }

    /// The data device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.share().cache.device()
    }

    /// State of the log when the volume was opened; `None` where it was not looked at because its
    /// device was not given.
    #[must_use]
    pub fn log_state(&self) -> Option<&LogState> {
        self.share().log.as_ref()
    }

    /// The label as it is now.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn label(&self) -> Result<Label> {
        match &self.share().writing {
            Some(writing) => writing.parts().label(),
            None => Ok(self.superblock().label),
        }
    }

    /// Sets the label, on a volume that may be in use. Durable on return; programs that look at the device
    /// itself see it when the volume is closed at the latest.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; those of [every change](crate#errors). A copy of the superblock that
    /// is damaged does not keep the others from getting it. A crash leaves the old label or the new one, in each copy.
    #[doc(alias = "FS_IOC_SETFSLABEL")]
    pub fn set_label(&self, label: &Label) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.share().parts()?.writer().set_label(label)
    }

    /// The UUID by which the volume is known now.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn uuid(&self) -> Result<Uuid> {
        match &self.share().writing {
            Some(writing) => writing.parts().uuid(),
            None => Ok(self.superblock().uuid),
        }
    }

    /// Changes the UUID, on a volume that may be in use, and returns the new one. Who changes something
    /// meanwhile waits for a moment, as for [`freeze`](Self::freeze). Durable on return.
    /// [`Devices::set_uuid`](crate::Devices::set_uuid) does it on a volume that nobody has open.
    ///
    /// # Errors
    ///
    /// EROFS, EPERM without [`Capabilities::SYS_ADMIN`], EBUSY if the volume is frozen, the error of a write that was
    /// [lost](File#what-waits-in-memory). What the device meets shuts the volume down, which has the old UUID or the
    /// new one then, as after a crash; only where a copy of the superblock cannot be changed, it has the new one and
    /// goes on.
    pub fn set_uuid(&self, change: UuidChange) -> Result<Uuid> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.share().parts()?.set_uuid(change)
    }

    /// What was wrong when the volume was opened and did not keep it from being shown: the end of
    /// the device is missing, or the log with it.
    #[must_use]
    pub fn findings(&self) -> &[Error] {
        self.0.findings()
    }

    /// Why what is shown may be out of date, if it may.
    #[must_use]
    pub fn staleness(&self) -> Option<Staleness> {
        self.share().staleness
    }

    /// Space and inodes, counted over the allocation groups.
    ///
    /// # Errors
    ///
    /// The headers of an allocation group may be corrupt.
    pub fn space(&self) -> Result<Space> {
        space::count(self.share())
    }

    /// The root directory.
    ///
    /// # Errors
    ///
    /// It may be corrupt.
    pub fn root(&self) -> Result<Node> {
        self.share().node(self.share().superblock.root_inode)
    }

    /// The inode of this number, from wherever the number comes: it is looked up in the inode
    /// btree before the inode is read.
    ///
    /// # Errors
    ///
    /// ENOENT if no inode has the number; EPERM without [`Capabilities::DAC_READ_SEARCH`]; what the volume
    /// holds may be corrupt.
    #[doc(alias = "open_by_handle_at")]
    pub fn node(&self, number: InodeNumber) -> Result<Node> {
        self.require(Capabilities::DAC_READ_SEARCH)?;
        match xfs_alloc::inode_state(self.cache(), number)? {
            InodeState::Allocated => self.share().node(number),
            InodeState::Free | InodeState::Absent => Err(PosixError::NotFound.into()),
        }
    }

    /// The inode of this number, which a name was seen to lead to, or which somebody holds that has
    /// lost its last name: as [`node`](Self::node), without asking the inode btree.
    ///
    /// # Errors
    ///
    /// ENOENT if it has been freed since; EPERM without [`Capabilities::DAC_READ_SEARCH`]; what the volume
    /// holds may be corrupt.
    pub fn named_node(&self, number: InodeNumber) -> Result<Node> {
        self.require(Capabilities::DAC_READ_SEARCH)?;
        self.share().node(number)
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        self.0.here()
    }

    /// The inode that a path means; a link in the last place is followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES for who may not search a directory on the way; what the volume
    /// holds may be corrupt.
    pub fn lookup(&self, path: impl AsRef<Path>) -> Result<Node> {
        self.find_path(path.as_ref(), LastLink::Follow)
    }

    fn find_path(&self, path: &Path, last: LastLink) -> Result<Node> {
        match resolve_remembered(self.share(), path, last)? {
            Some(node) => Ok(node),
            None => resolve(&self.root()?, path, last),
        }
    }

    /// The inode that a path means; a link in the last place is what it means.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup).
    pub fn lookup_no_follow(&self, path: impl AsRef<Path>) -> Result<Node> {
        self.find_path(path.as_ref(), LastLink::Keep)
    }

    /// Metadata of what a path means, links followed.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup).
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.lookup(path)?.metadata())
    }

    /// Metadata of what a path means, a link itself included.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup).
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.lookup_no_follow(path)?.metadata())
    }

    /// The entries of a directory.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup).
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        self.lookup(path)?.entries()
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// As [`lookup`](Self::lookup) and [`Node::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.lookup(path)?.open()
    }

    /// Opens a regular file for reading. What would write to it fails with EBADF.
    ///
    /// # Errors
    ///
    /// As [`open_file`](Self::open_file).
    pub fn open_file_read_only(&self, path: impl AsRef<Path>) -> Result<File> {
        self.lookup(path)?.into_read_only()
    }

    /// The whole contents of a regular file.
    ///
    /// # Errors
    ///
    /// As [`open_file_read_only`](Self::open_file_read_only), as an [`std::io::Error`] with the reason as its source.
    /// Memory grows with what is read: a sparse file of a petabyte ends with an error of the
    /// allocator's.
    pub fn read(&self, path: impl AsRef<Path>) -> std::io::Result<Vec<u8>> {
        let mut file = self.open_file_read_only(path).map_err(to_io_error)?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Where a symbolic link points.
    ///
    /// # Errors
    ///
    /// EINVAL if it is no link, and as [`lookup`](Self::lookup).
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<OsString> {
        self.lookup_no_follow(path)?.read_link()
    }

    /// Walks the tree below a path, depth first, each directory before its contents. Links are not
    /// followed.
    ///
    /// # Errors
    ///
    /// As [`lookup_no_follow`](Self::lookup_no_follow); errors below are items of the iterator.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        let path = path.as_ref();
        Ok(Walk::new(path, self.lookup_no_follow(path)?))
    }

    /// Every path of an inode: from the parent pointers where the volume has them, else by a walk
    /// over all directories.
    ///
    /// # Errors
    ///
    /// As [`node`](Self::node); EPERM without [`Capabilities::SYS_ADMIN`]. What could not be read on the way
    /// is part of the answer.
    pub fn whereabouts(&self, number: InodeNumber) -> Result<Whereabouts> {
        self.require(Capabilities::SYS_ADMIN)?;
        Ok(whereabouts::find(&self.node(number)?))
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("uuid", &self.share().superblock.uuid)
            .finish_non_exhaustive()
    }
}
