//! The operations on a filesystem, as values: a history is a list of them.
//!
//! Owns: the operations and their possible results. Does **not** own: the effect of an operation,
//! which the model computes, or performing it, which a subject does.

use bitflags::bitflags;

use crate::digest::{Digest, SparseDigest};
use crate::ioctl::FileFlags;
use crate::view::Time;

/// A path from the root of the volume, or from a folder that is used as the root. It has no leading
/// `/`.
pub type Path = String;

/// Number of slots. In each slot a history may hold one file open.
pub const SLOTS: usize = 4;

/// A regular file, named by its path or by the slot in which it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTarget {
    /// The file at this path. It is opened for this operation only, and for writing if the
    /// operation changes it. A symbolic link in the last component is refused.
    Path(Path),
    /// The file that an earlier operation has left open in the slot with this number.
    Slot(usize),
}

/// How a rename treats an existing target and the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// An existing target is replaced.
    Replace,
    /// The target must not exist.
    NoReplace,
    /// The source and the target are exchanged.
    Exchange,
    /// An existing target is replaced, and a whiteout device takes the source's name.
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

/// Whether setting an extended attribute requires that the attribute exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetMode {
    /// The attribute may exist or not.
    Either,
    /// The attribute must not exist.
    Create,
    /// The attribute must exist.
    Replace,
}

/// The scope of a sync operation, with its system call.
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
    /// Byte offset of the range in the source file.
    pub from_offset: u64,
    /// The target file.
    pub to: FileTarget,
    /// Byte offset of the range in the target file.
    pub to_offset: u64,
    /// Length of each of the two ranges in bytes.
    pub length: u64,
}

/// The settings of a node that FS_IOC_FSSETXATTR changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// The flags. Two of them say whether `extent_size` and `cow_extent_size` are set.
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
    /// Returns the name of the attribute with which programs read and write the list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "system.posix_acl_access",
            Self::Default => "system.posix_acl_default",
        }
    }

    /// Returns the name of the attribute in which XFS stores the list on disk.
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
    /// The user or group ID, for tags that need one.
    pub id: u32,
}

/// How a read or a write uses the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// Through the page cache.
    Cached,
    /// Bypassing the page cache: O_DIRECT.
    Direct,
}

/// One operation of a history.
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
    /// Performs mknod. The mode contains the file type.
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
    /// Performs open(O_TMPFILE), and keeps the file open in `slot`.
    MakeTemporary {
        slot: usize,
        folder: Path,
        mode: u32,
    },
    /// Performs linkat of the file that is open in `slot`.
    LinkSlot {
        slot: usize,
        path: Path,
    },
    /// Performs open for reading and writing, and keeps the file open in `slot`. First closes the
    /// file that is open in `slot`, if there is one.
    Open {
        slot: usize,
        path: Path,
    },
    Close {
        slot: usize,
    },
    /// Performs pwrite. The bytes are those of [`pattern`] for `number`.
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
    /// Performs pwritev from buffers of these lengths. The bytes are those of [`pattern`] for
    /// `number`.
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
    /// Seeks with SEEK_DATA and SEEK_HOLE from an offset to the end of the file, and reads only the
    /// data.
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
    /// Performs FICLONERANGE.
    Clone(FileRanges),
    /// Performs FIDEDUPERANGE.
    Deduplicate(FileRanges),
    /// Performs XFS_IOC_EXCHANGE_RANGE.
    Exchange(FileRanges),
    /// Performs lsetxattr. The value has the bytes of [`pattern`] for `number`.
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
    /// Performs lsetxattr of an access control list.
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
    /// Performs lchown.
    ChangeOwner {
        path: Path,
        uid: u32,
        gid: u32,
    },
    /// Performs utimensat with AT_SYMLINK_NOFOLLOW. Sets access and modification time.
    SetTimes {
        path: Path,
        accessed: Option<Time>,
        modified: Option<Time>,
    },
    SetFlags {
        path: Path,
        settings: NodeSettings,
    },
    /// Performs readdir. The result has neither `.` nor `..`.
    List {
        path: Path,
    },
    Sync(Durable),
}

/// The result of an operation that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Success, without a value.
    Done,
    /// The bytes that were read, as a digest.
    Bytes(Digest),
    /// Number of names in a directory, and a digest of these names in byte order.
    Names(usize, Digest),
    /// The data of a file without its zeros, as a digest.
    Scanned(SparseDigest),
    /// Whether the compared ranges were equal.
    Compared(bool),
}

/// The features of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Bytes per block.
    pub block_bytes: u64,
    /// Inode size in bytes, which determines how much data fits in the inode itself.
    pub inode_bytes: u64,
    /// The optional operations that the volume supports.
    pub abilities: Abilities,
    /// The realtime section in which new files lie. `None` for a volume without a section.
    pub section: Option<RealtimeRules>,
}

/// The rules of a realtime section: which operations on its files succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealtimeRules {
    /// A section without groups. Its files share and exchange no blocks.
    Classic {
        /// The realtime extent size in bytes, in which space is allocated and freed.
        extent_bytes: u64,
    },
    /// A section of groups with realtime extents of one block.
    Groups,
    /// A section of zones. Space is allocated only by writing.
    Zones,
}

impl Features {
    /// Returns the realtime extent size in bytes. mkfs also gives one to volumes without a realtime
    /// section.
    pub(crate) fn realtime_extent_bytes(&self) -> u64 {
        match self.section {
            Some(RealtimeRules::Classic { extent_bytes }) => extent_bytes,
            Some(RealtimeRules::Groups | RealtimeRules::Zones) => self.block_bytes,
            None => self.block_bytes.max(4096),
        }
    }
}

bitflags! {
    /// Groups of operations that not every volume supports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Abilities: u32 {
        /// Files can share extents.
        const REFLINK = 1;
        /// The ranges of two files can be exchanged.
        const EXCHANGE = 2;
        /// All that a volume can support.
        const VOLUME = Self::REFLINK.bits() | Self::EXCHANGE.bits();
        /// Sockets have attributes of users, as since Linux 7. A kernel decides, not a volume.
        const SOCKET_ATTRIBUTES = 4;
    }
}

/// Returns the bytes that write number `number` puts at an offset. Every eight bytes identify the
/// write and their own offset, so that a misplaced byte is detected.
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

/// Returns the [`Outcome::Names`] of a directory's names, which must be sorted in byte order.
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

/// Returns the [`Outcome::Bytes`] of these bytes.
pub fn bytes(bytes: &[u8]) -> Outcome {
    let mut digest = Digest::default();
    digest.update(bytes);
    Outcome::Bytes(digest)
}
