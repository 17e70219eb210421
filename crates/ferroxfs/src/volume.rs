//! An open volume: access to its parts, syncing and closing.

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
use xfs_buffer::PosixError;
use xfs_device::BlockDevice;
use xfs_format::superblock::Label;
use xfs_format::{Geometry, InodeNumber, Uuid};
use xfs_vfs::{Capabilities, Credentials, Metadata, UuidChange};

use crate::inode_paths::{self, InodePaths};
use crate::node::Node;
use crate::open::{OpenError, OpenOptions};
use crate::resolve::{LastLink, resolve, resolve_remembered};
use crate::space::{self, Space};
use crate::volume_ref::{Staleness, VolumeInner, VolumeRef, VolumeShards};
use crate::walk::Walk;
pub use grow::GrowError;

use crate::{Error, File, ReadDir, Result};

/// An XFS volume, open for reading or for writing.
///
/// Cloning is cheap and gives the same volume. A volume that is open for reading closes with its
/// last clone, [`Node`] or [`File`], and starts no threads. One that is open for writing has
/// threads that write its log, force it regularly ([`Upkeep`](crate::admin::Upkeep)) and free
/// removed files, and is closed by [`close`](Self::close). Every method may be called from any
/// thread.
///
/// # Paths
///
/// A path is resolved from the root of the volume: an absolute link starts again there, and `..` in
/// the root is the root. Files made by path belong to user and group 0, or to the [user that the
/// volume acts for](Self::as_user). Directories get the mode 0o755 and files 0o644;
/// [`Node::create`] makes files with other properties. The directory that a path names as the
/// parent must exist.
///
/// Each change by path is one change of a [`Node`], unless it says otherwise. The
/// [crate](crate#changes) says what a crash leaves of it, when it is durable, and how it fails on a
/// volume that is open for reading or was shut down. Its errors are those of that change and of
/// [`lookup`](Self::lookup), and EINVAL for a path that ends in no name.
#[derive(Clone)]
pub struct Volume(Arc<VolumeShards>);

