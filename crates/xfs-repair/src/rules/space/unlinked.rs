//! The unlinked lists of a group, built from the inodes without links.

use xfs_format::agf::BtreeRoot;
use xfs_format::agi::{Agi, UNLINKED_BUCKETS};
use xfs_format::{AgBlock, AgInode, AgNumber, Geometry, Lsn};

use crate::build::headers;
use crate::error::RepairError;
use crate::patient::Patient;
use crate::trees;

/// Builds the unlinked lists of a group. If no AGI can be read, writes one that holds only these
/// lists, from which rule `space` then rebuilds the whole AGI.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(super) fn relink(patient: &mut Patient, number: AgNumber) -> Result<(), RepairError> {
    let model = patient.model();
    let geometry = patient.geometry().clone();
    let mut heads = [None; UNLINKED_BUCKETS];
    for (inode, found) in model.inodes.iter().rev() {
        let (Some((group, in_group)), Some(core)) = (geometry.split_inode(*inode), &found.core)
        else {
            continue;
        };
        if group != number {
            continue;
        }
        let mut next = AgInode::NULL;
        if core.nlink == 0 {
            let bucket = heads.get_mut(in_group.0 as usize % UNLINKED_BUCKETS);
            let head: &mut Option<AgInode> = bucket.expect("a bucket is below their number");
            next = head.replace(in_group).unwrap_or(AgInode::NULL);
        }
        if core.next_unlinked != next {
            patient.set_inode(*inode, |core| core.next_unlinked = next)?;
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
