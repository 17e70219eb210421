//! What can be done to a filesystem, as values: a history is a list of them.
//!
//! Owns: the operations and what they can answer. Does **not** own: what they do (the model) or
//! how they are asked for (a subject).

use bitflags::bitflags;

use crate::digest::{Digest, SparseDigest};
use crate::ioctl::FileFlags;
use crate::view::Time;

/// A path from the root of the volume (or of the folder that stands for it), without a leading `/`.
pub type Path = String;

/// How many files a history may hold open at once.
pub const SLOTS: usize = 4;

/// A regular file, by name or as one that is held open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTarget {
    /// Opened for this operation alone, for writing where it changes anything; a symbolic link in
    /// the last place is refused.
    Path(Path),
    /// The file that stands in this slot.
    Slot(usize),
}

/// What rename does with what stands at the new name, and at the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// What is there goes.
    Replace,
    /// Nothing may be there.
    NoReplace,
    /// Both change places.
    Exchange,
    /// As `Replace`, and a whiteout stays behind.
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

/// Whether an extended attribute must be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetMode {
    /// It may be.
    Either,
    /// It must not be.
    Create,
    /// It must be.
    Replace,
}

/// What a sync covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durable {
    /// One file: fsync.
    File(FileTarget),
    /// Contents and size of one file: fdatasync.
    Contents(FileTarget),
    /// A directory: fsync.
    Directory(Path),
    /// Everything: syncfs.
    Volume,
}

/// A range of one file and as long a range of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRanges {
    /// The file that is read from.
    pub from: FileTarget,
    /// Where in it.
    pub from_offset: u64,
    /// The file that is changed.
    pub to: FileTarget,
    /// Where in it.
    pub to_offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// NodeSettings of FS_IOC_FSSETXATTR.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// The flags; those of the two hints stand for the hints below.
    pub flags: FileFlags,
    /// The project.
    pub project_id: u32,
    /// The extent size hint in bytes.
    pub extent_size: u32,
    /// The same for copies on write.
    pub cow_extent_size: u32,
}

/// Which access control list of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Who may do what with it.
    Access,
    /// Of a directory: what is made in it gets this one.
    Default,
}

impl ListKind {
    /// The name of the attribute that programs know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "system.posix_acl_access",
            Self::Default => "system.posix_acl_default",
        }
    }

    /// The name of the attribute that keeps it.
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
    /// One of the bits that acl(5) gives the kinds of entries.
    pub tag: u16,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
    /// Whom it is for, if the tag does not say it.
    pub id: u32,
}

/// Whether bytes go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// They do.
    Cached,
    /// They do not: O_DIRECT.
    Direct,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the arguments of the system calls")]
pub enum Operation {
    /// open(O_CREAT | O_EXCL) and close.
    Create {
        path: Path,
        mode: u32,
    },
    MakeDirectory {
        path: Path,
        mode: u32,
    },
    /// mknod; the type stands in the mode.
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
    /// open(O_TMPFILE); the file takes the slot.
    MakeTemporary {
        slot: usize,
        folder: Path,
        mode: u32,
    },
    /// linkat of an open file.
    LinkSlot {
        slot: usize,
        path: Path,
    },
    /// open for reading and writing; what stood in the slot is closed first.
    Open {
        slot: usize,
        path: Path,
    },
    Close {
        slot: usize,
    },
    /// The bytes are [`pattern`] of the number.
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
    /// pwritev of so many bytes from each buffer, which are as those of `Write`.
    WritePieces {
        file: FileTarget,
        offset: u64,
        lengths: Vec<u64>,
        number: u64,
        way: IoMode,
    },
    /// preadv.
    ReadPieces {
        file: FileTarget,
        offset: u64,
        lengths: Vec<u64>,
        way: IoMode,
    },
    /// SEEK_DATA and SEEK_HOLE from a sector to the end, and reading nothing but what is called data.
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
    /// lsetxattr; the value is [`pattern`] of the number.
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
    /// utimensat, of a link itself: access and modification.
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

/// What an operation answers when it succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has nothing to say.
    Done,
    /// The bytes that were read.
    Bytes(Digest),
    /// The names in a directory: how many, and their digest in the order of their bytes.
    Names(usize, Digest),
    /// What the data of a file holds, besides zeros.
    Scanned(SparseDigest),
    /// Whether the ranges were equal.
    Compared(bool),
}

/// What a volume can do.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Bytes in a block.
    pub block_bytes: u64,
    /// Bytes in an inode, which say what fits into it.
    pub inode_bytes: u64,
    /// Which operations there are.
    pub abilities: Abilities,
}

impl Features {
    /// Bytes in an extent of a realtime device, as mkfs gives volumes without one.
    pub(crate) fn realtime_extent_bytes(&self) -> u64 {
        self.block_bytes.max(4096)
    }
}

bitflags! {
    /// Operations that not every volume has.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Abilities: u32 {
        /// Extents can be shared.
        const REFLINK = 1;
        /// FileRanges can be exchanged.
        const EXCHANGE = 2;
    }
}

/// The bytes that a write with this number puts at an offset. Every eight of them name the write
/// and their own place, so that a byte that is somewhere else is seen.
pub fn pattern(number: u64, offset: u64, length: usize) -> Vec<u8> {
    let start = offset / 8;
    let skip = (offset % 8) as usize;
    let words = (start..).map(|word| {
        let mixed = (number << 24 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29) | 1).to_be_bytes()
    });
    words.take(length / 8 + 2).flatten().skip(skip).take(length).collect()
}

/// An access control list as programs give it to Linux.
#[allow(clippy::little_endian_bytes, reason = "Linux has lists little-endian")]
pub fn list_value(version: u32, entries: &[ListEntry]) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    for entry in entries {
        value.extend(entry.tag.to_le_bytes());
        value.extend(entry.permissions.to_le_bytes());
        value.extend(entry.id.to_le_bytes());
    }
    value
}

/// The names of a directory as [`Outcome::Names`].
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

/// Bytes as [`Outcome::Bytes`].
pub fn bytes(bytes: &[u8]) -> Outcome {
    let mut digest = Digest::default();
    digest.update(bytes);
    Outcome::Bytes(digest)
}
