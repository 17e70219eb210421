//! The unlinked lists of a group: inodes in use that no directory names.
//!
//! # Invariants
//!
//! - **I1** No more members are followed than the group has inodes, so the walk of a ring ends (C5
//!   of the crate).

use xfs_format::agi::UNLINKED_BUCKETS;
use xfs_format::inode::InodeCore;
use xfs_format::{AgInode, AgNumber, DiskAddr, Group};

use crate::code::Code;
use crate::facts::{Facts, Gap};
use crate::finding::{Finding, Place};
use crate::inode::Pass;

/// Follows the unlinked lists of a group from their heads, and passes the inodes on them to the
/// receiver of facts. Reports a list that leads to an impossible inode or does not end.
pub(crate) fn check<T: Facts>(pass: &mut Pass<'_, T>, number: AgNumber) {
    let geometry = pass.volume.geometry();
    let group = Group::new(geometry, number).expect("the group is one of the volume");
    let index = usize::try_from(number.0).expect("a group number fits an index");
    let summary = pass.groups.get(index).expect("each group has its summary");
    let mut budget = summary.inodes;
    for (bucket, head) in summary.unlinked.clone() {
        let mut next = head;
        while !next.is_null() {
            if budget == 0
                || !group.contains_inode(next)
                || next.0 as usize % UNLINKED_BUCKETS != bucket
            {
                // A ring ends here (I1).
                let found = match budget {
                    0 => format!("list {bucket} is longer than the group has inodes"),
                    _ => format!("list {bucket} leads to inode {} of the group", next.0),
                };
                let place = Place::of_group(number);
                pass.findings.push(Finding::new(Code::AgiUnlinkedList, place, found));
                pass.facts.gap(Gap::Unlinked(number));
                break;
            }
            budget -= 1;
            pass.facts.on_unlinked_list(group.join_inode(next));
            match next_of(pass, &group, next) {
                Some(after) => next = after,
                None => {
                    pass.facts.gap(Gap::Unlinked(number));
                    break;
                }
            }
        }
    }
}

/// Returns the next member of an unlinked list, read from `inode`. Returns `None` at the end of the
/// list, or if the inode cannot be read. The pass over the inodes reports such an inode.
fn next_of<T: Facts>(pass: &Pass<'_, T>, group: &Group<'_>, inode: AgInode) -> Option<AgInode> {
    let geometry = pass.volume.geometry();
    let block = geometry.ag_block_disk_addr(group.number(), geometry.ag_inode_block(inode));
    let at = DiskAddr(block.0 + u64::from(geometry.inode_offset_in_block(inode)) / 512);
    let mut bytes = vec![0; geometry.inode_size as usize];
    pass.volume.read(at, &mut bytes).ok()?;
    let core = InodeCore::decode(&bytes, group.join_inode(inode), geometry).ok()?;
    core.verify(&bytes, &pass.volume.context()).ok()?;
    Some(core.next_unlinked)
}
