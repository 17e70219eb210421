//! Record of the two inode btrees (`xfs_inobt_rec`): 64 consecutive inode numbers.
//!
//! Owns: the record in its full and its sparse form, and the masks derived from it. Does **not**
//! own the inodes.
//!
//! ```text
//! full     0 first inode  4 free count (4 bytes)                          8 free mask  .. 16
//! sparse   0 first inode  4 hole mask (2 bytes)  6 count  7 free count    8 free mask  .. 16
//! ```
//!
//! Bit i of the free mask is inode i of the chunk. Bit i of the hole mask covers four inodes that
//! have no space on disk. The bits of these inodes in the free mask are set, but the free count
//! does not include them.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::AgInode;
use crate::btree::{BtreeFormat, BtreeKind, put};
pub use crate::checks::inode_chunk::InodeChunkCheck;
use crate::corruption::Check;
use crate::features::IncompatFeatures;
use crate::geometry::{Geometry, INODES_PER_CHUNK};
use crate::group::Group;

/// Number of inodes that one bit of the hole mask covers.
#[doc(alias = "XFS_INODES_PER_HOLEMASK_BIT")]
pub const INODES_PER_HOLE_BIT: u32 = 4;

/// An inode chunk on disk, in the sparse form.
#[doc(alias = "xfs_inobt_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `InodeChunk`, documented there")]
pub struct InodeChunkDisk {
    pub start: U32,
    pub holes: U16,
    pub count: u8,
    pub free_count: u8,
    pub free: U64,
}

/// Length of a key in bytes. A record starts with its key.
const KEY_BYTES: usize = 4;

const _: () = assert!(size_of::<InodeChunkDisk>() == 16);

impl InodeChunkDisk {
    /// Returns the free count of the full form, whose field overlays three fields of the sparse
    /// form.
    #[must_use]
    pub const fn full_free_count(&self) -> u32 {
        (self.holes.get() as u32) << 16 | (self.count as u32) << 8 | self.free_count as u32
    }
}

/// 64 consecutive inode numbers of an allocation group, and which of these inodes exist and are in
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InodeChunk {
    /// The first of the 64 inode numbers.
    pub start: AgInode,
    /// Hole mask: one bit for every four inodes. A set bit means that these inodes are not on disk.
    #[doc(alias = "holemask")]
    pub holes: u16,
    /// Number of inodes that are on disk.
    pub count: u8,
    /// Number of free inodes that are on disk.
    #[doc(alias = "freecount")]
    pub free_count: u8,
    /// Free mask: one bit for every inode. A set bit means that the inode is free or not on disk.
    pub free: u64,
}

impl InodeChunk {
    /// Decodes and checks a record. The volume's features decide which form it has.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn decode(bytes: &[u8], group: &Group<'_>) -> Result<Self, Check> {
        let disk = InodeChunkDisk::read_from_bytes(bytes)
            .map_err(|_| crate::envelope::truncated(bytes, size_of::<InodeChunkDisk>()))?;
        let is_sparse = group.geometry().has_incompat(IncompatFeatures::SPARSE_INODES);
        let (holes, count, free_count) = if is_sparse {
            (disk.holes.get(), disk.count, u32::from(disk.free_count))
        } else {
            (0, INODES_PER_CHUNK as u8, disk.full_free_count())
        };
        let (start, free) = (AgInode(disk.start.get()), disk.free.get());
        let chunk = Self { start, holes, count, free_count: free_count as u8, free };
        let counted = (chunk.present() & free).count_ones();
        if free_count != counted {
            return Err(InodeChunkCheck::FreeCount { free_count, counted }.into());
        }
        chunk.verify(group)?;
        Ok(chunk)
    }

    /// Encodes the record. The volume's features decide which form it gets.
    #[must_use]
    pub fn encode(&self, geometry: &Geometry) -> InodeChunkDisk {
        let is_sparse = geometry.has_incompat(IncompatFeatures::SPARSE_INODES);
        InodeChunkDisk {
            start: self.start.0.into(),
            holes: if is_sparse { self.holes.into() } else { U16::ZERO },
            // In the full form this byte belongs to the free count.
            count: if is_sparse { self.count } else { 0 },
            free_count: self.free_count,
            free: self.free.into(),
        }
    }

    fn verify(&self, group: &Group<'_>) -> Result<(), InodeChunkCheck> {
        let start = self.start.0;
        let inodes_per_block = 1_u32 << group.geometry().inodes_per_block_log;
        if !start.is_multiple_of(inodes_per_block.min(INODES_PER_CHUNK)) {
            return Err(InodeChunkCheck::Alignment { start });
        }
        let present = self.present();
        if present == 0 || present.count_ones() != u32::from(self.count) {
            return Err(InodeChunkCheck::Count { count: self.count, holes: self.holes });
        }
        // The holes of a sparse chunk may extend past the end of the group.
        let first = start.checked_add(present.trailing_zeros());
        let last = start.checked_add(u64::BITS - 1 - present.leading_zeros());
        let is_inside =
            |inode: Option<u32>| inode.is_some_and(|inode| group.contains_inode(AgInode(inode)));
        if !is_inside(first) || !is_inside(last) {
            return Err(InodeChunkCheck::Range { start });
        }
        Ok(())
    }

    /// Creates a chunk with `count` free inodes on disk from `position` on, and no other inodes.
    /// Both numbers must be multiples of [`INODES_PER_HOLE_BIT`].
    #[must_use]
    pub const fn of_free(start: AgInode, position: u32, count: u32) -> Self {
        let bits = count / INODES_PER_HOLE_BIT;
        let present = ((1_u32 << bits) - 1) << (position / INODES_PER_HOLE_BIT);
        Self {
            start,
            holes: !(present as u16),
            count: count as u8,
            free_count: count as u8,
            free: u64::MAX,
        }
    }

    /// Returns the position in the chunk of the lowest inode that is free and not in a hole of a
    /// sparse chunk, or `None` if there is none.
    #[doc(alias = "xfs_inobt_first_free_inode")]
    #[must_use]
    pub const fn first_free(&self) -> Option<u32> {
        let free = self.free & self.present();
        if free == 0 { None } else { Some(free.trailing_zeros()) }
    }

    /// Returns the chunk with the free inode at `position` marked as in use.
    #[must_use]
    pub const fn with_used(self, position: u32) -> Self {
        Self { free: self.free & !(1 << position), free_count: self.free_count - 1, ..self }
    }

    /// Returns the chunk with the used inode at `position` marked as free.
    #[must_use]
    pub const fn with_freed(self, position: u32) -> Self {
        Self { free: self.free | 1 << position, free_count: self.free_count + 1, ..self }
    }

    /// Returns the chunk that has the inodes of both `self` and `other` on disk. Returns `None` if
    /// the two chunks start at different inode numbers, or if an inode is on disk in both.
    #[must_use]
    pub const fn merged(self, other: Self) -> Option<Self> {
        if self.start.0 != other.start.0 || self.present() & other.present() != 0 {
            return None;
        }
        Some(Self {
            start: self.start,
            holes: self.holes & other.holes,
            count: self.count + other.count,
            free_count: self.free_count + other.free_count,
            free: self.free & other.free,
        })
    }

    /// Returns a mask with one bit set for each inode that is on disk.
    #[must_use]
    pub const fn present(&self) -> u64 {
        // Spread each bit of the hole mask to four bits: move them apart, then fill the gaps.
        let mut bits = self.holes as u64;
        bits = (bits | bits << 24) & 0x0000_00ff_0000_00ff;
        bits = (bits | bits << 12) & 0x000f_000f_000f_000f;
        bits = (bits | bits << 6) & 0x0303_0303_0303_0303;
        bits = (bits | bits << 3) & 0x1111_1111_1111_1111;
        !(bits * 0xf)
    }

    /// Returns a mask with one bit set for each inode that is on disk and in use.
    #[must_use]
    pub const fn allocated(&self) -> u64 {
        self.present() & !self.free
    }

    /// Returns whether some of the 64 inodes are not on disk.
    #[must_use]
    pub const fn is_sparse(&self) -> bool {
        self.holes != 0
    }

    /// Returns the position of an inode in the chunk, or `None` if the inode is not one of the 64.
    #[must_use]
    pub const fn position(&self, inode: AgInode) -> Option<u32> {
        match inode.0.checked_sub(self.start.0) {
            Some(position) if position < INODES_PER_CHUNK => Some(position),
            _ => None,
        }
    }
}

