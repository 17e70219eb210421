//! Requests of operations: the file to create, the attributes to set, the kind of rename and
//! removal.

use xfs_format::inode::{DeviceNumber, ExtendedFlags, FileType};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;

/// The kind of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A symbolic link with this target of 1 to 1023 bytes.
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

/// Owner and permissions of a new file.
///
/// In a directory with the set-group-ID bit the file gets the directory's group, and a new
/// directory also gets the bit. A default access control list of the directory replaces the umask.
/// Files that a caller other than root makes (`Volume::as_user`) belong to the caller, whatever
/// owner is given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Permission bits, up to 0o7777.
    pub mode: u16,
    /// Owner; not `u32::MAX`, which is no user.
    pub uid: u32,
    /// Group; not `u32::MAX`.
    pub gid: u32,
    /// Permission bits that the file does not get; 0 masks nothing.
    pub umask: u16,
}

/// The changes of an inode. Fields that are `None` stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits, up to 0o7777. An access control list follows them.
    pub mode: Option<u16>,
    /// Owner; not `u32::MAX`, which is no user.
    pub uid: Option<u32>,
    /// Group; not `u32::MAX`.
    pub gid: Option<u32>,
    /// Project.
    pub project_id: Option<u32>,
    /// Time of the last read.
    pub accessed: Option<Timestamp>,
    /// Time of the last change of the contents.
    pub modified: Option<Timestamp>,
    /// Time of the last change of anything; the current time if `None`.
    pub changed: Option<Timestamp>,
    /// Time at which the inode was made.
    pub created: Option<Timestamp>,
    /// Flags. Those that are no property of a single file are ignored.
    pub xflags: Option<ExtendedFlags>,
    /// Extent size hint in bytes, a multiple of the block size; 0 for none.
    pub extent_size_hint_bytes: Option<u64>,
    /// Extent size hint for copies of shared blocks, in bytes.
    pub cow_extent_size_hint_bytes: Option<u64>,
}

impl SetAttributes {
    /// Returns whether anything changes that one ioctl sets: flags, project, hints.
    #[doc(alias = "FS_IOC_FSSETXATTR")]
    pub(crate) fn has_settings(&self) -> bool {
        let has_hints =
            self.extent_size_hint_bytes.is_some() || self.cow_extent_size_hint_bytes.is_some();
        self.xflags.is_some() || self.project_id.is_some() || has_hints
    }

    /// Returns whether nothing else changes. Flags that forbid a change also forbid it together
    /// with a change of the flags, as if the flags were set last.
    pub(crate) fn are_settings_alone(&self) -> bool {
        let Self { mode, uid, gid, accessed, modified, changed, created, .. } = self;
        let has_times = [accessed, modified, changed, created].iter().any(|time| time.is_some());
        let has_more = mode.is_some() || uid.is_some() || gid.is_some() || has_times;
        self.has_settings() && !has_more
    }
}

/// How a rename treats an existing new name, and what it leaves under the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// An existing target is replaced.
    #[default]
    Replace,
    /// EEXIST if the new name is taken.
    #[doc(alias = "RENAME_NOREPLACE")]
    NoReplace,
    /// The two names are exchanged; both must exist.
    #[doc(alias = "RENAME_EXCHANGE")]
    Exchange,
    /// As `Replace`. The old name becomes a whiteout of an overlay.
    #[doc(alias = "RENAME_WHITEOUT")]
    Whiteout,
}

/// The expected kind of a file to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Anything but a directory.
    #[doc(alias = "unlink")]
    File,
    /// An empty directory.
    #[doc(alias = "rmdir")]
    Directory,
}

impl Removal {
    /// Returns how many links the file or directory loses.
    pub(crate) const fn links(self) -> u32 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
        }
    }
}
