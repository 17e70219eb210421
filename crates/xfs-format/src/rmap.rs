//! Record of the reverse map (`xfs_rmap_rec`): the owner of an extent.
//!
//! Owns: the record, its owners and flags, its low and high key. Does **not** own the comparison of
//! the map with the structures that it mirrors.
//!
//! ```text
//! record   0 first block  4 count  8 owner  16 offset and flags   .. 24
//! key      0 first block           4 owner  12 offset and flags   .. 20   (low, then high)
//!
//! offset   63 attribute fork  62 block of a fork's btree  61 unwritten  53..0 block of the file
//! ```
//!
//! Records of different files may overlap, because files can share blocks. Therefore records are
//! ordered by block, owner and offset, and a node also holds the highest key of each child.

use bitflags::bitflags;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{AgBlock, FileBlock, InodeNumber};
use crate::btree::{BtreeFormat, BtreeKind, put};
pub use crate::checks::rmap::RmapCheck;
use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;

/// The bits of the offset word that hold the offset itself.
const OFFSET_MASK: u64 = (1 << 54) - 1;

bitflags! {
    /// How an owner uses an extent. The bits are those of the offset word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct RmapFlags: u64 {
        /// The extent belongs to the attribute fork.
        const ATTR = 1 << 63;
        /// The extent is a block of the fork's btree.
        #[doc(alias = "BMBT_BLOCK")]
        const FORK_BTREE = 1 << 62;
        /// The extent is allocated, but reads as zeros.
        const UNWRITTEN = 1 << 61;
    }
}

/// The owner of an extent: an inode, or a kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RmapOwner {
    /// An inode, which owns the blocks of its forks.
    Inode(InodeNumber),
    /// The volume, which owns the headers of the allocation group.
    Volume,
    /// The log, which owns its blocks.
    Log,
    /// The group, which owns its free-space btrees, its reverse map and its free list.
    Group,
    /// The inode btrees, which own their blocks.
    InodeBtree,
    /// The inode chunks, which own the blocks of inodes.
    Inodes,
    /// The reference-count btree, which owns its blocks.
    RefcountBtree,
    /// The reservation for copy-on-write. It owns blocks until a file maps them.
    Staging,
}

impl RmapOwner {
    /// Returns the owner that this number stands for on disk. Returns `None` unless the number is a
    /// code for a metadata owner or an inode number of the volume.
    #[must_use]
    pub fn from_raw(raw: u64, group: &Group<'_>) -> Option<Self> {
        // Special owners count down from all ones. The first two are "none" and "unknown".
        match raw.wrapping_neg() {
            3 => Some(Self::Volume),
            4 => Some(Self::Log),
            5 => Some(Self::Group),
            6 => Some(Self::InodeBtree),
            7 => Some(Self::Inodes),
            8 => Some(Self::RefcountBtree),
            9 => Some(Self::Staging),
            _ => {
                let inode = InodeNumber(raw);
                group.geometry().split_inode(inode).map(|_| Self::Inode(inode))
            }
        }
    }

    /// Returns the number that stands for this owner on disk.
    #[must_use]
    pub const fn to_raw(self) -> u64 {
        let below_zero: u64 = match self {
            Self::Inode(inode) => return inode.0,
            Self::Volume => 3,
            Self::Log => 4,
            Self::Group => 5,
            Self::InodeBtree => 6,
            Self::Inodes => 7,
            Self::RefcountBtree => 8,
            Self::Staging => 9,
        };
        below_zero.wrapping_neg()
    }
}

/// A reverse mapping on disk.
#[doc(alias = "xfs_rmap_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Rmap`, documented there")]
pub struct RmapDisk {
    pub start: U32,
    pub count: U32,
    pub owner: U64,
    pub offset: U64,
}

/// A key of the reverse map on disk.
#[doc(alias = "xfs_rmap_key")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Rmap`, documented there")]
pub struct RmapKeyDisk {
    pub start: U32,
    pub owner: U64,
    pub offset: U64,
}

const _: () = assert!(size_of::<RmapDisk>() == 24);
const _: () = assert!(size_of::<RmapKeyDisk>() == 20);

/// An extent and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rmap {
    /// The first block of the extent.
    pub start: AgBlock,
    /// Number of blocks in the extent.
    pub count: u32,
    /// The owner of the extent.
    pub owner: RmapOwner,
    /// Offset of the extent's first block in the data or attribute fork of the owner; 0 if the
    /// owner is not an inode, and for blocks of a fork's btree.
    pub offset: FileBlock,
    /// The use of the blocks by the owner.
    pub flags: RmapFlags,
}

/// The key by which records of the reverse map are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RmapKey {
    /// The first block of the extent; in a high key, the last block.
    pub start: AgBlock,
    /// The number that stands for the owner on disk.
    pub owner: u64,
    /// The offset and the flags, without the unwritten flag.
    pub offset: u64,
}

impl RmapKey {
    /// Encodes the key.
    #[must_use]
    pub fn encode(&self) -> RmapKeyDisk {
        RmapKeyDisk {
            start: self.start.0.into(),
            owner: self.owner.into(),
            offset: self.offset.into(),
        }
    }
}

