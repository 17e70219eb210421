//! Rule `inode-chunks`: finds the inode chunks of a group whose inode btrees are damaged.
//!
//! Owns: the decision to rebuild the inode btrees of a group, and the free masks of their records.
//! Does **not** own: how chunks are found ([`chunks`]), or building the btrees (rule `space`).

use std::collections::BTreeSet;

use xfs_check::{Area, Code, Place};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgNumber, Group};

use crate::action::{Action, counted};
use crate::chunks;
use crate::damage::Damage;
use crate::patient::Patient;

/// The name of this rule in plans and messages.
const RULE: &str = "inode-chunks";

/// Finds the inode chunks of all groups whose AGI or inode btrees are damaged, and marks these
/// groups for a rebuild. Returns these groups.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> BTreeSet<AgNumber> {
    let mut damaged = BTreeSet::new();
    let groups: Vec<AgNumber> = patient.geometry().groups().collect();
    for number in groups {
        if !is_damaged(patient, damage, number) {
            continue;
        }
        damaged.insert(number);
        let found = patient.chunks(number).chunks.clone();
        let group = Group::new(patient.geometry(), number).expect("a group of the volume");
        let chunks: Vec<InodeChunk> = found
            .iter()
            .map(|chunk| chunks::with_masks_of_inodes(patient, &group, chunk))
            .collect();
        let keeps = format!("{} of inodes", counted(chunks.len(), "chunk"));
        patient.set_chunks(number, chunks);
        let codes = damage.codes_of_group(number);
        patient.act(Action::new(RULE, Place::of_group(number), codes, keeps));
    }
    damaged
}

fn is_damaged(patient: &mut Patient, damage: &Damage, number: AgNumber) -> bool {
    let findings = damage.groups.get(&number).map(Vec::as_slice).unwrap_or_default();
    let is_unlinked = |code: Code| matches!(code, Code::AgiUnlinked | Code::AgiUnlinkedList);
    let in_header = findings.iter().any(|finding| {
        matches!(finding.code.area(), Area::Agi | Area::InodeBtree) && !is_unlinked(finding.code)
    });
    let has_btree = findings.iter().any(|finding| finding.code.area() == Area::Btree);
    if in_header || !has_btree {
        return in_header;
    }
    // A finding in a block of some btree: is it a block of an inode btree?
    let found = patient.chunks(number);
    !found.is_whole
        || findings.iter().any(|finding| {
            let block = finding.place.block.filter(|_| finding.code.area() == Area::Btree);
            block.is_some_and(|block| found.tree_blocks.contains(&block))
        })
}
