//! A handle on one inode: its metadata, its lookups and its checks of access.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use xfs_buffer::{BufferCache, PosixError};
use xfs_dir::Directory;
use xfs_format::inode::{FileType, InodeCheck, InodeFlags2};
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress};
use xfs_inode::{Inode, InodeGuard};
use xfs_sync::{Object, SharedLatch};
use xfs_vfs::{
    Access, Acl, AclKind, Activity, CachedInode, Caller, Credentials, Metadata, Mount, OpContext,
    check_access, check_not_immutable, metadata_of_inode, read_acl,
};

use crate::volume_ref::{InodeRef, VolumeRef};
use crate::{Error, Result};

/// A handle on one inode, similar to a descriptor opened with `O_PATH`: it returns metadata, looks
/// up names, and opens files.
///
/// Cloning is cheap. The handle keeps the volume open. On a volume that is open for writing, it
/// also keeps the file, even after the file has lost its last name.
///
/// Each operation that changes something is one change. The [crate](crate#changes) says what a
/// crash leaves of it, when it is durable, and how it fails on a volume that is open for reading or
/// was shut down.
#[derive(Clone)]
pub struct Node {
    inode: NodeInode,
}

/// The form in which a node holds its inode.
#[derive(Clone)]
enum NodeInode {
    /// A copy of the inode as it was read. The volume is open for reading and does not change.
    Still(Arc<VolumeRef>, Arc<Inode>),
    /// The cached inode, which operations change.
    Live(InodeRef),
}

/// A view of an in-core inode. Nothing changes the inode while the view exists. Drop the view soon,
/// and take no second view of the same inode meanwhile.
#[cfg_attr(
    not(feature = "raw"),
    expect(unreachable_pub, reason = "the feature `raw` makes it public")
)]
pub struct InodeView<'a>(View<'a>);

enum View<'a> {
    Still(&'a Inode),
    Live { inode: InodeGuard<'a>, _latch: SharedLatch<'a, Object> },
}

impl Deref for InodeView<'_> {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        match &self.0 {
            View::Still(inode) => inode,
            View::Live { inode, .. } => inode,
        }
    }
}

impl Node {
    pub(crate) fn still(volume: Arc<VolumeRef>, inode: Arc<Inode>) -> Self {
        Self { inode: NodeInode::Still(volume, inode) }
    }

    pub(crate) fn live(inode_ref: InodeRef) -> Self {
        Self { inode: NodeInode::Live(inode_ref) }
    }

