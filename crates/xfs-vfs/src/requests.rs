//! Arguments of operations: the file to create, the attributes to set, and the kinds of rename and
//! removal.

use xfs_format::inode::{DeviceNumber, ExtendedFlags, FileType};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;

/// The kind of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewKind<'a> {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A symbolic link with this target, which has 1 to 1023 bytes.
    Symlink(&'a [u8]),
}

impl NewKind<'_> {
    /// Returns the type of the file.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::CharacterDevice(_) => FileType::CharDevice,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::Symlink(_) => FileType::Symlink,
        }
    }

    pub(crate) const fn device(&self) -> Option<DeviceNumber> {
        match self {
            Self::CharacterDevice(device) | Self::BlockDevice(device) => Some(*device),
            _ => None,
        }
    }

    pub(crate) const fn transaction(&self) -> TransactionKind {
        match self {
            Self::Directory => TransactionKind::MakeDirectory,
            Self::Symlink(_) => TransactionKind::Symlink,
            _ => TransactionKind::Create,
        }
    }
}

/// The mode and owner that a caller requests for a new file.
///
/// In a directory with the set-group-ID bit, the file gets the directory's group, and a new
/// directory also gets the bit. If the directory has a default access control list, the list
/// replaces the umask. A caller other than root (`Volume::as_user`) always owns the files that it
/// makes.
///
/// ```
/// # use xfs_vfs::CreateOptions;
/// const SHARED: CreateOptions = CreateOptions::new(0o664).uid(1000).gid(100).umask(0o002);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Mode bits, up to 0o7777.
    pub mode: u16,
    /// User ID of the owner; `u32::MAX` is refused, because it is no user.
    pub uid: u32,
    /// Group ID; `u32::MAX` is refused.
    pub gid: u32,
    /// Permission bits that the file does not get. 0 masks nothing.
    pub umask: u16,
}

impl CreateOptions {
    /// Returns options for a file with these permission bits. The file belongs to user and group 0.
    #[must_use]
    pub const fn new(mode: u16) -> Self {
        Self { mode, uid: 0, gid: 0, umask: 0 }
    }

    /// Sets the owner.
    #[must_use]
    pub const fn uid(mut self, uid: u32) -> Self {
        self.uid = uid;
        self
    }

    /// Sets the group.
    #[must_use]
    pub const fn gid(mut self, gid: u32) -> Self {
        self.gid = gid;
        self
    }

    /// Sets the permission bits that the file does not get.
    #[must_use]
    pub const fn umask(mut self, umask: u16) -> Self {
        self.umask = umask;
        self
    }
}

/// Attributes of an inode to set. A field that is `None` stays as it is, except `changed`.
///
/// ```
/// # use xfs_vfs::SetAttributes;
/// let private = SetAttributes::new().mode(0o600).uid(1000).gid(1000);
/// assert_eq!(private.accessed, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAttributes {
    /// Mode bits, up to 0o7777. Setting them also changes the access control list of the file, if
    /// it has one.
    pub mode: Option<u16>,
    /// User ID of the owner; `u32::MAX` is refused, because it is no user.
    pub uid: Option<u32>,
    /// Group ID; `u32::MAX` is refused.
    pub gid: Option<u32>,
    /// Project ID.
    pub project_id: Option<u32>,
    /// Time of the last read.
    pub accessed: Option<Timestamp>,
    /// Time of the last change of the contents.
    pub modified: Option<Timestamp>,
    /// Time of the last change of the inode. With `None`, that time becomes the current time.
    pub changed: Option<Timestamp>,
    /// Time at which the inode was made.
    pub created: Option<Timestamp>,
    /// All flags that the file will have. Flags that no caller can set are ignored.
    pub xflags: Option<ExtendedFlags>,
    /// Extent size hint in bytes, a multiple of the block size. 0 removes the hint.
    pub extent_size_hint_bytes: Option<u64>,
    /// Copy-on-write extent size hint in bytes, a multiple of the block size. 0 removes the hint.
    pub cow_extent_size_hint_bytes: Option<u64>,
}