fn decode_key(bytes: &[u8]) -> Option<AgInode> {
    U32::read_from_bytes(bytes).ok().map(|start| AgInode(start.get()))
}

fn may_follow(record: &InodeChunk, previous: &InodeChunk) -> bool {
    record.start.0.checked_sub(INODES_PER_CHUNK).is_some_and(|before| previous.start.0 <= before)
}

/// Implements [`BtreeFormat`] for one of the two inode btrees. `$decode` decodes and checks a
/// record.
macro_rules! chunk_btree {
    ($tree:ident, $kind:expr, $decode:path) => {
        impl BtreeFormat for $tree {
            const KIND: BtreeKind = $kind;
            type Record = InodeChunk;
            type Key = AgInode;
            // A chunk is as long as another.
            const KEY_TELLS_ALL: bool = true;

            fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<InodeChunk, Check> {
                $decode(bytes, group)
            }

            fn decode_key(bytes: &[u8]) -> Option<AgInode> {
                decode_key(bytes)
            }

            fn decode_record_key(bytes: &[u8], _group: &Group<'_>) -> Result<Self::Key, Check> {
                let key = bytes.get(..KEY_BYTES).and_then(Self::decode_key);
                key.ok_or_else(|| crate::envelope::truncated(bytes, KEY_BYTES))
            }

            fn key(record: &InodeChunk) -> AgInode {
                record.start
            }

            fn encode_record(record: &InodeChunk, geometry: &Geometry, into: &mut [u8]) {
                put(&record.encode(geometry), into);
            }

            fn encode_key(record: &InodeChunk, into: &mut [u8]) {
                put(&U32::new(record.start.0), into);
            }

            fn may_follow(record: &InodeChunk, previous: &InodeChunk) -> bool {
                may_follow(record, previous)
            }
        }
    };
}

/// The btree of all inode chunks.
#[doc(alias = "inobt")]
#[derive(Clone, Copy, Debug)]
pub enum InodeChunks {}

chunk_btree!(InodeChunks, BtreeKind::Inode, InodeChunk::decode);

/// The btree of inode chunks that have a free inode.
#[doc(alias = "finobt")]
#[derive(Clone, Copy, Debug)]
pub enum FreeInodeChunks {}

chunk_btree!(FreeInodeChunks, BtreeKind::FreeInode, decode_with_free);

/// Decodes and checks a record of the btree of chunks that have a free inode.
fn decode_with_free(bytes: &[u8], group: &Group<'_>) -> Result<InodeChunk, Check> {
    let chunk = InodeChunk::decode(bytes, group)?;
    if chunk.free_count == 0 {
        return Err(InodeChunkCheck::NoneFree { start: chunk.start.0 }.into());
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests;
