//! The header sectors of a group: AGF, AGI, AGFL.
//!
//! Owns: the sealed sectors. Does **not** own: the values, which rule `space` counts.

use xfs_format::agf::{AGF_SECTOR, Agf, BtreeRoot};
use xfs_format::agfl::{self, AGFL_SECTOR};
use xfs_format::agi::{AGI_SECTOR, Agi};
use xfs_format::btree::BtreeKind;
use xfs_format::{AgBlock, AgNumber, BlockKind, Geometry, RoCompatFeatures};

use crate::build::btree::BuiltBlock;

/// Returns the sealed sector of an AGF, with the LSN that it carries.
pub(crate) fn agf(agf: &Agf, geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agf.encode(geometry, &mut bytes);
    BlockKind::Agf.seal(&mut bytes, agf.lsn);
    BuiltBlock { at: geometry.header_disk_addr(agf.group, AGF_SECTOR), bytes }
}

/// Returns the sealed sector of an AGI, with the LSN that it carries.
pub(crate) fn agi(agi: &Agi, geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agi.encode(geometry, &mut bytes);
    BlockKind::Agi.seal(&mut bytes, agi.lsn);
    BuiltBlock { at: geometry.header_disk_addr(agi.group, AGI_SECTOR), bytes }
}

/// Returns the sealed sector of a free list with these blocks, from its first entry on.
pub(crate) fn agfl(group: AgNumber, blocks: &[AgBlock], geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agfl::encode(group, 0, blocks, geometry, &mut bytes);
    BlockKind::Agfl.seal(&mut bytes, xfs_format::Lsn(0));
    BuiltBlock { at: geometry.header_disk_addr(group, AGFL_SECTOR), bytes }
}

/// Returns the number of blocks that the free list of a group must hold: enough to split each level
/// of the btrees of free space and of the reverse map twice, and to grow each by one level.
#[doc(alias = "xfs_alloc_min_freelist")]
pub(crate) fn fewest_free_list(agf: &Agf, geometry: &Geometry) -> u32 {
    let of =
        |root: BtreeRoot, kind: BtreeKind| 2 * (root.levels + 1).min(kind.max_levels(geometry)) - 2;
    let has_map = geometry.has_ro_compat(RoCompatFeatures::RMAPBT);
    let map = agf.reverse_map.filter(|_| has_map);
    of(agf.free_space_by_block, BtreeKind::FreeSpaceByBlock)
        + of(agf.free_space_by_size, BtreeKind::FreeSpaceBySize)
        + map.map_or(0, |root| of(root, BtreeKind::ReverseMap))
}
