//! The row of one inode: its form in memory and in the spill file, and the view that an output
//! gets.
//!
//! # Invariants
//!
//! - **I1** A [`Row`] has no padding and no pointer, so it can be packed as a number of words.

use std::borrow::Cow;
use std::collections::HashMap;

use uuid::Uuid;
use xfs_format::inode::{
    DeviceNumber, FileType, InodeCore, InodeFlags2, pack_device, unpack_device,
};
use xfs_format::timestamp::{self, Timestamp};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Nanoseconds between the start of the bigtime range and 1970.
const EPOCH_NANOSECONDS: u64 = (1 << 31) * 1_000_000_000;

/// A time as nanoseconds since 1901-12-13 20:45:52 UTC. With this origin, the times of both
/// timestamp formats fit into 64 bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable,
)]
#[repr(transparent)]
pub struct Moment(u64);

impl Moment {
    /// Converts a timestamp of the volume. No timestamp of a volume overflows.
    #[must_use]
    pub fn new(stamp: Timestamp) -> Self {
        Self(timestamp::encode_bigtime(stamp).unwrap_or_default())
    }

    /// Converts nanoseconds since 1970. `None` before the first time that a volume can hold.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: i64) -> Option<Self> {
        match EPOCH_NANOSECONDS.checked_add_signed(nanoseconds) {
            Some(time) => Some(Self(time)),
            None => None,
        }
    }

    /// Returns the nanoseconds since the origin of this type. Two times are equal if these are.
    pub(crate) const fn since_origin(self) -> u64 {
        self.0
    }

    /// Returns the difference to an `earlier` time, as a time. It wraps around if the times are in
    /// the other order.
    pub(crate) const fn wrapping_sub(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// Returns the time from which [`wrapping_sub`](Self::wrapping_sub) gave the `difference`.
    pub(crate) const fn wrapping_add(self, difference: Self) -> Self {
        Self(self.0.wrapping_add(difference.0))
    }

    /// The latest time. It stands for a time that Arrow cannot hold.
    #[cfg(feature = "parquet")]
    pub(crate) const MAX: Self = Self(u64::MAX);

    /// Returns the nanoseconds since 1970 as a sign (`true` if negative) and a magnitude.
    #[must_use]
    pub const fn sign_and_nanoseconds(self) -> (bool, u64) {
        (self.0 < EPOCH_NANOSECONDS, self.0.abs_diff(EPOCH_NANOSECONDS))
    }

    /// Returns nanoseconds since 1970, or `None` after 2262-04-11, where signed 64 bits end.
    #[must_use]
    pub fn nanoseconds(self) -> Option<i64> {
        let (is_negative, magnitude) = self.sign_and_nanoseconds();
        let magnitude = i64::try_from(magnitude).ok()?;
        Some(if is_negative { -magnitude } else { magnitude })
    }

    /// Returns whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        (self.0 / 1_000_000_000) as i64 - (1 << 31)
    }
}

/// The stored attributes of one inode. Its links, target and attribute names are in the arena of
/// its batch, which holds the bytes of all names.
// `IntoBytes` is refused to a type with padding or a pointer (I1).
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Number of filesystem blocks that data fork and attribute fork have allocated.
    pub fs_blocks: u64,
    /// Access time.
    pub atime: Moment,
    /// Modification time.
    pub mtime: Moment,
    /// Change time.
    pub ctime: Moment,
    /// Birth time.
    pub btime: Moment,
    /// Number of extent records of the data fork.
    pub extents: u64,
    /// The inode's change counter (`di_changecount`), which rises when its contents or attributes
    /// change; 0 on a volume of version 4.
    pub change_count: u64,
    /// Log sequence number of the last logged change that the inode on disk includes; 0 on a volume
    /// of version 4.
    pub lsn: u64,
    /// The flag word `di_flags2`, with the flag for shared blocks among others; 0 on a volume of
    /// version 4.
    pub flags2: u64,
    /// Number of extent records of the attribute fork.
    pub attr_extents: u32,
    /// Generation of the inode number.
    pub generation: u32,
    /// `st_mode`: the permissions and the file type.
    pub mode: u32,
    /// Link count of the inode.
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Project ID.
    pub project_id: u32,
    /// Flags in the form of `FS_IOC_FSGETXATTR`.
    pub xflags: u32,
    /// Device number as XFS stores it, 0 for an inode that is not a device.
    pub packed_rdev: u32,
    /// Offset of this row's items (links, symlink target, attribute names) in the arena of its
    /// batch, in bytes.
    pub(crate) items_start: u32,
    /// Length of this row's items (links, symlink target, attribute names) in bytes.
    pub(crate) items_length: u32,
    /// The flag word `di_flags`.
    pub flags: u32,
}

impl Row {
    /// Creates the row of a verified inode.
    #[must_use]
    pub fn new(core: &InodeCore) -> Self {
        Self {
            ino: core.number.0,
            size: core.size,
            fs_blocks: core.blocks,
            atime: Moment::new(core.access_time),
            mtime: Moment::new(core.modify_time),
            ctime: Moment::new(core.change_time),
            btime: Moment::new(core.birth_time),
            extents: core.extents,
            change_count: core.change_count,
            lsn: core.lsn.0,
            flags2: core.flags2.bits(),
            attr_extents: core.attr_extents,
            generation: core.generation,
            mode: core.mode.into(),
            nlink: core.nlink,
            uid: core.uid,
            gid: core.gid,
            project_id: core.project_id,
            xflags: core.xflags().bits(),
            packed_rdev: core.rdev.and_then(pack_device).unwrap_or_default(),
            items_start: 0,
            items_length: 0,
            flags: core.flags.bits().into(),
        }
    }

