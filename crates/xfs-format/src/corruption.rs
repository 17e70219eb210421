//! Corruption of a structure: the kind of structure, its address, and the failed check with its
//! values.
//!
//! Owns: [`Corruption`] and the checks that all structures share. For each structure, an enum in
//! the module `checks` has its checks. Each of these enums is the field of a variant of [`Check`],
//! so that callers can match on the checks and tests can name them.

use core::fmt;

use alloc::boxed::Box;
use thiserror::Error;

use crate::addr::{AgNumber, DiskAddr, FileBlock, InodeNumber, Lsn};
use crate::block_kind::BlockKind;
use crate::checks::acl::AclCheck;
use crate::checks::agf::AgfCheck;
use crate::checks::agfl::AgflCheck;
use crate::checks::agi::AgiCheck;
use crate::checks::attr::AttrCheck;
use crate::checks::btree::BtreeCheck;
use crate::checks::dabtree::DaBtreeCheck;
use crate::checks::directory::DirectoryCheck;
use crate::checks::dquot::DquotCheck;
use crate::checks::extent::ExtentCheck;
use crate::checks::free_space::FreeSpaceCheck;
use crate::checks::inode::InodeCheck;
use crate::checks::inode_chunk::InodeChunkCheck;
use crate::checks::log_item::LogItemCheck;
use crate::checks::log_record::LogRecordCheck;
use crate::checks::parent::ParentCheck;
use crate::checks::realtime::RealtimeSpaceCheck;
use crate::checks::refcount::RefcountCheck;
use crate::checks::rmap::RmapCheck;
use crate::checks::superblock::SuperblockCheck;
use crate::checks::symlink::SymlinkCheck;

/// A kind of on-disk structure, as reports of corruption name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// Superblock (`xfs_dsb`).
    Superblock,
    /// Superblock of the realtime device (`xfs_rtsb`).
    RealtimeSuperblock,
    /// Bitmap, summary or btree block of a realtime group.
    RealtimeMetadata,
    /// AG free-space header (AGF, `xfs_agf`).
    Agf,
    /// AG inode header (AGI, `xfs_agi`).
    Agi,
    /// AG free list (AGFL, `xfs_agfl`).
    Agfl,
    /// Btree block of any kind (`xfs_btree_block`).
    Btree,
    /// Record of an inode btree (`xfs_inobt_rec`).
    InodeChunk,
    /// Record of a free-space btree (`xfs_alloc_rec`).
    FreeSpace,
    /// Record of the reverse map (`xfs_rmap_rec`).
    Rmap,
    /// Record of the reference counts (`xfs_refcount_rec`).
    Refcount,
    /// Extent record of a fork (`xfs_bmbt_rec`).
    Extent,
    /// Inode (`xfs_dinode`).
    Inode,
    /// Node of a directory or attribute btree (`xfs_da3_intnode`).
    DaBtree,
    /// Directory, in any form.
    Directory,
    /// Extended attributes, in any form.
    Attr,
    /// Remote block of a symbolic link (`xfs_dsymlink_hdr`).
    Symlink,
    /// Dquot of a quota inode (`xfs_dqblk`).
    Dquot,
    /// Access control list (`xfs_acl`).
    Acl,
    /// Parent pointer (`xfs_parent_rec`).
    Parent,
    /// Record of the log (`xlog_rec_header`).
    LogRecord,
    /// Item of a transaction in the log.
    LogItem,
}

