//! A handle on one inode.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use xfs_buffer::{BufferCache, PosixError};
use xfs_dir::{Cookie, Directory};
use xfs_format::InodeNumber;
use xfs_format::inode::{FileType, ForkKind};
use xfs_inode::{Inode, LiveInode};
use xfs_sync::{Object, SharedLatch};

use crate::acl::{Acl, AclKind};
use crate::attributes::{self, Attribute};
use crate::credentials::{Capabilities, Credentials};
use crate::extents::FileExtents;
use crate::kind::CachedInode;
use crate::metadata::Metadata;
use crate::permission::{Access, Who};
use crate::share::{Share, User};
use crate::statistics::Activity;
use crate::whereabouts::{self, Parent};
use crate::writing::{Acting, Parts, check_not_immutable};
use crate::{Error, ListingProgress, ReadDir, ReadDirPlus, Result, Volume};

/// A handle on one inode, as a descriptor opened with `O_PATH` is: it can be asked for metadata,
/// looked into, or opened.
///
/// Cloning is cheap. The handle keeps the volume open, and on one that is written to it keeps the
/// file, also when that has lost its last name.
///
/// Each operation that changes something is one change: the [crate](crate#changes) says what a crash leaves of it,
/// when it is durable, and how it fails on a volume that is open for reading or was shut down.
#[derive(Clone)]
pub struct Node {
    inode: Source,
}

/// Where a node's inode is.
#[derive(Clone)]
enum Source {
    /// As it was read: the volume does not change.
    Still(Arc<Share>, Arc<Inode>),
    /// Where operations change it.
    Live(User),
}

/// An inode as it is now. While this is held nobody changes it: hold it shortly, and ask for no
/// other view of the same inode meanwhile.
pub struct InodeView<'a>(View<'a>);