impl Volume {
    /// Opens the volume in an image file or on a block device for reading, with the default
    /// [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::new().open(path)
    }

    /// Writes everything in place and marks the log clean. A volume that is dropped instead is left
    /// as after a crash: the next open recovers all durable changes.
    ///
    /// # Errors
    ///
    /// - EBUSY if another clone, [`Node`] or [`File`] keeps the volume open. This clone is dropped
    ///   nevertheless. If it was the last clone, the volume can no longer be closed, only dropped.
    /// - The error that kept an inode from being freed since the volume was opened. In this case
    ///   everything is durable, and the next open recovers the log.
    /// - The error of the log, or [`Error::Shutdown`] if the volume was shut down. The next open
    ///   recovers the durable changes.
    /// - The error of a [lost](File#buffered-bytes) write of a dropped handle, or the error of a
    ///   discard. The volume is closed nevertheless.
    ///
    /// On a volume that is open for reading there is nothing to do.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.0).ok().and_then(VolumeShards::into_threads) {
            Some(Some(threads)) => threads.close(),
            Some(None) => Ok(()),
            None => Err(PosixError::Busy.into()),
        }
    }

    /// Returns the same volume on behalf of a user. Operations through the returned volume, and
    /// through every [`Node`], [`File`] and listing that comes from it, are allowed or refused as
    /// on Linux: by the owners, permission bits and access control lists of the files, and by these
    /// credentials. New files belong to the user.
    ///
    /// ```
    /// # let device = xfs_trans::testing::make();
    /// # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
    /// use ferroxfs::{Access, Credentials};
    ///
    /// volume.write("/plain", b"text")?;
    /// let user = volume.as_user(Credentials::new(1000, 1000).groups([100]));
    /// user.access("/plain", Access::READ)?;
    /// assert!(user.access("/plain", Access::WRITE).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// An open file stays usable, even if its mode changes. Operations on the volume as a whole
    /// need [`Capabilities::SYS_ADMIN`]. The checks separate the users that a program serves. They
    /// do not confine the program itself, which can use the [`device`](Self::device).
    ///
    /// The returned volume uses some memory for each processor, so a program should keep it for all
    /// operations of the user.
    #[must_use]
    pub fn as_user(&self, credentials: Credentials) -> Self {
        Self(Arc::new(self.0.acting_as(credentials)))
    }

    /// Checks that the caller has a capability.
    pub(crate) fn require(&self, capability: Capabilities) -> Result<()> {
        self.volume_ref().caller().require(capability)
    }

    pub(crate) fn new(core: VolumeInner, findings: Vec<Error>) -> Self {
        Self(Arc::new(VolumeShards::new(core, findings)))
    }

    /// Returns the geometry of the volume: its sizes and features. The sizes change when the volume
    /// [grows](Self::grow).
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.volume_ref().cache().geometry()
    }

    /// Returns the data device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.volume_ref().cache().device()
    }

    /// Returns the current label.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn label(&self) -> Result<Label> {
        match self.volume_ref().threads() {
            Some(threads) => threads.mount().label(),
            None => Ok(self.volume_ref().superblock().label),
        }
    }

    /// Sets the label, also while the volume is in use. The new label is durable on return.
    /// Programs that read the device directly see it when the volume is closed at the latest.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; the errors of [every change](crate#errors). If
    /// one copy of the superblock is damaged, the other copies are changed nevertheless. After a
    /// crash, each copy has the old label or the new one. On a volume with realtime groups, other
    /// changes wait for a moment, as for [`set_uuid`](Self::set_uuid), and EBUSY is returned if the
    /// volume is frozen.
    #[doc(alias = "FS_IOC_SETFSLABEL")]
    pub fn set_label(&self, label: &Label) -> Result<()> {
        self.require(Capabilities::SYS_ADMIN)?;
        let mount = self.volume_ref().mount()?;
        match mount.has_realtime_superblock() {
            true => mount.set_label_at_rest(label),
            false => mount.write_guard().mount().set_label(label),
        }
    }

    /// Returns the current UUID.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn uuid(&self) -> Result<Uuid> {
        match self.volume_ref().threads() {
            Some(threads) => threads.mount().uuid(),
            None => Ok(self.volume_ref().superblock().uuid),
        }
    }

    /// Changes the UUID, also while the volume is in use, and returns the new one. Other changes
    /// wait for a moment, as for [`freeze`](Self::freeze). The new UUID is durable on return.
    /// [`Devices::set_uuid`](crate::device::Devices::set_uuid) changes the UUID of a volume that is
    /// not open.
    ///
    /// # Errors
    ///
    /// EROFS, EPERM without [`Capabilities::SYS_ADMIN`], EBUSY if the volume is frozen, the error
    /// of a [lost](File#buffered-bytes) write. An error of the device shuts the volume down. The
    /// volume then has the old UUID or the new one, as after a crash. If only a copy of the
    /// superblock cannot be changed, the volume has the new UUID and continues.
    pub fn set_uuid(&self, change: UuidChange) -> Result<Uuid> {
        self.require(Capabilities::SYS_ADMIN)?;
        self.volume_ref().mount()?.set_uuid(change)
    }

    /// Returns the damage that was found when the volume was opened and that did not prevent
    /// opening it, such as a device that ends before the volume does.
    #[must_use]
    pub fn findings(&self) -> &[Error] {
        self.0.findings()
    }

    /// Returns why the volume may show a state that is out of date or inconsistent. `None`: the
    /// state is current.
    #[must_use]
    pub fn staleness(&self) -> Option<Staleness> {
        self.volume_ref().staleness()
    }

    /// Returns the space and the number of inodes, summed up over the allocation groups.
    ///
    /// # Errors
    ///
    /// EUCLEAN for a corrupt header of an allocation group.
    pub fn space(&self) -> Result<Space> {
        space::count(self.volume_ref())
    }

    /// Returns the inode number of the root directory.
    #[must_use]
    pub fn root_number(&self) -> InodeNumber {
        self.volume_ref().superblock().root_inode
    }

    /// Returns the root directory.
    ///
    /// # Errors
    ///
    /// EUCLEAN for a corrupt root inode.
    pub fn root(&self) -> Result<Node> {
        self.volume_ref().node(self.volume_ref().superblock().root_inode)
    }

    /// Returns the root of the metadata directory, to which no path leads. Its entries are the
    /// files of realtime groups and of quota.
    ///
    /// # Errors
    ///
    /// ENOENT for a volume without a metadata directory; EPERM without
    /// [`Capabilities::SYS_ADMIN`]; EUCLEAN for a corrupt root.
    #[doc(alias = "metadir")]
    pub fn metadata_root(&self) -> Result<Node> {
        self.require(Capabilities::SYS_ADMIN)?;
        let root = self.volume_ref().superblock().metadata_directory_inode;
        let node = self.volume_ref().node(root.ok_or(PosixError::NotFound)?)?;
        node.check_metadata(true)?;
        Ok(node)
    }

    /// Returns the inode of this number. The number need not be trusted: the inode is read only if
    /// the inode btree says that it exists.
    ///
    /// # Errors
    ///
    /// ENOENT if no inode has the number, or an inode of the metadata directory has it; EPERM
    /// without [`Capabilities::DAC_READ_SEARCH`]; EUCLEAN for a corrupt volume.
    #[doc(alias = "open_by_handle_at")]
    pub fn node(&self, number: InodeNumber) -> Result<Node> {
        self.require(Capabilities::DAC_READ_SEARCH)?;
        match xfs_alloc::inode_state(self.volume_ref().cache(), number)? {
            InodeState::Allocated => {
                let node = self.volume_ref().node(number)?;
                if node.is_metadata() { Err(PosixError::NotFound.into()) } else { Ok(node) }
            }
            InodeState::Free | InodeState::Absent => Err(PosixError::NotFound.into()),
        }
    }

    /// Returns the inode of this number as [`node`](Self::node) does, but without a search in the
    /// inode btree. The caller must know that the number belongs to an inode in use: a name led to
    /// the inode, or a handle on it is still open after its last name was removed.
    ///
    /// # Errors
    ///
    /// ENOENT if the inode was freed since; EPERM without [`Capabilities::DAC_READ_SEARCH`];
    /// EUCLEAN for a corrupt volume.
    pub fn node_trusted(&self, number: InodeNumber) -> Result<Node> {
        self.require(Capabilities::DAC_READ_SEARCH)?;
        self.volume_ref().node(number)
    }

    pub(crate) fn volume_ref(&self) -> &Arc<VolumeRef> {
        self.0.here()
    }

    /// Returns the inode that a path means. A link in the last component is followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES if the caller may not search a directory on the
    /// way; EUCLEAN for a corrupt volume.
    pub fn lookup(&self, path: impl AsRef<Path>) -> Result<Node> {
        self.find_path(path.as_ref(), LastLink::Follow)
    }

    fn find_path(&self, path: &Path, last: LastLink) -> Result<Node> {
        match resolve_remembered(self.volume_ref(), path, last)? {
            Some(node) => Ok(node),
            None => resolve(&self.root()?, path, last),
        }
    }

    /// Returns the inode that a path means. A link in the last component is the result.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup).
    pub fn lookup_no_follow(&self, path: impl AsRef<Path>) -> Result<Node> {
        self.find_path(path.as_ref(), LastLink::Keep)
    }

    /// Returns the metadata of the inode that a path means, links followed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup).
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.lookup(path)?.metadata())
    }

    /// Returns the metadata of the inode that a path means, which may be a link itself.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup).
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        Ok(self.lookup_no_follow(path)?.metadata())
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup).
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        self.lookup(path)?.entries()
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup`](Self::lookup) and [`Node::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.lookup(path)?.open()
    }

    /// Opens a regular file for reading. Writing fails with EBADF.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_file`](Self::open_file).
    pub fn open_file_read_only(&self, path: impl AsRef<Path>) -> Result<File> {
        self.lookup(path)?.into_read_only()
    }

    /// Returns the whole contents of a regular file.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_file_read_only`](Self::open_file_read_only), as an
    /// [`std::io::Error`] with the reason as its source. Memory grows with the contents: a sparse
    /// file of a petabyte ends with an error of the allocator.
    pub fn read(&self, path: impl AsRef<Path>) -> std::io::Result<Vec<u8>> {
        let mut file = self.open_file_read_only(path)?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// EINVAL if the inode is no symbolic link; the errors of [`lookup`](Self::lookup).
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<OsString> {
        self.lookup_no_follow(path)?.read_link()
    }

    /// Walks the tree below a path, depth first, each directory before its contents. Links are not
    /// followed.
    ///
    /// ```
    /// # let device = xfs_trans::testing::make();
    /// # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
    /// volume.create_dir_all("/a/b")?;
    /// volume.write("/a/file", b"text")?;
    /// let mut bytes = 0;
    /// for entry in volume.walk("/a")?.sorted() {
    ///     match entry {
    ///         Ok(entry) => bytes += entry.node.metadata().size,
    ///         // The walk continues with everything that can still be read.
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// assert!(bytes >= 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lookup_no_follow`](Self::lookup_no_follow). Errors below that path
    /// are items of the iterator.
    pub fn walk(&self, path: impl AsRef<Path>) -> Result<Walk> {
        let path = path.as_ref();
        Ok(Walk::new(path, self.lookup_no_follow(path)?))
    }

    /// Returns every path of an inode: from the parent pointers if the volume has them, otherwise
    /// by a walk over all directories.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`node`](Self::node). Also returns EPERM without
    /// [`Capabilities::SYS_ADMIN`]. Errors of the search are in the result.
    pub fn inode_paths(&self, number: InodeNumber) -> Result<InodePaths> {
        self.require(Capabilities::SYS_ADMIN)?;
        Ok(inode_paths::find(&self.node(number)?))
    }
}

impl Node {
    /// Returns the same file on behalf of the user of `volume`, which is this volume [as another
    /// user](Volume::as_user). Each operation on the returned node is checked for that user. It is
    /// not checked whether the user could have reached the file by a path, as with an `O_PATH`
    /// descriptor that was handed to the user.
    ///
    /// # Errors
    ///
    /// EXDEV if `volume` is a different volume.
    #[doc(alias = "SCM_RIGHTS")]
    pub fn acting_as(&self, volume: &Volume) -> Result<Self> {
        let volume = volume.volume_ref();
        if !volume.is_of_volume(self.volume_ref()) {
            return Err(PosixError::CrossDevice.into());
        }
        let volume = Arc::clone(volume);
        Ok(self.through(volume))
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("uuid", &self.volume_ref().superblock().uuid)
            .finish_non_exhaustive()
    }
}