impl Structure {
    /// Returns the name used in messages and, with `_` for spaces, in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::RealtimeSuperblock => "realtime superblock",
            Self::RealtimeMetadata => "realtime metadata",
            Self::Agf => "AGF",
            Self::Agi => "AGI",
            Self::Agfl => "AGFL",
            Self::Btree => "btree block",
            Self::InodeChunk => "inode chunk record",
            Self::FreeSpace => "free space record",
            Self::Rmap => "reverse map record",
            Self::Refcount => "reference count record",
            Self::Extent => "extent",
            Self::Inode => "inode",
            Self::DaBtree => "directory/attribute btree node",
            Self::Directory => "directory",
            Self::Attr => "extended attributes",
            Self::Symlink => "symbolic link",
            Self::Dquot => "dquot",
            Self::Acl => "access control list",
            Self::Parent => "parent pointer",
            Self::LogRecord => "log record",
            Self::LogItem => "log item",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The address of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StructureAddress {
    /// A buffer on the data device, by its disk address.
    Disk(DiskAddr),
    /// An allocation group as a whole.
    Group(AgNumber),
    /// The inode itself: its core or a fork that is stored in the inode.
    Inode(InodeNumber),
    /// A block of an inode's data fork.
    Data(InodeNumber, FileBlock),
    /// A block of an inode's attribute fork.
    Attr(InodeNumber, FileBlock),
    /// A basic block of the log, by its number.
    Log(u32),
}

impl fmt::Display for StructureAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(address) => address.fmt(f),
            Self::Group(group) => group.fmt(f),
            Self::Inode(inode) => inode.fmt(f),
            Self::Data(inode, block) => write!(f, "{inode}, data {block}"),
            Self::Attr(inode, block) => write!(f, "{inode}, attribute {block}"),
            Self::Log(block) => write!(f, "log block {block}"),
        }
    }
}