enum View<'a> {
    Still(&'a Inode),
    Live { inode: LiveInode<'a>, _latch: SharedLatch<'a, Object> },
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
    pub(crate) fn still(share: Arc<Share>, inode: Arc<Inode>) -> Self {
        Self { inode: Source::Still(share, inode) }
    }

    pub(crate) fn live(user: User) -> Self {
        Self { inode: Source::Live(user) }
    }

    /// The entry of the inode, and what its volume is written with.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub(crate) fn writable(&self) -> Result<(&Parts, &Arc<CachedInode>)> {
        match &self.inode {
            Source::Live(user) => Ok((self.share().parts()?, user.entry())),
            Source::Still(..) => Err(PosixError::ReadOnly.into()),
        }
    }

    /// As [`writable`](Self::writable), for an operation that changes something, with who asks for it: it
    /// waits while the volume is frozen.
    ///
    /// # Errors
    ///
    /// EROFS on a volume that is open for reading.
    pub(crate) fn acting(&self) -> Result<(Acting<'_>, &Arc<CachedInode>)> {
        let (parts, entry) = self.writable()?;
        Ok((Acting::writing(parts.writer(), self.who()), entry))
    }

    /// Gives up the handle. What has no name and no other user is freed before this returns, where a handle that is
    /// dropped leaves that to a thread; to the thread it is left too while the volume is [frozen](crate::Volume::freeze).
    /// Why something could not be freed is said when the volume is [closed](crate::Volume::close).
    pub fn finish(self) {
        if let Source::Live(user) = self.inode {
            user.finish();
        }
    }

    /// Counts what was done to the inode. Of a volume that is open for reading nothing is counted.
    pub(crate) fn note(&self, activity: Activity) {
        if let Ok((parts, _)) = self.writable() {
            parts.note(activity);
        }
    }

    /// The same file, for who acts by `volume`, which is this one [as somebody else](Volume::as_user): as if they
    /// had been handed an open directory, or a descriptor opened with `O_PATH`. What they do with it is
    /// asked for; that they have it is not.
    ///
    /// # Errors
    ///
    /// EXDEV if it is another volume.
    #[doc(alias = "SCM_RIGHTS")]
    pub fn acting_as(&self, volume: &Volume) -> Result<Self> {
        let share = volume.share();
        if !share.is_of_volume(self.share()) {
            return Err(PosixError::CrossDevice.into());
        }
        let share = Arc::clone(share);
        Ok(match &self.inode {
            Source::Still(_, inode) => Self::still(share, Arc::clone(inode)),
            Source::Live(user) => Self::live(user.by(share)),
        })
    }

    /// Who asks.
    pub(crate) fn who(&self) -> Who<'_> {
        self.share().who()
    }

    /// Whether who asks may use the file so. Root may do everything but write what is immutable.
    pub(crate) fn check(&self, wanted: Access) -> Result<()> {
        match self.who().somebody() {
            Some(me) => me.check(self.cache(), &self.inode(), wanted),
            None if wanted.contains(Access::WRITE) => check_not_immutable(self.inode().core()),
            None => Ok(()),
        }
    }

    /// Whether who asks may use the file so, by its owner, permission bits and access control list. Nothing
    /// is granted to everybody.
    ///
    /// # Errors
    ///
    /// EACCES; EPERM to write what is immutable; EROFS to write on a volume that is open for reading, where
    /// it is no device, pipe or socket.
    #[doc(alias = "faccessat2")]
    pub fn access(&self, wanted: Access) -> Result<()> {
        let is_ours =
            matches!(self.file_type(), FileType::Regular | FileType::Directory | FileType::Symlink);
        if wanted.contains(Access::WRITE) && is_ours {
            self.writable()?;
        }
        match self.who().somebody() {
            Some(_) => self.check(wanted),
            None => Credentials::root().check(self.cache(), &self.inode(), wanted),
        }
    }

    /// Whether who asks may do what only the owner of the file may, as opening it with `O_NOATIME`.
    ///
    /// # Errors
    ///
    /// EPERM.
    pub fn check_owner(&self) -> Result<()> {
        self.who().check_owner(self.inode().core())
    }

    /// The use of the inode, if it may change.
    pub(crate) fn user(&self) -> Option<&User> {
        match &self.inode {
            Source::Live(user) => Some(user),
            Source::Still(..) => None,
        }
    }

    /// The inode number.
    #[must_use]
    pub fn number(&self) -> InodeNumber {
        match &self.inode {
            Source::Still(_, inode) => inode.number(),
            Source::Live(user) => user.entry().number(),
        }
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        match &self.inode {
            Source::Still(share, _) => share,
            Source::Live(user) => user.share(),
        }
    }

    /// The buffer cache of the volume.
    pub(crate) fn cache(&self) -> &Arc<BufferCache> {
        &self.share().cache
    }

    /// The in-core inode.
    #[must_use]
    pub fn inode(&self) -> InodeView<'_> {
        InodeView(match &self.inode {
            Source::Still(_, inode) => View::Still(inode),
            Source::Live(user) => {
                let live = user.entry().live();
                let latch = live.record().latch().shared();
                View::Live { inode: live.inode(), _latch: latch }
            }
        })
    }

    /// The inode, if it does not change.
    pub(crate) fn still_inode(&self) -> Option<&Inode> {
        match &self.inode {
            Source::Still(_, inode) => Some(inode),
            Source::Live(_) => None,
        }
    }

    /// Metadata.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let geometry = self.cache().geometry();
        let buffered = self.writable().ok().and_then(|(_, entry)| entry.known_contents()?.shown());
        let mut metadata = Metadata::new(&self.inode(), geometry);
        if let Some(buffered) = buffered {
            buffered.add_to(&mut metadata, geometry);
        }
        metadata
    }

    /// The address of the cache line that is read of the inode at each open and close, for who measures what difference
    /// its neighbours make. `None` on a volume that is open for reading: nobody writes there what others read.
    #[doc(hidden)]
    #[must_use]
    pub fn memory_address(&self) -> Option<usize> {
        let line = |user: &User| std::ptr::from_ref(user.entry().marks()).addr() & !63;
        self.user().map(line)
    }

    /// Type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        match &self.inode {
            Source::Still(_, inode) => inode.file_type(),
            Source::Live(user) => user.entry().file_type(),
        }
    }

    /// The inode that `name` means in this directory; links are not followed.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR, EACCES; what the volume holds may be corrupt.
    pub fn lookup(&self, name: &OsStr) -> Result<Self> {
        self.check_searchable()?;
        if name.as_bytes() == b"." {
            return self.in_directory(|_| Ok(())).map(|()| self.clone());
        }
        if let Source::Live(user) = &self.inode {
            let parts = self.share().parts()?;
            parts.note(Activity::NameLookup);
            let entry = parts.look_up_and_note(user.entry(), name.as_bytes())?;
            return Ok(self.share().live(entry));
        }
        let (number, _) = self.in_directory(|directory| directory.lookup(name.as_bytes()))?;
        self.share().node(number)
    }

    /// The error of a lookup: damage instead of ENOENT where the directory holds the name, and its index does not.
    ///
    /// Only on a volume that nobody changes, and only of a path that a caller has named: it reads the whole directory.
    pub(crate) fn explain_missing(&self, name: &OsStr, error: Error) -> Error {
        let is_still = self.share().parts().is_err() && self.cache().rereads() == 0;
        if !is_still || !matches!(error, Error::Posix(PosixError::NotFound)) {
            return error;
        }
        let verified = self.in_directory(|directory| directory.verify_missing(name.as_bytes()));
        verified.err().unwrap_or(error)
    }

    /// The directory above this one; the root's is the root.
    ///
    /// # Errors
    ///
    /// ENOTDIR, EACCES; what the volume holds may be corrupt.
    pub fn parent(&self) -> Result<Self> {
        self.check_searchable()?;
        let parent = self.in_directory(|directory| directory.parent())?;
        self.share().node(parent)
    }

    /// The entries of this directory, without `.` and `..`, in the order of their place on disk.
    ///
    /// # Errors
    ///
    /// ENOTDIR, EACCES; damage that shows later is an item of the iterator.
    pub fn entries(&self) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::whole(self.clone()))
    }

    /// The entries that a listing has not returned yet, which was [left](ReadDir::into_progress).
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries).
    pub fn entries_again(&self, from: Cookie, progress: ListingProgress) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::again(self.clone(), from, progress))
    }

    fn check_listable(&self) -> Result<()> {
        self.in_directory(|_| Ok(()))?;
        self.check(Access::READ)
    }

    /// The entries of this directory that lie at `from` or behind it. What is listed in pieces, each
    /// from [`Cookie::after`] the last entry of the one before, misses nothing that was there all the
    /// time, whatever comes and goes meanwhile.
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries).
    pub fn entries_from(&self, from: Cookie) -> Result<ReadDir> {
        self.check_listable()?;
        Ok(ReadDir::new(self.clone(), from))
    }

    /// As [`entries_from`](Self::entries_from), each with the metadata of what it names.
    ///
    /// # Errors
    ///
    /// As [`entries`](Self::entries).
    pub fn entries_with_metadata_from(&self, from: Cookie) -> Result<ReadDirPlus> {
        self.entries_from(from).map(ReadDirPlus::new)
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
        self.inode().read_target(self.cache()).map(OsString::from_vec)
    }

    /// The extended attributes, under the names that Linux shows. A part that cannot be read is an error
    /// among them.
    #[must_use]
    pub fn attributes(&self) -> Vec<Result<Attribute>> {
        self.note(Activity::AttributeListing);
        attributes::list(self)
    }

    /// The value of one extended attribute, by its Linux name such as `user.mime_type`.
    ///
    /// # Errors
    ///
    /// ENODATA if there is none, or none for who asks; EACCES; what the volume holds may be corrupt.
    pub fn attribute(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.note(Activity::AttributeRead);
        attributes::value(self, name)
    }

    /// An access control list; `None` if there is none, and the permission bits say it all.
    ///
    /// # Errors
    ///
    /// What the volume holds may be corrupt.
    #[doc(alias = "xfs_get_acl")]
    pub fn acl(&self, kind: AclKind) -> Result<Option<Acl>> {
        Acl::read(self.cache(), &self.inode(), kind)
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
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EOPNOTSUPP on a volume without parent pointers; what the volume holds may be corrupt.
    pub fn parents(&self) -> Result<Vec<Parent>> {
        self.who().require(Capabilities::SYS_ADMIN)?;
        whereabouts::parents(self)
    }

    /// Whether who asks may look for names in this directory.
    fn check_searchable(&self) -> Result<()> {
        let Some(me) = self.who().somebody() else { return Ok(()) };
        self.in_directory(|_| Ok(()))?;
        let inode = self.inode();
        if let Some(user) = self.user()
            && user.entry().rights().is_none()
            && Acl::read(self.cache(), &inode, AclKind::Access)?.is_none()
        {
            user.entry().note_rights(inode.core().into());
        }
        me.check(self.cache(), &inode, Access::EXECUTE)
    }

    /// Looks into this directory, which does not change meanwhile.
    pub(crate) fn in_directory<T>(
        &self,
        look: impl FnOnce(&Directory<'_>) -> Result<T>,
    ) -> Result<T> {
        look(&Directory::new(self.cache(), &self.inode())?)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("number", &self.number()).finish_non_exhaustive()
    }
}