    /// Returns whether data blocks of the inode may be shared with another file.
    #[must_use]
    pub const fn is_reflink(&self) -> bool {
        self.flags2 & InodeFlags2::REFLINK.bits() != 0
    }

    /// Returns the file type, or `None` if the mode has no valid type.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode as u16)
    }

    /// Returns the file type as a word, such as `file`.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self.file_type() {
            Some(FileType::Regular) => "file",
            Some(FileType::Directory) => "directory",
            Some(FileType::Symlink) => "symlink",
            Some(FileType::CharDevice) => "char_device",
            Some(FileType::BlockDevice) => "block_device",
            Some(FileType::Fifo) => "fifo",
            Some(FileType::Socket) => "socket",
            None => "unknown",
        }
    }

    /// Returns the device number in the form of Linux's `st_rdev`, 0 for an inode that is not a
    /// device.
    #[must_use]
    pub const fn rdev(&self) -> u64 {
        let DeviceNumber { major, minor } = unpack_device(self.packed_rdev);
        let (major, minor) = (major as u64, minor as u64);
        (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
    }
}

/// The volume to which a row belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLabel {
    /// UUID of the volume.
    pub uuid: Uuid,
    /// Label of the volume, without its padding. A label need not be UTF-8.
    pub label: Vec<u8>,
    /// Which state of the volume the rows show. `None` if that is not known.
    pub log: Option<LogView>,
}

/// Which state of a volume is read, as far as its log decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogView {
    /// The newest state: the log was clean or was replayed.
    Current,
    /// The volume was in use, and its log was not replayed.
    Live,
    /// The log was not replayed.
    NotReplayed,
}

impl LogView {
    /// Returns the name of the state in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Live => "live",
            Self::NotReplayed => "not_replayed",
        }
    }
}

impl VolumeLabel {
    /// Returns the label as text. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn label_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.label)
    }
}

/// A list of byte strings in one buffer, which can be emptied and filled again without allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteList {
    /// Empties the list, and keeps its memory for later strings.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the string `item`.
    pub fn push(&mut self, item: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(item));
    }

    /// Adds one string. `write` gets the buffer of the list, to which it appends the bytes of the
    /// string.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total length of the strings in bytes.
    #[must_use]
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the list has no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string with this index; `None` if there are fewer strings.
    #[must_use]
    pub fn item(&self, index: usize) -> Option<&[u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(index)?)
    }

    /// Returns the strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, &end)| self.bytes.get(start..end))
    }
}

/// The directory of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParentDirectory {
    /// Inode number of the directory.
    pub ino: u64,
    /// Generation of the directory; 0 if it is not known.
    pub generation: u32,
}

/// The names of users and groups by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerNames {
    /// The names of users by uid.
    pub users: HashMap<u32, String>,
    /// The names of groups by gid.
    pub groups: HashMap<u32, String>,
}

/// One inode with all data that an output or summary needs.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    /// The stored attributes of the inode.
    pub row: &'a Row,
    /// Allocation group of the inode.
    pub ag: u32,
    /// Base-2 logarithm of the number of 512-byte units in a filesystem block.
    pub block_units_log: u8,
    /// All paths of the inode. Empty for an orphan, and if paths were not requested.
    pub paths: &'a ByteList,
    /// The directory of each path, in the order of `paths`. Empty if the directories are not known.
    pub parents: &'a [ParentDirectory],
    /// Whether no path leads to the inode. `false` if paths were not requested.
    pub is_orphan: bool,
    /// The hash of the contents. `None` if the inode has none.
    pub hash: Option<&'a str>,
    /// The target of the symbolic link. `None` if the target was not requested, or the inode is of
    /// another type.
    pub symlink: Option<&'a [u8]>,
    /// The names of the extended attributes. Empty if they were not requested.
    pub xattrs: &'a ByteList,
    /// Number of filesystem blocks in the realtime section; 0 if the number was not requested.
    pub realtime_fs_blocks: u64,
    /// The names of users and groups; `None` if they were not requested.
    pub names: Option<&'a OwnerNames>,
}

impl<'a> RowView<'a> {
    /// Returns the name of the user that owns the inode; `None` if the table does not have it.
    #[must_use]
    pub fn owner(&self) -> Option<&'a str> {
        self.names?.users.get(&self.row.uid).map(String::as_str)
    }

    /// Returns the name of the inode's group; `None` if the table does not have it.
    #[must_use]
    pub fn group(&self) -> Option<&'a str> {
        self.names?.groups.get(&self.row.gid).map(String::as_str)
    }

    /// Returns the directories of the paths in the order of the output: first those of the paths
    /// that are UTF-8, then those of the others, because the output has them in two columns.
    pub fn parents_in_columns(&self) -> impl Iterator<Item = ParentDirectory> + Clone {
        let of = |is_text: bool| {
            let paths = self.paths.iter().zip(self.parents);
            let wanted =
                paths.filter(move |(path, _)| std::str::from_utf8(path).is_ok() == is_text);
            wanted.map(|(_, parent)| *parent)
        };
        of(true).chain(of(false))
    }

    /// Returns the allocated space in units of 512 bytes. The product cannot overflow, because the
    /// inode's verifier bounds the number of blocks by the size of the volume.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.row.fs_blocks << self.block_units_log
    }

    /// Returns the allocated space in the realtime section in units of 512 bytes.
    #[must_use]
    pub const fn realtime_blocks(&self) -> u64 {
        self.realtime_fs_blocks.saturating_mul(1 << self.block_units_log)
    }
}

#[cfg(test)]
mod tests;
