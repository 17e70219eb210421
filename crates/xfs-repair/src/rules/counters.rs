//! Rule `counters`: computes the counters of the superblock (inodes, free inodes, free blocks) from
//! the headers of all groups.
//!
//! Owns: these three counters. Does **not** own: the headers of groups, which rule `space` writes.

use xfs_check::{Area, Code, Place};
use xfs_format::{AgNumber, Superblock};

use super::{realtime, superblock};
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;
use crate::trees;

/// The name of this rule in plans and messages.
const RULE: &str = "counters";

/// Computes the superblock's counters from the headers of all groups, and writes the superblock if
/// a counter differs. If the headers of a group cannot be read, the counters are not known, and
/// nothing is written.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let stored = patient.superblock().clone();
    let mut counted =
        Superblock { inode_count: 0, free_inodes: 0, free_blocks: 0, ..stored.clone() };
    for group in patient.geometry().groups() {
        let (Some(agf), Some(agi)) = (trees::agf(patient, group), trees::agi(patient, group))
        else {
            return Ok(());
        };
        let (agf, agi) = (agf.header, agi.header);
        counted.inode_count += u64::from(agi.count);
        counted.free_inodes += u64::from(agi.free_count);
        counted.free_blocks += u64::from(agf.free_blocks)
            + u64::from(agf.free_list.count)
            + u64::from(agf.btree_blocks);
    }
    if let Some(free) = realtime::free_extents(patient) {
        counted.free_realtime_extents = free;
    }
    if counted == stored {
        return Ok(());
    }
    patient.set_superblock(counted.clone());
    superblock::write(patient, AgNumber(0), &counted)?;
    let is_counter = |code: &Code| code.area() == Area::Superblock;
    let codes: Vec<Code> =
        damage.volume.iter().map(|finding| finding.code).filter(is_counter).collect();
    let keeps = "the counters of all groups; the superblock has their sums";
    patient.act(Action::new(RULE, Place::default(), codes, keeps));
    Ok(())
}