impl SetAttributes {
    /// Returns changes that leave everything as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permission bits.
    #[must_use]
    pub const fn mode(mut self, mode: u16) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the owner.
    #[must_use]
    pub const fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Sets the group.
    #[must_use]
    pub const fn gid(mut self, gid: u32) -> Self {
        self.gid = Some(gid);
        self
    }

    /// Sets the project.
    #[must_use]
    pub const fn project_id(mut self, project_id: u32) -> Self {
        self.project_id = Some(project_id);
        self
    }

    /// Sets the time of the last read.
    #[must_use]
    pub const fn accessed(mut self, accessed: Timestamp) -> Self {
        self.accessed = Some(accessed);
        self
    }

    /// Sets the time of the last change of the contents.
    #[must_use]
    pub const fn modified(mut self, modified: Timestamp) -> Self {
        self.modified = Some(modified);
        self
    }

    /// Sets the time of the last change of the inode.
    #[must_use]
    pub const fn changed(mut self, changed: Timestamp) -> Self {
        self.changed = Some(changed);
        self
    }

    /// Sets the time at which the inode was made.
    #[must_use]
    pub const fn created(mut self, created: Timestamp) -> Self {
        self.created = Some(created);
        self
    }

    /// Sets the flags.
    #[must_use]
    pub const fn xflags(mut self, xflags: ExtendedFlags) -> Self {
        self.xflags = Some(xflags);
        self
    }

    /// Sets the extent size hint.
    #[must_use]
    pub const fn extent_size_hint_bytes(mut self, extent_size_hint_bytes: u64) -> Self {
        self.extent_size_hint_bytes = Some(extent_size_hint_bytes);
        self
    }

    /// Sets the extent size hint for copies of shared blocks.
    #[must_use]
    pub const fn cow_extent_size_hint_bytes(mut self, cow_extent_size_hint_bytes: u64) -> Self {
        self.cow_extent_size_hint_bytes = Some(cow_extent_size_hint_bytes);
        self
    }

    /// Returns whether any attribute is set that FS_IOC_FSSETXATTR sets: flags, project or hints.
    #[doc(alias = "FS_IOC_FSSETXATTR")]
    pub(crate) fn has_settings(&self) -> bool {
        let has_hints =
            self.extent_size_hint_bytes.is_some() || self.cow_extent_size_hint_bytes.is_some();
        self.xflags.is_some() || self.project_id.is_some() || has_hints
    }

    /// Returns whether the changes set only flags, the project or extent size hints. All other
    /// changes are refused if the present flags of the file forbid them, even if the new flags
    /// would not.
    pub(crate) fn are_settings_alone(&self) -> bool {
        let Self { mode, uid, gid, accessed, modified, changed, created, .. } = self;
        let has_times = [accessed, modified, changed, created].iter().any(|time| time.is_some());
        let has_more = mode.is_some() || uid.is_some() || gid.is_some() || has_times;
        self.has_settings() && !has_more
    }
}

/// How a rename treats the old name, and a new name that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenameMode {
    /// An existing target is replaced.
    #[default]
    Replace,
    /// The rename fails with EEXIST if the new name is taken.
    #[doc(alias = "RENAME_NOREPLACE")]
    NoReplace,
    /// The two names are exchanged; both must exist.
    #[doc(alias = "RENAME_EXCHANGE")]
    Exchange,
    /// The same as `Replace`, and the old name becomes a whiteout of an overlay.
    #[doc(alias = "RENAME_WHITEOUT")]
    Whiteout,
}

/// The kind of file that a removal expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Any file except a directory.
    #[doc(alias = "unlink")]
    File,
    /// An empty directory.
    #[doc(alias = "rmdir")]
    Directory,
}

impl Removal {
    /// Returns the number of links that the removed file or directory loses.
    pub(crate) const fn links(self) -> u32 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
        }
    }
}
