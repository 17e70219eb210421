//! The operations on a filesystem, as values: a history is a list of them.
//!
//! Owns: the operations and their possible results. Does **not** own: their effect (the model) or
//! how they are performed (a subject).

use bitflags::bitflags;

use crate::digest::{Digest, SparseDigest};
use crate::ioctl::FileFlags;
use crate::view::Time;

/// A path from the root of the volume (or of the folder that replaces it), without a leading `/`.
pub type Path = String;

/// The number of files that a history may hold open at once.
pub const SLOTS: usize = 4;

/// A regular file, named by its path or by a slot that has it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTarget {
    /// The file at this path, opened for this operation only, and for writing if the operation
    /// changes anything. A symbolic link in the last component is refused.
    Path(Path),
    /// The file in this slot.
    Slot(usize),
}

/// The treatment of the old and the new name in a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// An existing target is replaced.
    Replace,
    /// The target must not exist.
    NoReplace,
    /// The source and the target are exchanged.
    Exchange,
    /// An existing target is replaced, and the source becomes a whiteout.
    Whiteout,
}

/// The modes of fallocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of fallocate(2)")]
pub enum AllocationMode {
    Allocate,
    AllocateKeepSize,
    PunchHole,
    Zero,
    ZeroKeepSize,
    Collapse,
    Insert,
    Unshare,
}

/// Whether an extended attribute must exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetMode {
    /// The attribute may exist.
    Either,
    /// The attribute must not exist.
    Create,
    /// The attribute must exist.
    Replace,
}

/// The scope of a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durable {
    /// All changes of one file: fsync.
    File(FileTarget),
    /// Contents and size of one file: fdatasync.
    Contents(FileTarget),
    /// All changes of a directory: fsync.
    Directory(Path),
    /// All changes of the volume: syncfs.
    Volume,
}

/// A range of one file, and a range of the same length in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRanges {
    /// The source file.
    pub from: FileTarget,
    /// Offset in the source.
    pub from_offset: u64,
    /// The target file.
    pub to: FileTarget,
    /// Offset in the target.
    pub to_offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The settings of a node that FS_IOC_FSSETXATTR changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// The flags. Two of them say whether the two hints below are set.
    pub flags: FileFlags,
    /// Project ID.
    pub project_id: u32,
    /// The extent size hint in bytes.
    pub extent_size: u32,
    /// The copy-on-write extent size hint in bytes.
    pub cow_extent_size: u32,
}

/// The kind of an access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// The list that controls access to the file.
    Access,
    /// The list that new nodes in the directory inherit.
    Default,
}

impl ListKind {
    /// Returns the name of the attribute with which programs access the list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "system.posix_acl_access",
            Self::Default => "system.posix_acl_default",
        }
    }

    /// Returns the name of the attribute that stores the list on disk.
    pub const fn kept_name(self) -> &'static str {
        match self {
            Self::Access => "trusted.SGI_ACL_FILE",
            Self::Default => "trusted.SGI_ACL_DEFAULT",
        }
    }
}

/// An entry of an access control list, valid or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEntry {
    /// The kind of entry, one of the bits in acl(5).
    pub tag: u16,
    /// The permissions: the sum of read 4, write 2 and execute 1.
    pub permissions: u16,
    /// The user or group ID, if the tag needs one.
    pub id: u32,
}

/// The I/O mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// Through the page cache.
    Cached,
    /// Bypassing the page cache: O_DIRECT.
    Direct,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the arguments of the system calls")]