/// A failed check, with the values that failed it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Check {
    /// The magic number is wrong.
    #[error("magic number is {found:#x}, not {expected:#x}")]
    Magic {
        /// The magic number on disk.
        found: u64,
        /// The magic number that the structure must have.
        expected: u64,
    },
    /// The checksum over the structure does not match.
    #[error("checksum is {stored:#010x}, but the bytes give {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        stored: u32,
        /// The checksum of the structure's bytes, with the checksum field taken as zero.
        computed: u32,
    },
    /// The block has the form of a volume of another version.
    #[error("has the form of a version {version} volume")]
    OtherVersion {
        /// The version whose blocks have the magic number that was found.
        version: u16,
    },
    /// The structure contains the UUID of another volume.
    #[error("belongs to another volume: its UUID is {found}")]
    ForeignUuid {
        /// The UUID in the structure.
        found: uuid::Uuid,
    },
    /// The address in the structure is not the address from which the structure was read.
    #[error("its stored address is {found}")]
    MisplacedBlock {
        /// The address in the structure.
        found: DiskAddr,
    },
    /// The owner in the structure is not the owner that the pointer to the structure requires.
    #[error("belongs to owner {found}, not to {expected}")]
    ForeignOwner {
        /// The owner in the structure: the number of an inode or an allocation group, by kind of
        /// structure.
        found: u64,
        /// The owner that the pointer to the structure requires.
        expected: u64,
    },
    /// The structure has an LSN after the head of the log.
    #[error("was last written at {found}, ahead of the log, which ends at {log_head}")]
    LsnAheadOfLog {
        /// The LSN in the structure.
        found: Lsn,
        /// The head of the log.
        log_head: Lsn,
    },
    /// There are fewer bytes than the structure needs.
    #[error("{available} bytes are available, but {needed} are needed")]
    Truncated {
        /// Number of bytes that are present.
        available: usize,
        /// Number of bytes that the structure needs.
        needed: usize,
    },
    /// The block is cached as a buffer of another kind or length: two pointers claim the block.
    #[error(
        "is in use as {cached:?} of {cached_bytes} bytes, \
         and is claimed as {wanted:?} of {wanted_bytes} bytes"
    )]
    BufferInUse {
        /// The kind as which the cached buffer was read and verified.
        cached: BlockKind,
        /// The length in bytes with which the cached buffer was read.
        cached_bytes: u32,
        /// The kind that the second pointer to the block requires.
        wanted: BlockKind,
        /// The length in bytes that the second pointer to the block requires.
        wanted_bytes: u32,
    },
    /// The block is cached in a buffer of several extents, and some of these differ from the
    /// extents in the map that leads to the block: two maps claim the block.
    #[error("is in use with an extent at {cached}, and is claimed with that extent at {wanted}")]
    BufferElsewhere {
        /// The address of the first extent of the cached buffer that differs from the map.
        cached: DiskAddr,
        /// The address of the differing extent, according to the map that leads to the block.
        wanted: DiskAddr,
    },
    /// A pointer leads to blocks that a transaction has already freed.
    #[error("has been freed, but a pointer still leads to it")]
    BufferFreed,
    /// A failed check of the superblock.
    #[error(transparent)]
    Superblock(#[from] SuperblockCheck),
    /// A failed check of the AGF.
    #[error(transparent)]
    Agf(#[from] AgfCheck),
    /// A failed check of the AGI.
    #[error(transparent)]
    Agi(#[from] AgiCheck),
    /// A failed check of the AGFL.
    #[error(transparent)]
    Agfl(#[from] AgflCheck),
    /// A failed check of a btree block.
    #[error(transparent)]
    Btree(#[from] BtreeCheck),
    /// A failed check of an inode chunk record.
    #[error(transparent)]
    InodeChunk(#[from] InodeChunkCheck),
    /// A failed check of a free space record.
    #[error(transparent)]
    FreeSpace(#[from] FreeSpaceCheck),
    /// A failed check of a reverse map record.
    #[error(transparent)]
    Rmap(#[from] RmapCheck),
    /// A failed check of a reference count record.
    #[error(transparent)]
    Refcount(#[from] RefcountCheck),
    /// A failed check of an extent.
    #[error(transparent)]
    Extent(#[from] ExtentCheck),
    /// A failed check of an inode.
    #[error(transparent)]
    Inode(#[from] InodeCheck),
    /// A failed check of a node of a directory or attribute btree.
    #[error(transparent)]
    DaBtree(#[from] DaBtreeCheck),
    /// A failed check of a directory.
    #[error(transparent)]
    Directory(#[from] DirectoryCheck),
    /// A failed check of extended attributes.
    #[error(transparent)]
    Attr(#[from] AttrCheck),
    /// A failed check of a symbolic link.
    #[error(transparent)]
    Symlink(#[from] SymlinkCheck),
    /// A failed check of a dquot.
    #[error(transparent)]
    Dquot(#[from] DquotCheck),
    /// A failed check of an access control list.
    #[error(transparent)]
    Acl(#[from] AclCheck),
    /// A failed check of a parent pointer.
    #[error(transparent)]
    Parent(#[from] ParentCheck),
    /// A failed check of the free space of a realtime section.
    #[error(transparent)]
    RealtimeSpace(#[from] RealtimeSpaceCheck),
    /// A failed check of a log record.
    #[error(transparent)]
    LogRecord(#[from] LogRecordCheck),
    /// A failed check of a log item.
    #[error(transparent)]
    LogItem(#[from] LogItemCheck),
}

/// A failed check of an on-disk structure.
///
/// The type has the size of one pointer, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption(Box<CorruptionParts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct CorruptionParts {
    structure: Structure,
    address: StructureAddress,
    check: Check,
}

impl Corruption {
    /// Creates the report that `check` failed for the `structure` at `address`.
    #[must_use]
    #[cold]
    pub fn new(structure: Structure, address: StructureAddress, check: impl Into<Check>) -> Self {
        Self(Box::new(CorruptionParts { structure, address, check: check.into() }))
    }

    /// Returns the kind of the corrupt structure.
    #[must_use]
    pub fn structure(&self) -> Structure {
        self.0.structure
    }

    /// Returns the address of the corrupt structure.
    #[must_use]
    pub fn address(&self) -> StructureAddress {
        self.0.address
    }

    /// Returns the check that failed.
    #[must_use]
    pub fn check(&self) -> &Check {
        &self.0.check
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorruptionParts { structure, address, check } = &*self.0;
        match (structure, address) {
            // The address names the inode already.
            (Structure::Inode, StructureAddress::Inode(inode)) => write!(f, "{inode}: {check}"),
            _ => write!(f, "{structure} at {address}: {check}"),
        }
    }
}

impl core::error::Error for Corruption {}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::{Check, Corruption, Structure, StructureAddress};
    use crate::{AgNumber, InodeNumber};

    #[test]
    fn message_names_an_inode_once() {
        let message = |structure, address| {
            let check = Check::Magic { found: 1, expected: 2 };
            Corruption::new(structure, address, check).to_string()
        };
        let inode = StructureAddress::Inode(InodeNumber(128));
        let cases = [
            (Structure::Inode, inode, "inode 128: magic number is 0x1, not 0x2"),
            (Structure::Directory, inode, "directory at inode 128: magic number is 0x1, not 0x2"),
            (
                Structure::Agf,
                StructureAddress::Group(AgNumber(3)),
                "AGF at AG 3: magic number is 0x1, not 0x2",
            ),
        ];
        for (structure, address, expected) in cases {
            assert_eq!(message(structure, address), expected);
        }
    }
}
