//! AG free-space header (AGF, `xfs_agf`): sector 1 of every allocation group.
//!
//! Owns: decoding, and every check of the AGF against itself and against the group's size. Does
//! **not** own the comparison of the AGF's counters with the btrees.
//!
//! ```text
//!   0 magic  4 version  8 group  12 length  16 roots (by block, by size, reverse map)  28 levels
//!  40 free list: first, last, count  52 free blocks  56 longest  60 btree blocks  64 UUID
//!  80 reverse map blocks  84 reference count blocks, root, level 96 spare  208 LSN  216 CRC .. 224
//! ```

use core::mem::offset_of;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{AgBlock, AgNumber, DiskAddr, Lsn};
use crate::agfl;
use crate::btree::BtreeKind;
pub use crate::checks::agf::AgfCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope, HeaderSector};
use crate::features::RoCompatFeatures;
use crate::geometry::Geometry;
use crate::group::Group;
use crate::verify_context::VerifyContext;

/// Magic number of the AGF: "XAGF".
pub const AGF_MAGIC: u32 = 0x5841_4746;
/// Index of the AGF's sector in its group.
pub const AGF_SECTOR: u32 = 1;
const VERSION: u32 = 1;

/// The AGF on disk.
#[doc(alias = "xfs_agf")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `Agf`, documented there")]
pub struct AgfDisk {
    pub magic: U32,
    pub version: U32,
    pub group: U32,
    pub length: U32,
    pub by_block_root: U32,
    pub by_size_root: U32,
    pub reverse_map_root: U32,
    pub by_block_levels: U32,
    pub by_size_levels: U32,
    pub reverse_map_levels: U32,
    pub free_list_first: U32,
    pub free_list_last: U32,
    pub free_list_count: U32,
    pub free_blocks: U32,
    pub longest: U32,
    pub btree_blocks: U32,
    pub uuid: [u8; 16],
    pub reverse_map_blocks: U32,
    pub refcount_blocks: U32,
    pub refcount_root: U32,
    pub refcount_levels: U32,
    pub spare: [U64; 14],
    pub lsn: U64,
    pub crc: [u8; 4],
    pub spare2: U32,
}

const _: () = assert!(size_of::<AgfDisk>() == 224);
const _: () = assert!(offset_of!(AgfDisk, uuid) == 64);
const _: () = assert!(offset_of!(AgfDisk, crc) == 216);

pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(AgfDisk, crc),
    uuid: offset_of!(AgfDisk, uuid),
    lsn: offset_of!(AgfDisk, lsn),
    block: None,
};

/// The root of a btree of the group, and the height of the btree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BtreeRoot {
    /// The root block.
    pub block: AgBlock,
    /// Number of levels of the btree; 1 if the root is a leaf.
    pub levels: u32,
}

/// The entries of the free list that are in use. The list is a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FreeListRange {
    /// Index of the first entry in use.
    #[doc(alias = "flfirst")]
    pub first: u32,
    /// Index of the last entry in use.
    #[doc(alias = "fllast")]
    pub last: u32,
    /// Number of entries in use. If it is 0, `first` and `last` have no meaning.
    #[doc(alias = "flcount")]
    pub count: u32,
}

/// The AGF in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agf {
    /// The number of the allocation group.
    #[doc(alias = "seqno")]
    pub group: AgNumber,
    /// Number of blocks in the group.
    pub length_blocks: u32,
    /// Root of the btree of free extents, sorted by block number.
    #[doc(alias = "bnobt")]
    pub free_space_by_block: BtreeRoot,
    /// Root of the btree of free extents, sorted by length.
    #[doc(alias = "cntbt")]
    pub free_space_by_size: BtreeRoot,
    /// Root of the reverse map's btree, if the volume has one.
    #[doc(alias = "rmapbt")]
    pub reverse_map: Option<BtreeRoot>,
    /// Root of the btree of reference counts, if the volume has one.
    #[doc(alias = "refcountbt")]
    pub refcount: Option<BtreeRoot>,
    /// The entries of the free list that are in use.
    pub free_list: FreeListRange,
    /// Number of free blocks that the records of the free-space btrees describe. Blocks on the free
    /// list do not count.
    #[doc(alias = "freeblks")]
    pub free_blocks: u32,
    /// Length of the longest free extent, in blocks.
    #[doc(alias = "longest")]
    pub longest_free_blocks: u32,
    /// Number of blocks that the two free-space btrees and the reverse map occupy, without their
    /// roots.
    #[doc(alias = "btreeblks")]
    pub btree_blocks: u32,
    /// Number of blocks that the reverse map occupies, including its root.
    #[doc(alias = "rmap_blocks")]
    pub reverse_map_blocks: u32,
    /// Number of blocks that the btree of reference counts occupies, including its root.
    pub refcount_blocks: u32,
    /// The LSN of the last logged change of the AGF.
    pub lsn: Lsn,
}