    /// Returns the mount and the cached inode, for a change.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub(crate) fn writable(&self) -> Result<(&Mount, &Arc<CachedInode>)> {
        match &self.inode {
            NodeInode::Live(inode_ref) => Ok((inode_ref.mount(), inode_ref.inode())),
            NodeInode::Still(..) => Err(PosixError::ReadOnly.into()),
        }
    }

    /// Returns the context of an operation, and the cached inode. Waits while the volume is frozen.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub(crate) fn op_context(&self) -> Result<(OpContext<'_>, &Arc<CachedInode>)> {
        let (mount, entry) = self.writable()?;
        Ok((OpContext::new(mount.write_guard(), self.caller()), entry))
    }

    /// Closes the handle. If the inode has no name and no other reference, it is freed before this
    /// call returns. If the handle is dropped instead, a background thread frees the inode. If the
    /// volume is [frozen](crate::Volume::freeze), `finish` does not wait: the background thread
    /// frees the inode after the thaw. If an inode could not be freed,
    /// [`close`](crate::Volume::close) of the volume returns the error.
    pub fn finish(self) {
        if let NodeInode::Live(inode_ref) = self.inode {
            inode_ref.finish_unless_frozen();
        }
    }

    /// Counts an activity, such as a lookup, in the statistics of the volume. On a volume that is
    /// open for reading, nothing is counted.
    pub(crate) fn note(&self, activity: Activity) {
        if let Ok((mount, _)) = self.writable() {
            mount.note(activity);
        }
    }

    /// Returns a handle on the same inode. The new handle uses `volume`, another reference to the
    /// same volume, and acts for the caller of that reference.
    pub(crate) fn through(&self, volume: Arc<VolumeRef>) -> Self {
        match &self.inode {
            NodeInode::Still(_, inode) => Self::still(volume, Arc::clone(inode)),
            NodeInode::Live(inode_ref) => Self::live(volume.share_inode(inode_ref)),
        }
    }

    /// Returns the caller of operations on this node, whose permissions are checked.
    pub(crate) fn caller(&self) -> Caller<'_> {
        self.volume_ref().caller()
    }

    /// Checks the caller's access to the file. Root has every access, except to write an immutable
    /// file.
    pub(crate) fn check(&self, wanted: Access) -> Result<()> {
        match self.caller().credentials() {
            Some(me) => check_access(me, self.cache(), &self.view(), wanted),
            None if wanted.contains(Access::WRITE) => check_not_immutable(self.view().core()),
            None => Ok(()),
        }
    }

    /// Checks the caller's access to the file, by its owner, permission bits and access control
    /// list. A request for no access at all always succeeds.
    ///
    /// # Errors
    ///
    /// EACCES; EPERM to write an immutable file; EROFS to write on a volume that is open for
    /// reading, unless the file is a device, pipe or socket.
    #[doc(alias = "faccessat2")]
    pub fn access(&self, wanted: Access) -> Result<()> {
        let is_ours =
            matches!(self.file_type(), FileType::Regular | FileType::Directory | FileType::Symlink);
        if wanted.contains(Access::WRITE) && is_ours {
            self.writable()?;
        }
        match self.caller().credentials() {
            Some(_) => self.check(wanted),
            None => check_access(&Credentials::root(), self.cache(), &self.view(), wanted),
        }
    }

    /// Checks that the caller may do what only the owner of the file may, such as opening it with
    /// `O_NOATIME`.
    ///
    /// # Errors
    ///
    /// EPERM.
    pub fn check_owner(&self) -> Result<()> {
        self.caller().check_owner(self.view().core())
    }

    /// Returns the reference to the cached inode. `None` on a volume that is open for reading.
    pub(crate) fn inode_ref(&self) -> Option<&InodeRef> {
        match &self.inode {
            NodeInode::Live(inode_ref) => Some(inode_ref),
            NodeInode::Still(..) => None,
        }
    }

    /// Returns the inode number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        match &self.inode {
            NodeInode::Still(_, inode) => inode.number(),
            NodeInode::Live(inode_ref) => inode_ref.inode().number(),
        }
    }

    pub(crate) fn volume_ref(&self) -> &Arc<VolumeRef> {
        match &self.inode {
            NodeInode::Still(volume, _) => volume,
            NodeInode::Live(inode_ref) => inode_ref.handle().volume_ref(),
        }
    }

    /// Returns the buffer cache of the volume.
    pub(crate) fn cache(&self) -> &Arc<BufferCache> {
        self.volume_ref().cache()
    }

    /// Returns a view of the in-core inode.
    pub(crate) fn view(&self) -> InodeView<'_> {
        InodeView(match &self.inode {
            NodeInode::Still(_, inode) => View::Still(inode),
            NodeInode::Live(inode_ref) => {
                let live = inode_ref.inode().live();
                let latch = live.log_item().latch().shared();
                View::Live { inode: live.inode(), _latch: latch }
            }
        })
    }

    /// Returns the in-core inode if it cannot change. `None` on a volume that is open for writing.
    pub(crate) fn still_inode(&self) -> Option<&Inode> {
        match &self.inode {
            NodeInode::Still(_, inode) => Some(inode),
            NodeInode::Live(_) => None,
        }
    }

    /// Returns the metadata of the inode.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let geometry = self.cache().geometry();
        let buffered = self.writable().ok().and_then(|(_, entry)| entry.known_contents()?.shown());
        let mut metadata = metadata_of_inode(&self.view(), geometry);
        if let Some(buffered) = buffered {
            buffered.add_to(&mut metadata, geometry);
        }
        metadata
    }

    /// Returns the type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        match &self.inode {
            NodeInode::Still(_, inode) => inode.file_type(),
            NodeInode::Live(inode_ref) => inode_ref.inode().file_type(),
        }
    }

    /// Returns the inode that `name` means in this directory; links are not followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, EACCES; EUCLEAN for a corrupt volume.
    pub fn lookup(&self, name: &OsStr) -> Result<Self> {
        self.check_searchable()?;
        if name.as_bytes() == b"." {
            return self.in_directory(|_| Ok(())).map(|()| self.clone());
        }
        if let NodeInode::Live(inode_ref) = &self.inode {
            let mount = self.volume_ref().mount()?;
            mount.note(Activity::NameLookup);
            let entry = mount.look_up_and_note(inode_ref.inode(), name.as_bytes())?;
            return Ok(self.volume_ref().node_of(entry));
        }
        let (number, _) = self.in_directory(|directory| directory.lookup(name.as_bytes()))?;
        let node = self.volume_ref().node(number)?;
        node.check_metadata(self.is_metadata())?;
        Ok(node)
    }

    /// Returns whether the inode belongs to the metadata directory.
    pub(crate) fn is_metadata(&self) -> bool {
        self.view().core().flags2.contains(InodeFlags2::METADATA)
    }

    /// Checks that the inode belongs to the metadata directory if `expected` is true, and that it
    /// does not if `expected` is false.
    pub(crate) fn check_metadata(&self, expected: bool) -> Result<()> {
        if self.is_metadata() == expected {
            return Ok(());
        }
        let place = StructureAddress::Inode(self.number());
        Err(Corruption::new(Structure::Inode, place, InodeCheck::MetadataMismatch).into())
    }

    /// Returns the error for a name that a lookup did not find. If the directory has an entry of
    /// this name that its index lacks, the error reports this damage. In all other cases it is
    /// `error`, the error of the lookup.
    ///
    /// This reads the whole directory. So the search is made only on a volume that does not change,
    /// and only for a path that a caller has given.
    pub(crate) fn explain_missing(&self, name: &OsStr, error: Error) -> Error {
        let is_still = self.volume_ref().mount().is_err() && self.cache().rereads() == 0;
        if !is_still || !matches!(error, Error::Posix(PosixError::NotFound)) {
            return error;
        }
        let verified = self.in_directory(|directory| directory.verify_missing(name.as_bytes()));
        verified.err().unwrap_or(error)
    }

    /// Returns the parent directory of this directory. The parent of the root is the root itself.
    ///
    /// # Errors
    ///
    /// ENOTDIR, EACCES; EUCLEAN for a corrupt volume.
    pub fn parent(&self) -> Result<Self> {
        self.check_searchable()?;
        let parent = self.in_directory(|directory| directory.parent())?;
        self.volume_ref().node(parent)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// EINVAL if this is no link; EUCLEAN for a corrupt volume.
    pub fn read_link(&self) -> Result<OsString> {
        if self.file_type() != FileType::Symlink {
            return Err(PosixError::InvalidArgument.into());
        }
        self.view().read_target(self.cache()).map(OsString::from_vec)
    }

    /// Returns an access control list. `None`: there is none, and the permission bits decide alone.
    ///
    /// # Errors
    ///
    /// EUCLEAN for a corrupt volume.
    #[doc(alias = "xfs_get_acl")]
    pub fn acl(&self, kind: AclKind) -> Result<Option<Acl>> {
        read_acl(self.cache(), &self.view(), kind)
    }

    /// Checks that this is a directory that the caller may search.
    fn check_searchable(&self) -> Result<()> {
        let Some(me) = self.caller().credentials() else { return Ok(()) };
        self.in_directory(|_| Ok(()))?;
        let inode = self.view();
        if let Some(inode_ref) = self.inode_ref()
            && inode_ref.inode().rights().is_none()
            && read_acl(self.cache(), &inode, AclKind::Access)?.is_none()
        {
            inode_ref.inode().note_rights(inode.core().into());
        }
        check_access(me, self.cache(), &inode, Access::EXECUTE)
    }

    /// Calls `look` with a view of this directory, and returns the result of `look`. The directory
    /// does not change during the call.
    pub(crate) fn in_directory<T>(
        &self,
        look: impl FnOnce(&Directory<'_>) -> Result<T>,
    ) -> Result<T> {
        look(&Directory::new(self.cache(), &self.view())?)
    }
}

impl VolumeRef {
    /// Returns the node of an inode whose number comes from a directory entry, a parent pointer or
    /// the superblock.
    pub(crate) fn node(self: &Arc<Self>, number: InodeNumber) -> Result<Node> {
        if let Some(threads) = self.threads() {
            return threads.mount().take(number).map(|inode| self.node_of(inode));
        }
        let inode = Inode::read(self.cache(), number)?;
        Ok(Node::still(self.here(), Arc::new(inode)))
    }

    /// Makes a node that owns the given reference to an inode of this volume.
    pub(crate) fn node_of(self: &Arc<Self>, inode: xfs_vfs::InodeRef<&Mount>) -> Node {
        Node::live(inode.sharded(self.here().mounted()))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number()).finish_non_exhaustive()
    }
}
