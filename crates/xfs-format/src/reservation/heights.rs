//! The height to which each btree of a volume can grow, as reservations count it.

use crate::btree::BtreeKind;
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::{Geometry, INODES_PER_CHUNK};
use crate::inode::ForkKind;

/// The largest number of levels of each btree, including the root; 0 for a btree that the volume
/// does not have.
///
/// These numbers are not limits for readers: [`BtreeKind::max_levels`] gives those. They are the
/// heights of trees with half-full leaves and nodes and with as many records as the blocks of a
/// group allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtreeHeights {
    /// Height of either free-space btree.
    #[doc(alias = "m_alloc_maxlevels")]
    pub free_space: u32,
    /// Height of the reverse map's btree.
    #[doc(alias = "m_rmap_maxlevels")]
    pub reverse_map: u32,
    /// Height of the btree of reference counts.
    #[doc(alias = "m_refc_maxlevels")]
    pub refcount: u32,
    /// Height of either inode btree.
    #[doc(alias = "inobt_maxlevels")]
    pub inode: u32,
    /// Height of the btree of a data fork's extents, including the root in the inode.
    #[doc(alias = "m_bm_maxlevels")]
    pub data_extents: u32,
    /// Height of the btree of an attribute fork's extents, including the root in the inode.
    pub attr_extents: u32,
}

impl BtreeHeights {
    /// Returns the heights on a volume with this geometry.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        let group_blocks = u64::from(geometry.ag_blocks);
        let ceiling =
            |kind: BtreeKind, records: u64| by_records(HalfFull::new(kind, geometry), records);
        let has_reflink = geometry.has_ro_compat(RoCompatFeatures::REFLINK);
        let reverse_map = match geometry.has_ro_compat(RoCompatFeatures::RMAPBT) {
            false => 0,
            // A shared block has a record for each of its owners, so the number of blocks does not
            // limit the records. Only the space for the tree does.
            true if has_reflink => {
                by_blocks(HalfFull::new(BtreeKind::ReverseMap, geometry), group_blocks)
            }
            true => ceiling(BtreeKind::ReverseMap, group_blocks),
        };
        let refcount = if has_reflink { ceiling(BtreeKind::Refcount, group_blocks) } else { 0 };
        let chunks = (1_u64 << geometry.ag_inode_log()) / u64::from(INODES_PER_CHUNK);
        Self {
            // Free extents are never adjacent, so at most every second block starts one.
            free_space: ceiling(BtreeKind::FreeSpaceByBlock, group_blocks.div_ceil(2)),
            reverse_map,
            refcount,
            inode: ceiling(BtreeKind::Inode, chunks),
            data_extents: Self::of_extents(geometry, ForkKind::Data),
            attr_extents: Self::of_extents(geometry, ForkKind::Attr),
        }
    }

    /// Returns `data_extents` or `attr_extents` alone, for callers that often need only one of
    /// them.
    #[must_use]
    pub fn of_extents(geometry: &Geometry, fork: ForkKind) -> u32 {
        let (data_records, attr_records) = most_extents(geometry);
        let fill = HalfFull::new(BtreeKind::Extent, geometry);
        match fork {
            ForkKind::Data => in_inode(fill, data_records, DATA_ROOT_RECORDS),
            ForkKind::Attr => in_inode(fill, attr_records, ATTR_ROOT_RECORDS),
        }
    }
}

/// Number of children of the root of a fork's btree, in the smallest fork that can hold a root.
const DATA_ROOT_RECORDS: u64 = 3;
const ATTR_ROOT_RECORDS: u64 = 2;

/// Returns the largest numbers of extents that the counters of a data fork and of an attribute fork
/// can hold.
#[doc(alias = "xfs_iext_max_nextents")]
fn most_extents(geometry: &Geometry) -> (u64, u64) {
    if geometry.has_incompat(IncompatFeatures::NREXT64) {
        ((1 << 48) - 1, u32::MAX.into())
    } else {
        (i32::MAX.cast_unsigned().into(), i16::MAX.cast_unsigned().into())
    }
}

/// The numbers of records in a half-full leaf and of children of a half-full node.
#[derive(Clone, Copy)]
struct HalfFull {
    records: u64,
    children: u64,
}

impl HalfFull {
    fn new(kind: BtreeKind, geometry: &Geometry) -> Self {
        let layout = kind.layout();
        let records = layout.max_records(geometry.block_size) / 2;
        let children = layout.max_pointers(geometry.block_size) / 2;
        // The limits never apply: even the smallest block, of 1 KiB, holds more than that.
        Self { records: records.max(1) as u64, children: children.max(2) as u64 }
    }
}

/// Returns the height of a btree with `records` records.
#[doc(alias = "xfs_btree_compute_maxlevels")]
fn by_records(fill: HalfFull, records: u64) -> u32 {
    let mut blocks = records.div_ceil(fill.records);
    let mut height = 1;
    while blocks > 1 {
        blocks = blocks.div_ceil(fill.children);
        height += 1;
    }
    height
}

/// Returns the height of a btree that occupies `blocks` blocks.
#[doc(alias = "xfs_btree_space_to_height")]
fn by_blocks(fill: HalfFull, blocks: u64) -> u32 {
    let mut left = blocks.saturating_sub(1);
    // Only the root may be less than half full. It has at least two children.
    let mut level_blocks = 2_u64;
    let mut height = 1;
    while level_blocks < left {
        left -= level_blocks;
        level_blocks = level_blocks.saturating_mul(fill.children);
        height += 1;
    }
    height
}

/// Returns the height of a btree with `records` records whose root is in an inode and has room for
/// `root_records` children.
#[doc(alias = "xfs_bmap_compute_maxlevels")]
fn in_inode(fill: HalfFull, records: u64, root_records: u64) -> u32 {
    let mut blocks = records.div_ceil(fill.records);
    let mut height = 1;
    while blocks > 1 {
        blocks = if blocks <= root_records { 1 } else { blocks.div_ceil(fill.children) };
        height += 1;
    }
    height
}
