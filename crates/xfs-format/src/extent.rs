//! Extent records of a fork (`xfs_bmbt_rec`), lists of them, and the root of an extent btree.
//!
//! Owns: the packed record, the rules of one list, and the root in the inode. Does **not** own:
//! btree blocks outside the inode ([`btree`](crate::btree)), or the map of a whole fork, which a
//! higher layer builds.
//!
//! ```text
//! bit 127        126                 73 72                 21 20            0
//!     | unwritten | file block (54)    | block (52)          | length (21)   |
//! ```
//!
//! # Invariants
//!
//! - **I1** The records of a fork are in file order and do not overlap. A gap is a hole.
//! - **I2** Every record covers at least one block. On the data device, all its blocks lie in one
//!   allocation group and after the headers of that group. On the realtime device, all its blocks
//!   lie in one realtime group.
//! - **I3** Only data forks of regular files have unwritten records.

mod root;

pub use root::{EXTENT_ROOT_HEADER_BYTES, ExtentRoot, MAX_EXTENT_LEVELS, encode_extent_root};

use core::mem::size_of;

use zerocopy::big_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{FileBlock, FsBlock};
pub use crate::checks::extent::ExtentCheck;
use crate::geometry::Geometry;
use crate::inode::{FileType, ForkKind, InodeCore};

/// Length of a record in bytes.
pub const EXTENT_BYTES: usize = size_of::<ExtentDisk>();
/// The largest number of blocks that one record can cover.
#[doc(alias = "XFS_MAX_BMBT_EXTLEN")]
pub const MAX_EXTENT_BLOCKS: u32 = (1 << LENGTH_BITS) - 1;
/// Limit on the block numbers of a file: every block number is lower.
#[doc(alias = "XFS_MAX_FILEOFF")]
pub const FILE_BLOCK_LIMIT: u64 = (1 << FILE_BLOCK_BITS) - 1;
/// Limit on the extents of a data fork with 32-bit counters, which are signed.
#[doc(alias = "XFS_MAX_EXTCNT_DATA_FORK_SMALL")]
pub const MAX_EXTENTS: u64 = (1 << 31) - 1;
/// Limit on the extents of an attribute fork with 16-bit counters, which are signed.
#[doc(alias = "XFS_MAX_EXTCNT_ATTR_FORK_SMALL")]
pub const MAX_ATTR_EXTENTS: u64 = (1 << 15) - 1;
/// Limit on the extents of a data fork with 64-bit counters, of which the format uses 48 bits.
#[doc(alias = "XFS_MAX_EXTCNT_DATA_FORK_LARGE")]
pub const MAX_BIG_EXTENTS: u64 = (1 << 48) - 1;
/// Limit on the extents of an attribute fork with 32-bit counters.
#[doc(alias = "XFS_MAX_EXTCNT_ATTR_FORK_LARGE")]
pub const MAX_BIG_ATTR_EXTENTS: u64 = (1 << 32) - 1;

const LENGTH_BITS: u32 = 21;
const FILE_BLOCK_BITS: u32 = 54;
const BLOCK_BITS: u32 = 52;
const LOW_BLOCK_BITS: u32 = 64 - LENGTH_BITS;
const HIGH_BLOCK_BITS: u32 = BLOCK_BITS - LOW_BLOCK_BITS;

/// An extent record on disk.
#[doc(alias = "xfs_bmbt_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtentDisk {
    /// The unwritten bit, the file block, and the high bits of the volume's block.
    pub high: U64,
    /// The low bits of the volume's block, and the length.
    pub low: U64,
}

const _: () = assert!(size_of::<ExtentDisk>() == 16);

/// An extent: a mapping of consecutive file blocks to consecutive blocks of the volume.
#[doc(alias = "xfs_bmbt_irec")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The file block at which the extent starts.
    #[doc(alias = "br_startoff")]
    pub file_block: FileBlock,
    /// The block of the volume at which the extent starts.
    #[doc(alias = "br_startblock")]
    pub start: FsBlock,
    /// Number of blocks.
    #[doc(alias = "br_blockcount")]
    pub length_blocks: u32,
    /// Whether the blocks are allocated but not written, so that they read as zeros.
    pub unwritten: bool,
}

/// The rules that the records of one fork must satisfy.
#[derive(Clone, Copy, Debug)]
pub struct ExtentRules<'a> {
    geometry: &'a Geometry,
    /// Whether the blocks are on the realtime device.
    is_realtime: bool,
    unwritten_allowed: bool,
}

impl<'a> ExtentRules<'a> {
    /// Returns the rules for a fork of this inode.
    #[must_use]
    pub fn of(core: &InodeCore, kind: ForkKind, geometry: &'a Geometry) -> Self {
        let is_data = kind == ForkKind::Data;
        Self {
            geometry,
            is_realtime: is_data && core.is_realtime(),
            unwritten_allowed: is_data && core.file_type() == Some(FileType::Regular),
        }
    }
}