pub enum Operation {
    /// Performs open(O_CREAT | O_EXCL) and close.
    Create {
        path: Path,
        mode: u32,
    },
    MakeDirectory {
        path: Path,
        mode: u32,
    },
    /// Performs mknod. The mode contains the type.
    MakeNode {
        path: Path,
        mode: u32,
        device: (u32, u32),
    },
    Symlink {
        target: Vec<u8>,
        path: Path,
    },
    Link {
        from: Path,
        to: Path,
    },
    Unlink {
        path: Path,
    },
    RemoveDirectory {
        path: Path,
    },
    Rename {
        from: Path,
        to: Path,
        mode: RenameMode,
    },
    /// Performs open(O_TMPFILE). The file takes the slot.
    MakeTemporary {
        slot: usize,
        folder: Path,
        mode: u32,
    },
    /// Performs linkat of an open file.
    LinkSlot {
        slot: usize,
        path: Path,
    },
    /// Performs open for reading and writing. A file in the slot is closed first.
    Open {
        slot: usize,
        path: Path,
    },
    Close {
        slot: usize,
    },
    /// Writes the [`pattern`] of the number.
    Write {
        file: FileTarget,
        offset: u64,
        length: u64,
        number: u64,
    },
    Read {
        file: FileTarget,
        offset: u64,
        length: u64,
    },
    /// Performs pwritev from buffers of these lengths, with the same bytes as `Write`.
    WritePieces {
        file: FileTarget,
        offset: u64,
        lengths: Vec<u64>,
        number: u64,
        way: IoMode,
    },
    /// Performs preadv into buffers of these lengths.
    ReadPieces {
        file: FileTarget,
        offset: u64,
        lengths: Vec<u64>,
        way: IoMode,
    },
    /// Seeks with SEEK_DATA and SEEK_HOLE from a sector to the end, and reads only the data.
    Scan {
        file: FileTarget,
        offset: u64,
    },
    Truncate {
        file: FileTarget,
        size: u64,
    },
    Allocate {
        file: FileTarget,
        mode: AllocationMode,
        offset: u64,
        length: u64,
    },
    /// FICLONERANGE.
    Clone(FileRanges),
    /// FIDEDUPERANGE.
    Deduplicate(FileRanges),
    /// XFS_IOC_EXCHANGE_RANGE of two files.
    Exchange(FileRanges),
    /// lsetxattr. The value is the [`pattern`] of the number.
    SetAttribute {
        path: Path,
        name: String,
        length: usize,
        number: u64,
        mode: SetMode,
    },
    RemoveAttribute {
        path: Path,
        name: String,
    },
    /// lsetxattr of an access control list.
    SetList {
        path: Path,
        kind: ListKind,
        version: u32,
        entries: Vec<ListEntry>,
    },
    ChangeMode {
        path: Path,
        mode: u32,
    },
    /// lchown.
    ChangeOwner {
        path: Path,
        uid: u32,
        gid: u32,
    },
    /// utimensat with AT_SYMLINK_NOFOLLOW: access and modification time.
    SetTimes {
        path: Path,
        accessed: Option<Time>,
        modified: Option<Time>,
    },
    SetFlags {
        path: Path,
        settings: NodeSettings,
    },
    /// readdir, without `.` and `..`.
    List {
        path: Path,
    },
    Sync(Durable),
}

/// The result of a successful operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No data.
    Done,
    /// The bytes that were read.
    Bytes(Digest),
    /// The number of names in a directory, and the digest of these names in byte order.
    Names(usize, Digest),
    /// The non-zero data of a file.
    Scanned(SparseDigest),
    /// The result of a comparison: whether the ranges were equal.
    Compared(bool),
}

/// The features of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Bytes per block.
    pub block_bytes: u64,
    /// Bytes per inode, which determine how much data fits in the inode itself.
    pub inode_bytes: u64,
    /// The optional operations that the volume supports.
    pub abilities: Abilities,
}

impl Features {
    /// Returns the realtime extent size that mkfs gives volumes without a realtime device.
    pub(crate) fn realtime_extent_bytes(&self) -> u64 {
        self.block_bytes.max(4096)
    }
}

bitflags! {
    /// Operations that not every volume supports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Abilities: u32 {
        /// Extents can be shared.
        const REFLINK = 1;
        /// Ranges can be exchanged.
        const EXCHANGE = 2;
    }
}

/// Returns the bytes that a write with this number puts at an offset. Every eight bytes identify
/// the write and their own position, so that a misplaced byte is detected.
pub fn pattern(number: u64, offset: u64, length: usize) -> Vec<u8> {
    let start = offset / 8;
    let skip = (offset % 8) as usize;
    let words = (start..).map(|word| {
        let mixed = (number << 24 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29) | 1).to_be_bytes()
    });
    words.take(length / 8 + 2).flatten().skip(skip).take(length).collect()
}

/// Returns an access control list in the form that programs pass to Linux.
#[allow(clippy::little_endian_bytes, reason = "lists are little-endian in Linux")]
pub fn list_value(version: u32, entries: &[ListEntry]) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    for entry in entries {
        value.extend(entry.tag.to_le_bytes());
        value.extend(entry.permissions.to_le_bytes());
        value.extend(entry.id.to_le_bytes());
    }
    value
}

/// Returns the names of a directory, which are sorted in byte order, as [`Outcome::Names`].
pub fn names<'a>(sorted: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut digest = Digest::default();
    let count = sorted
        .inspect(|name| {
            digest.update(name);
            digest.update(b"/");
        })
        .count();
    Outcome::Names(count, digest)
}

/// Returns bytes as [`Outcome::Bytes`].
pub fn bytes(bytes: &[u8]) -> Outcome {
    let mut digest = Digest::default();
    digest.update(bytes);
    Outcome::Bytes(digest)
}