impl Rmap {
    /// Decodes a record and checks it.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn decode(bytes: &[u8], group: &Group<'_>) -> Result<Self, Check> {
        Self::decode_with(bytes, group, |rmap| rmap.is_in_range(group))
    }

    /// Decodes a record and checks it. `is_in_range` checks that the blocks exist, and that a file
    /// may have them.
    pub(crate) fn decode_with(
        bytes: &[u8],
        group: &Group<'_>,
        is_in_range: impl FnOnce(&Self) -> bool,
    ) -> Result<Self, Check> {
        let disk = RmapDisk::read_from_bytes(bytes)
            .map_err(|_| crate::envelope::truncated(bytes, size_of::<RmapDisk>()))?;
        let (start, count) = (disk.start.get(), disk.count.get());
        let raw_owner = disk.owner.get();
        let Some(owner) = RmapOwner::from_raw(raw_owner, group) else {
            return Err(RmapCheck::Owner { start, owner: raw_owner }.into());
        };
        let offset = disk.offset.get();
        let rmap = Self {
            start: AgBlock(start),
            count,
            owner,
            offset: FileBlock(offset & OFFSET_MASK),
            flags: RmapFlags::from_bits_truncate(offset),
        };
        if !is_in_range(&rmap) {
            return Err(RmapCheck::Range { start, count }.into());
        }
        if rmap.offset_word() != offset || !rmap.offset_is_valid() {
            return Err(RmapCheck::Offset { start, offset }.into());
        }
        Ok(rmap)
    }

    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> RmapDisk {
        RmapDisk {
            start: self.start.0.into(),
            count: self.count.into(),
            owner: self.owner.to_raw().into(),
            offset: self.offset_word().into(),
        }
    }

    /// Returns whether the extent lies in the group and obeys the rule for the group's headers. The
    /// headers are one extent, which the volume owns. No extent of another owner starts in the
    /// headers.
    fn is_in_range(&self, group: &Group<'_>) -> bool {
        if self.start.0 < group.geometry().header_blocks() {
            return self.owner == RmapOwner::Volume
                && self.start.0 == 0
                && self.count == group.geometry().header_blocks();
        }
        group.contains_extent(self.start, self.count)
    }

    /// Returns whether the offset and the flags suit the owner. Only the contents of a fork have an
    /// offset, and only they can be unwritten.
    fn offset_is_valid(&self) -> bool {
        let RmapOwner::Inode(_) = self.owner else { return self.offset_word() == 0 };
        if self.flags.contains(RmapFlags::FORK_BTREE) {
            return self.offset.0 == 0 && !self.flags.contains(RmapFlags::UNWRITTEN);
        }
        // Attributes are never preallocated.
        !self.flags.contains(RmapFlags::ATTR | RmapFlags::UNWRITTEN)
            && self.offset.0 + u64::from(self.count) <= OFFSET_MASK + 1
    }

    /// Returns the offset and the flags in their disk form.
    #[must_use]
    pub const fn offset_word(&self) -> u64 {
        self.offset.0 | self.flags.bits()
    }

    /// Returns the block after the last block of the extent.
    #[must_use]
    pub const fn end(&self) -> AgBlock {
        AgBlock(self.start.0 + self.count)
    }

    /// Returns the highest key that the record covers. A node holds the highest of these keys below
    /// each child.
    #[must_use]
    pub fn high_key(&self) -> RmapKey {
        let span = self.count - 1;
        let mut key = ReverseMap::key(self);
        key.start.0 += span;
        let has_offset = matches!(self.owner, RmapOwner::Inode(_))
            && !self.flags.contains(RmapFlags::FORK_BTREE);
        if has_offset {
            key.offset += u64::from(span);
        }
        key
    }
}

/// The reverse-map btree.
#[doc(alias = "rmapbt")]
#[derive(Clone, Copy, Debug)]
pub enum ReverseMap {}

impl BtreeFormat for ReverseMap {
    const KIND: BtreeKind = BtreeKind::ReverseMap;
    type Record = Rmap;
    type Key = RmapKey;

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<Rmap, Check> {
        Rmap::decode(bytes, group)
    }

    fn decode_key(bytes: &[u8]) -> Option<RmapKey> {
        let disk = RmapKeyDisk::read_from_bytes(bytes).ok()?;
        Some(RmapKey {
            start: AgBlock(disk.start.get()),
            owner: disk.owner.get(),
            // Kernels before 6.4 left the unwritten flag in keys but compared without it.
            offset: disk.offset.get() & !RmapFlags::UNWRITTEN.bits(),
        })
    }

    fn key(record: &Rmap) -> RmapKey {
        RmapKey {
            start: record.start,
            owner: record.owner.to_raw(),
            offset: record.offset_word() & !RmapFlags::UNWRITTEN.bits(),
        }
    }

    fn high_key(record: &Rmap) -> RmapKey {
        record.high_key()
    }

    fn encode_record(record: &Rmap, _geometry: &Geometry, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    fn encode_key(record: &Rmap, into: &mut [u8]) {
        put(&[Self::key(record).encode(), record.high_key().encode()], into);
    }

    /// Returns whether `record` sorts after `previous`. The two records may overlap, because
    /// several owners may map shared blocks. On a volume without sharing, extents must not overlap.
    fn may_follow(record: &Rmap, previous: &Rmap) -> bool {
        Self::key(record) > Self::key(previous)
    }
}

#[cfg(test)]
mod tests;