impl Extent {
    /// Decodes a record. Every bit pattern decodes; [`verify`](Self::verify) checks the result.
    #[doc(alias = "xfs_bmbt_disk_get_all")]
    #[inline]
    #[must_use]
    pub const fn decode(disk: &ExtentDisk) -> Self {
        let (high, low) = (disk.high.get(), disk.low.get());
        let high_block = high & ((1 << HIGH_BLOCK_BITS) - 1);
        Self {
            file_block: FileBlock((high >> HIGH_BLOCK_BITS) & ((1 << FILE_BLOCK_BITS) - 1)),
            start: FsBlock((high_block << LOW_BLOCK_BITS) | (low >> LENGTH_BITS)),
            length_blocks: (low & ((1 << LENGTH_BITS) - 1)) as u32,
            unwritten: high >> (FILE_BLOCK_BITS + HIGH_BLOCK_BITS) != 0,
        }
    }

    /// Decodes the record in `bytes`. Returns `None` if `bytes` do not have the length of a record.
    #[must_use]
    pub fn decode_bytes(bytes: &[u8]) -> Option<Self> {
        ExtentDisk::ref_from_bytes(bytes).ok().map(Self::decode)
    }

    /// Encodes a record. Returns `None` if a value does not fit its field.
    #[doc(alias = "xfs_bmbt_disk_set_all")]
    #[must_use]
    pub fn encode(&self) -> Option<ExtentDisk> {
        let (file_block, start) = (self.file_block.0, self.start.0);
        let fits = file_block >> FILE_BLOCK_BITS == 0
            && start >> BLOCK_BITS == 0
            && self.length_blocks <= MAX_EXTENT_BLOCKS;
        let high = (u64::from(self.unwritten) << (FILE_BLOCK_BITS + HIGH_BLOCK_BITS))
            | (file_block << HIGH_BLOCK_BITS)
            | (start >> LOW_BLOCK_BITS);
        let low = (start << LENGTH_BITS) | u64::from(self.length_blocks);
        fits.then(|| ExtentDisk { high: high.into(), low: low.into() })
    }

    /// Returns the file block after the last file block of the extent.
    #[must_use]
    pub const fn end(&self) -> FileBlock {
        FileBlock(self.file_block.0.saturating_add(self.length_blocks as u64))
    }

    /// Checks the record by itself, without its neighbours: where its blocks may lie (I2), and
    /// whether it may be unwritten (I3).
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self, rules: &ExtentRules<'_>) -> Result<(), ExtentCheck> {
        let Self { file_block, start, length_blocks, unwritten } = *self;
        // I2: a record covers at least one block.
        if length_blocks == 0 {
            return Err(ExtentCheck::Empty { file_block });
        }
        if self.end().0 > FILE_BLOCK_LIMIT {
            return Err(ExtentCheck::FileLimit { file_block });
        }
        let (geometry, length) = (rules.geometry, u64::from(length_blocks));
        let exists = if rules.is_realtime {
            // The checker reports realtime files of a volume without a realtime section.
            let realtime = &geometry.realtime;
            !realtime.is_present() || realtime.contains_extent(start, length)
        } else {
            geometry.contains_extent(start, length) && is_for_files(start, geometry)
        };
        // I2: all blocks exist and lie in one group.
        if !exists {
            return Err(ExtentCheck::OutsideVolume { file_block, start, length_blocks });
        }
        // I3: only data forks of regular files have unwritten records.
        if unwritten && !rules.unwritten_allowed {
            return Err(ExtentCheck::Unwritten { file_block });
        }
        Ok(())
    }
}

/// Returns whether `block` exists and is not part of a group's headers.
#[doc(alias = "xfs_verify_fsbno")]
fn is_for_files(block: FsBlock, geometry: &Geometry) -> bool {
    let split = geometry.split_block(block);
    split.is_some_and(|(_, block)| block.0 >= geometry.header_blocks())
}

/// The extent records in the bytes of a fork or of a btree leaf.
#[derive(Clone, Copy, Debug)]
pub struct ExtentList<'a> {
    records: &'a [ExtentDisk],
}

impl<'a> ExtentList<'a> {
    /// Creates a list of the first `count` records of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`ExtentCheck::Room`] if there are too few bytes.
    pub fn decode(bytes: &'a [u8], count: u64) -> Result<Self, ExtentCheck> {
        let no_room = ExtentCheck::Room { count, room: bytes.len() };
        let wanted = usize::try_from(count).map_err(|_| no_room)?;
        match <[ExtentDisk]>::ref_from_prefix_with_elems(bytes, wanted) {
            Ok((records, _)) => Ok(Self { records }),
            Err(_) => Err(no_room),
        }
    }

    /// Returns the number of records.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.records.len()
    }

    /// Returns the records, in order and without checking them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Extent> + DoubleEndedIterator + use<'a> {
        self.records.iter().map(Extent::decode)
    }

    /// Checks every record, and that the records are in order (I1) from file block `from` on.
    /// Returns the file block after the last record. The caller passes this block as `from` for the
    /// next list of the same fork.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(
        &self,
        from: FileBlock,
        rules: &ExtentRules<'_>,
    ) -> Result<FileBlock, ExtentCheck> {
        let mut end = from;
        for extent in self.iter() {
            extent.verify(rules)?;
            // I1: the records are in order and do not overlap.
            if extent.file_block < end {
                return Err(ExtentCheck::Order { file_block: extent.file_block, end });
            }
            end = extent.end();
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests;
