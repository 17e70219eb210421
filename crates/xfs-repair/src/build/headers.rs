//! Builder of the header sectors of a group: AGF, AGI, AGFL.
//!
//! Owns: encoding and sealing (checksumming) the sectors. Does **not** own: the values of the
//! fields, which rule `space` computes.

use xfs_format::agf::{AGF_SECTOR, Agf};
use xfs_format::agfl::{self, AGFL_SECTOR};
use xfs_format::agi::{AGI_SECTOR, Agi};
use xfs_format::{AgBlock, AgNumber, BlockKind, Geometry, Lsn};

use crate::build::btree::BuiltBlock;

/// Returns the sector of an AGF, with checksum. The sector gets the LSN in `agf`.
pub(crate) fn agf(agf: &Agf, geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agf.encode(geometry, &mut bytes);
    BlockKind::Agf.seal(&mut bytes, agf.lsn);
    BuiltBlock { at: geometry.header_disk_addr(agf.group, AGF_SECTOR), bytes }
}

/// Returns the sector of an AGI, with checksum. The sector gets the LSN in `agi`.
pub(crate) fn agi(agi: &Agi, geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agi.encode(geometry, &mut bytes);
    BlockKind::Agi.seal(&mut bytes, agi.lsn);
    BuiltBlock { at: geometry.header_disk_addr(agi.group, AGI_SECTOR), bytes }
}

/// Returns the sector of a group's free list, with its checksum. The entries of the list are
/// `blocks`, in this order and from the first entry on.
pub(crate) fn agfl(group: AgNumber, blocks: &[AgBlock], geometry: &Geometry) -> BuiltBlock {
    let mut bytes = vec![0; geometry.sector_size as usize];
    agfl::encode(group, 0, blocks, geometry, &mut bytes);
    BlockKind::Agfl.seal(&mut bytes, Lsn(0));
    BuiltBlock { at: geometry.header_disk_addr(group, AGFL_SECTOR), bytes }
}