impl Agf {
    /// Decodes the AGF at the start of `sector`, which was read from `at`. The volume's features
    /// decide which optional btrees exist. Values are not checked: [`BlockKind::verify`] does that.
    ///
    /// [`BlockKind::verify`]: crate::BlockKind::verify
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong magic number, or too few bytes.
    pub fn decode(sector: &[u8], at: DiskAddr, geometry: &Geometry) -> Result<Self, Corruption> {
        envelope::header_form::<AgfDisk>(sector)
            .map(|disk| Self::from_disk(disk, geometry))
            .map_err(|check| Corruption::new(Structure::Agf, StructureAddress::Disk(at), check))
    }

    fn from_disk(disk: &AgfDisk, geometry: &Geometry) -> Self {
        let has_reverse_map = geometry.has_ro_compat(RoCompatFeatures::RMAPBT);
        let has_refcount = geometry.has_ro_compat(RoCompatFeatures::REFLINK);
        let root = |block: U32, levels: U32| BtreeRoot {
            block: AgBlock(block.get()),
            levels: levels.get(),
        };
        Self {
            group: AgNumber(disk.group.get()),
            length_blocks: disk.length.get(),
            free_space_by_block: root(disk.by_block_root, disk.by_block_levels),
            free_space_by_size: root(disk.by_size_root, disk.by_size_levels),
            reverse_map: has_reverse_map
                .then(|| root(disk.reverse_map_root, disk.reverse_map_levels)),
            refcount: has_refcount.then(|| root(disk.refcount_root, disk.refcount_levels)),
            free_list: FreeListRange {
                first: disk.free_list_first.get(),
                last: disk.free_list_last.get(),
                count: disk.free_list_count.get(),
            },
            free_blocks: disk.free_blocks.get(),
            longest_free_blocks: disk.longest.get(),
            btree_blocks: disk.btree_blocks.get(),
            reverse_map_blocks: if has_reverse_map { disk.reverse_map_blocks.get() } else { 0 },
            refcount_blocks: if has_refcount { disk.refcount_blocks.get() } else { 0 },
            lsn: Lsn(disk.lsn.get()),
        }
    }

    /// Writes the AGF into `sector` and zeros after it.
    /// [`BlockKind::seal`](crate::BlockKind::seal) stores LSN and checksum.
    ///
    /// # Panics
    ///
    /// Panics if `sector` is too short, which is a mistake of the caller.
    pub fn encode(&self, geometry: &Geometry, sector: &mut [u8]) {
        let absent = BtreeRoot { block: AgBlock(0), levels: 0 };
        let (reverse_map, refcount) =
            (self.reverse_map.unwrap_or(absent), self.refcount.unwrap_or(absent));
        let disk = AgfDisk {
            magic: AGF_MAGIC.into(),
            version: VERSION.into(),
            group: self.group.0.into(),
            length: self.length_blocks.into(),
            by_block_root: self.free_space_by_block.block.0.into(),
            by_size_root: self.free_space_by_size.block.0.into(),
            reverse_map_root: reverse_map.block.0.into(),
            by_block_levels: self.free_space_by_block.levels.into(),
            by_size_levels: self.free_space_by_size.levels.into(),
            reverse_map_levels: reverse_map.levels.into(),
            free_list_first: self.free_list.first.into(),
            free_list_last: self.free_list.last.into(),
            free_list_count: self.free_list.count.into(),
            free_blocks: self.free_blocks.into(),
            longest: self.longest_free_blocks.into(),
            btree_blocks: self.btree_blocks.into(),
            uuid: geometry.meta_uuid.into_bytes(),
            reverse_map_blocks: self.reverse_map_blocks.into(),
            refcount_blocks: self.refcount_blocks.into(),
            refcount_root: refcount.block.0.into(),
            refcount_levels: refcount.levels.into(),
            ..AgfDisk::new_zeroed()
        };
        envelope::fill(sector, &disk);
    }

