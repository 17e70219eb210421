//! The rules: each rewrites one kind of object, from what else the volume says about it.
//!
//! Owns: the order of the rules. The order follows the dependencies: geometry, chunks, inodes, forks,
//! contents of directories and attributes, names and links, and space last, because new blocks are
//! taken by the claims of all owners.

mod attributes;
mod counters;
mod directory;
mod facts;
mod fork;
mod inode;
mod inode_chunks;
mod links;
mod lost_chunks;
mod names;
mod orphans;
mod pieces;
mod resolve;
mod space;
mod superblock;
mod symlink;

use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::{DiskAddr, InodeNumber};

use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// Writes the superblock if its sector does not hold it. The checker takes the superblock from its
/// caller, so it has no finding about that sector.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run_first(patient: &mut Patient) -> Result<(), RepairError> {
    superblock::run(patient, &Damage::default())
}

/// Returns the inode whose fork has a btree block at this address, by the reverse map.
pub(crate) fn owner_of_block(patient: &Patient, at: DiskAddr) -> Option<InodeNumber> {
    let (group, block) = patient.geometry().split_disk_addr(at)?;
    let map = patient.reverse_map(group);
    let covers = |record: &&Rmap| record.start <= block && block < record.end();
    map.records.iter().filter(covers).find_map(|record| match record.owner {
        RmapOwner::Inode(inode) if record.flags.contains(RmapFlags::FORK_BTREE) => Some(inode),
        _ => None,
    })
}

/// Applies the rules to the damage of a round. Returns whether something was changed.
///
/// After a change to chunks, inodes or maps, the findings about names are out of date: they wait for
/// the next round.
///
/// # Errors
///
/// The first error of a rule.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<bool, RepairError> {
    let before = patient.count_actions();
    superblock::run(patient, damage)?;
    inode::run(patient, damage)?;
    let damaged = inode_chunks::run(patient, damage);
    lost_chunks::run(patient, damage, &damaged)?;
    fork::run(patient, damage)?;
    if patient.count_actions() == before {
        names::run(patient, damage)?;
    }
    if patient.count_actions() == before {
        symlink::run(patient, damage)?;
    }
    space::run(patient, damage)?;
    counters::run(patient, damage)?;
    Ok(patient.count_actions() != before)
}
