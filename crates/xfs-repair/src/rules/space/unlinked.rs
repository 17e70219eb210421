//! The unlinked lists of a group, built from the inodes without links.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::agf::BtreeRoot;
use xfs_format::agi::{Agi, UNLINKED_BUCKETS};
use xfs_format::{AgBlock, AgInode, AgNumber, Geometry, InodeNumber, Lsn};

use crate::build::headers;
use crate::error::RepairError;
use crate::model::{InodeState, Model};
use crate::patient::Patient;
use crate::trees;

/// An inode that is on an unlinked list, or must be on one.
pub(super) struct Unlinked {
    number: InodeNumber,
    in_group: AgInode,
    /// Whether the inode has no links.
    is_unlinked: bool,
    /// The next inode on its list, according to the inode.
    next: AgInode,
}

/// Returns, for each of the groups, the inodes that are on an unlinked list or must be on one, in
/// order of their numbers. Leaves out doubtful inodes: their link count may be wrong, and a write
/// would give their wrong contents a right checksum.
pub(super) fn find(
    model: &Model,
    geometry: &Geometry,
    groups: &BTreeSet<AgNumber>,
) -> BTreeMap<AgNumber, Vec<Unlinked>> {
    let mut found: BTreeMap<AgNumber, Vec<Unlinked>> = BTreeMap::new();
    let sound = model.inodes.iter().filter(|(_, inode)| inode.state == InodeState::Sound);
    for (number, inode) in sound {
        let (Some((group, in_group)), Some(core)) = (geometry.split_inode(*number), &inode.core)
        else {
            continue;
        };
        let (is_unlinked, next) = (core.nlink == 0, core.next_unlinked);
        if groups.contains(&group) && (is_unlinked || next != AgInode::NULL) {
            let unlinked = Unlinked { number: *number, in_group, is_unlinked, next };
            found.entry(group).or_default().push(unlinked);
        }
    }
    found
}

/// Builds the unlinked lists of a group from the inodes that [`find`] has returned for it. If no
/// AGI can be read, writes one that holds only these lists, from which rule `space` then rebuilds
/// the whole AGI.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(super) fn relink(
    patient: &mut Patient,
    number: AgNumber,
    inodes: &[Unlinked],
) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    let mut heads = [None; UNLINKED_BUCKETS];
    for inode in inodes.iter().rev() {
        let mut next = AgInode::NULL;
        if inode.is_unlinked {
            let bucket = heads.get_mut(inode.in_group.0 as usize % UNLINKED_BUCKETS);
            let head: &mut Option<AgInode> = bucket.expect("a bucket is below their number");
            next = head.replace(inode.in_group).unwrap_or(AgInode::NULL);
        }
        if inode.next != next {
            patient.set_inode(inode.number, |core| core.next_unlinked = next)?;
        }
    }
    let agi = match trees::agi(patient, number) {
        // The number and the length in a damaged header are those of another group.
        Some(header) => Agi {
            group: number,
            length_blocks: geometry.ag_length(number),
            unlinked: heads,
            ..header.header
        },
        None => Agi { unlinked: heads, ..without_btrees(&geometry, number) },
    };
    let block = headers::agi(&agi, &geometry);
    patient.write(block.at, &block.bytes)
}

/// Returns an AGI without roots of inode btrees.
fn without_btrees(geometry: &Geometry, number: AgNumber) -> Agi {
    Agi {
        group: number,
        length_blocks: geometry.ag_length(number),
        count: 0,
        free_count: 0,
        inode_btree: BtreeRoot { block: AgBlock(0), levels: 0 },
        free_inode_btree: None,
        newest_inode: None,
        unlinked: [None; UNLINKED_BUCKETS],
        inode_btree_blocks: None,
        free_inode_btree_blocks: None,
        lsn: Lsn(0),
    }
}
