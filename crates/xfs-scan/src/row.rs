//! The row of one inode: how it is kept between reading and output, and how an output sees it.
//!
//! # Invariants
//!
//! - **I1** A [`Row`] has no padding and no pointer: a batch of rows is its own spill form.

use std::borrow::Cow;

use uuid::Uuid;
use xfs_format::inode::{DeviceNumber, FileType, InodeCore};
use xfs_format::timestamp::Timestamp;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Nanoseconds between the start of the bigtime range and 1970.
const EPOCH_NANOSECONDS: u64 = (1 << 31) * 1_000_000_000;

/// A moment as nanoseconds since 1901-12-13 20:45:52 UTC: the one range that holds both forms of time
/// stamp in 64 bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable,
)]
#[repr(transparent)]
pub struct Moment(u64);

impl Moment {
    /// The moment of a time stamp. Every time stamp that a volume can hold is in range.
    #[must_use]
    pub fn new(stamp: Timestamp) -> Self {
        Self(stamp.encode_bigtime().unwrap_or_default())
    }

    /// Nanoseconds since 1970: the sign, and the magnitude.
    #[must_use]
    pub const fn sign_and_nanoseconds(self) -> (bool, u64) {
        (self.0 < EPOCH_NANOSECONDS, self.0.abs_diff(EPOCH_NANOSECONDS))
    }

    /// Nanoseconds since 1970, or `None` after 2262-04-11, where 64 bits with a sign end.
    #[must_use]
    pub fn nanoseconds(self) -> Option<i64> {
        let (is_negative, magnitude) = self.sign_and_nanoseconds();
        let magnitude = i64::try_from(magnitude).ok()?;
        Some(if is_negative { -magnitude } else { magnitude })
    }

    /// Whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        (self.0 / 1_000_000_000) as i64 - (1 << 31)
    }
}

/// What is kept of one inode. Names, targets and attribute names are beside it in its batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Filesystem blocks of both forks.
    pub fs_blocks: u64,
    /// Last read.
    pub atime: Moment,
    /// Last change of the contents.
    pub mtime: Moment,
    /// Last change of the inode.
    pub ctime: Moment,
    /// When the inode was made.
    pub btime: Moment,
    /// Extent records of the data fork.
    pub extents: u64,
    /// Extent records of the attribute fork.
    pub attr_extents: u32,
    /// Generation of the inode number.
    pub generation: u32,
    /// `st_mode`.
    pub mode: u32,
    /// Links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project_id: u32,
    /// Flags as `FS_IOC_FSGETXATTR` has them.
    pub xflags: u32,
    /// Device number as XFS packs it; 0 where there is none.
    pub packed_rdev: u32,
    /// Where the items of this row start in the arena of its batch.
    pub(crate) items_start: u32,
    /// How many bytes they take.
    pub(crate) items_length: u32,
    /// 1 where data blocks may be shared with another file.
    pub(crate) is_reflink: u32,
}

impl Row {
    /// The row of a verified inode.
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
            attr_extents: core.attr_extents,
            generation: core.generation,
            mode: core.mode.into(),
            nlink: core.nlink,
            uid: core.uid,
            gid: core.gid,
            project_id: core.project_id,
            xflags: core.xflags().bits(),
            packed_rdev: core.rdev.and_then(DeviceNumber::encode).unwrap_or_default(),
            items_start: 0,
            items_length: 0,
            is_reflink: core.flags2.contains(xfs_format::inode::InodeFlags2::REFLINK).into(),
        }
    }

    /// What kind of file it is.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode as u16)
    }

    /// The type as a word.
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

    /// The device number as `st_rdev` packs it on Linux; 0 where there is none.
    #[must_use]
    pub const fn rdev(&self) -> u64 {
        let DeviceNumber { major, minor } = DeviceNumber::decode(self.packed_rdev);
        let (major, minor) = (major as u64, minor as u64);
        (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
    }
}

/// Which volume a row is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLabel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label, without the padding. Bytes: nothing says that it is UTF-8.
    pub label: Vec<u8>,
}

impl VolumeLabel {
    /// The label for an output that holds only text.
    #[must_use]
    pub fn label_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.label)
    }
}

/// A list of byte strings that is filled again and again without allocating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteList {
    /// Empties it; its memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds one string.
    pub fn push(&mut self, item: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(item));
    }

    /// Adds one string, which `write` appends to the bytes it is handed.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How long they are together.
    #[must_use]
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, &end)| self.bytes.get(start..end))
    }
}

/// One inode as an output sees it.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    /// Its row.
    pub row: &'a Row,
    /// Its allocation group.
    pub ag: u32,
    /// Logarithm of the 512-byte units in a filesystem block.
    pub block_units_log: u8,
    /// All its paths; empty where they were not asked for, and for an orphan.
    pub paths: &'a ByteList,
    /// Whether no path leads to it.
    pub is_orphan: bool,
    /// Target, where it was asked for and it is a symbolic link.
    pub symlink: Option<&'a [u8]>,
    /// Names of its attributes, where they were asked for.
    pub xattrs: &'a ByteList,
}

impl RowView<'_> {
    /// Allocated space in units of 512 bytes. The verifier bounds the count by the volume's size.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.row.fs_blocks << self.block_units_log
    }
}

#[cfg(test)]
mod tests;