    fn verify(&self, group: &Group<'_>) -> Result<(), AgfCheck> {
        let geometry = group.geometry();
        let (found, expected) = (self.group.0, group.number().0);
        if found != expected {
            return Err(AgfCheck::GroupNumber { found, expected });
        }
        let (found, expected) = (self.length_blocks, group.length_blocks());
        if found != expected {
            return Err(AgfCheck::Length { found, expected });
        }
        self.free_list.verify(agfl::capacity(geometry))?;
        let trees = [
            (BtreeKind::FreeSpaceByBlock, Some(self.free_space_by_block)),
            (BtreeKind::FreeSpaceBySize, Some(self.free_space_by_size)),
            (BtreeKind::ReverseMap, self.reverse_map),
            (BtreeKind::Refcount, self.refcount),
        ];
        for (kind, root) in trees {
            let Some(BtreeRoot { block, levels }) = root else { continue };
            let (tree, max) = (kind.name(), kind.max_levels(geometry));
            if !group.contains_block(block) {
                return Err(AgfCheck::Root { tree, block: block.0 });
            }
            if levels == 0 || levels > max {
                return Err(AgfCheck::Levels { tree, levels, max });
            }
        }
        self.verify_counters()
    }

    fn verify_counters(&self) -> Result<(), AgfCheck> {
        let (free, longest) = (self.free_blocks, self.longest_free_blocks);
        let length = self.length_blocks;
        if free > length || longest > free || (longest == 0 && free != 0) {
            return Err(AgfCheck::FreeBlocks { free, longest, length });
        }
        let taken = [
            ("free-space btrees", self.btree_blocks, false),
            ("the reverse map", self.reverse_map_blocks, self.reverse_map.is_some()),
            ("reference counts", self.refcount_blocks, self.refcount.is_some()),
        ];
        for (what, blocks, has_root) in taken {
            if blocks > length || blocks < u32::from(has_root) {
                return Err(AgfCheck::Blocks { what, blocks, length });
            }
        }
        Ok(())
    }
}

impl FreeListRange {
    /// Checks that the range lies in a ring of `size` entries. A range from `first` to `last` that
    /// does not have `count` entries passes this check, because kernels before 4.17 wrote such
    /// ranges. Code that reads the list refuses such a range. Code that changes the list first
    /// resets the range.
    fn verify(&self, size: u32) -> Result<(), AgfCheck> {
        let Self { first, last, count } = *self;
        if first >= size || last >= size || count > size {
            return Err(AgfCheck::FreeList { first, last, count, size });
        }
        Ok(())
    }
}

impl HeaderSector for AgfDisk {
    const MAGIC: u32 = AGF_MAGIC;
    const VERSION: u32 = VERSION;
    const INDEX: u32 = AGF_SECTOR;
    const ENVELOPE: Envelope = ENVELOPE;

    #[inline]
    fn magic(&self) -> u32 {
        self.magic.get()
    }

    #[inline]
    fn version(&self) -> u32 {
        self.version.get()
    }

    fn wrong_version(version: u32) -> Check {
        AgfCheck::Version { version }.into()
    }

    fn verify_fields(&self, group: &Group<'_>) -> Result<(), Check> {
        Ok(Agf::from_disk(self, group.geometry()).verify(group)?)
    }
}

/// Checks the AGF in `sector`, which was read from `at`.
pub(crate) fn verify(
    sector: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    envelope::verify_header::<AgfDisk>(sector, at, context)
}

#[cfg(test)]
mod tests;
