//! The rules: each rewrites one kind of damaged object, from other structures of the volume that
//! repeat its contents.
//!
//! Owns: the order of the rules. The order follows the dependencies: geometry, chunks, inodes,
//! forks, contents of directories and attributes, names and links. Space comes last, because it is
//! built from the claims of all owners, and the other rules change these claims.

mod attributes;
mod counters;
mod directory;
mod facts;
mod fork;
mod inode;
mod inode_chunks;
mod links;
mod logged_blocks;
mod lost_chunks;
mod names;
mod orphans;
mod owners;
mod pieces;
mod quota;
mod resolve;
mod space;
mod superblock;
mod symlink;

use std::collections::BTreeMap;

use xfs_check::{Code, Place, Report, Unsupported};
use xfs_device::{Durability, SharedDevice};
use xfs_evidence::SuperblockSource;
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::superblock::SuperblockError;
use xfs_format::{AgBlock, AgNumber, FsBlock, InodeNumber, Superblock};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::model::InodeState;
use crate::patient::Patient;
use crate::undo::read_device;

/// Writes the superblock to the first sector if that sector holds none. The checker takes the
/// superblock from its caller, so it reports nothing about that sector.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run_first(patient: &mut Patient) -> Result<(), RepairError> {
    superblock::run(patient, &Damage::default())
}

/// Groups the findings of a report by the object to which they belong. A finding in a block of a
/// fork's btree belongs to the inode whose fork points to the block. If no fork does, because the
/// pointer is destroyed too, it belongs to the inode that the reverse map names.
///
/// # Errors
///
/// [`RepairError::Stopped`] if the caller stops the repair.
pub(crate) fn group_findings(
    patient: &mut Patient,
    report: &Report,
) -> Result<Damage, RepairError> {
    let mut owners = None;
    let mut stopped = Ok(());
    let damage = Damage::of(report, |at| {
        let owners = owners.get_or_insert_with(|| {
            let found = owners_of_blocks(patient);
            found.unwrap_or_else(|error| {
                stopped = Err(error);
                BTreeMap::new()
            })
        });
        let (group, block) = patient.geometry().split_disk_addr(at)?;
        let by_fork = owners.get(&patient.geometry().join_block(group, block)).copied();
        by_fork.or_else(|| owner_by_map(patient, group, block))
    });
    stopped.map(|()| damage)
}

/// Returns, for each btree block to which a fork of a sound inode points, that inode.
fn owners_of_blocks(patient: &mut Patient) -> Result<BTreeMap<FsBlock, InodeNumber>, RepairError> {
    let model = patient.model()?;
    let mut owners = BTreeMap::new();
    let sound = model.inodes.iter().filter(|(_, inode)| inode.state == InodeState::Sound);
    for (number, inode) in sound {
        for fork in [&inode.data, &inode.attr] {
            for block in fork.btree_blocks.iter().chain(&fork.damaged_blocks) {
                owners.entry(*block).or_insert(*number);
            }
        }
    }
    Ok(owners)
}

/// Returns the inode to whose fork this btree block belongs according to the reverse map. `None` if
/// the reverse map names none.
fn owner_by_map(patient: &Patient, group: AgNumber, block: AgBlock) -> Option<InodeNumber> {
    let map = patient.reverse_map(group);
    let covers = |record: &&Rmap| record.start <= block && block < record.end();
    map.records.iter().filter(covers).find_map(|record| match record.owner {
        RmapOwner::Inode(inode) if record.flags.contains(RmapFlags::FORK_BTREE) => Some(inode),
        _ => None,
    })
}

/// Applies the rules to the damage that the check of this round has found. Returns whether a rule
/// changed anything.
///
/// After a change to chunks, inodes or maps, the findings about names are out of date. The rules
/// about names then wait for the next round. After a block was restored from the log, all other
/// rules wait.
///
/// # Errors
///
/// The first error of a rule. [`RepairError::Stopped`] if the caller stops the repair.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<bool, RepairError> {
    let before = patient.count_actions();
    logged_blocks::run(patient, damage)?;
    if patient.count_actions() != before {
        quota::run(patient, damage, true)?;
        return Ok(true);
    }
    patient.poll()?;
    superblock::run(patient, damage)?;
    inode::run(patient, damage)?;
    patient.poll()?;
    let damaged = inode_chunks::run(patient, damage);
    lost_chunks::run(patient, damage, &damaged)?;
    patient.poll()?;
    fork::run(patient, damage)?;
    patient.poll()?;
    if patient.count_actions() == before {
        owners::run(patient, damage)?;
    }
    patient.poll()?;
    if patient.count_actions() == before {
        names::run(patient, damage)?;
    }
    patient.poll()?;
    if patient.count_actions() == before {
        symlink::run(patient, damage)?;
    }
    patient.poll()?;
    space::run(patient, damage)?;
    counters::run(patient, damage)?;
    let is_changed = patient.count_actions() != before;
    quota::run(patient, damage, is_changed)?;
    Ok(patient.count_actions() != before)
}

/// Finds the superblock of a volume by evidence. If the first sector does not hold it, writes it
/// there. Returns the superblock and the actions.
///
/// # Errors
///
/// [`RepairError::NoSuperblock`] if there is none. [`RepairError::OnlyGroupHeaders`] and
/// [`RepairError::DoubtfulSuperblock`] if a repair with the superblock that was found could destroy
/// the volume. The error of the device.
pub(crate) fn find_superblock(
    device: &SharedDevice,
) -> Result<(Superblock, Vec<Action>), RepairError> {
    let found = xfs_evidence::find_superblock(&**device)
        .map_err(|error| match error {
            SuperblockError::Unsupported(reason) => {
                RepairError::Unsupported(Unsupported::Volume(reason))
            }
            SuperblockError::Corrupt(_) => RepairError::NoSuperblock,
        })?
        .ok_or(RepairError::NoSuperblock)?;
    if let Some(doubt) = found.doubt {
        return Err(RepairError::DoubtfulSuperblock(doubt));
    }
    let mut actions = Vec::new();
    match found.source {
        SuperblockSource::Primary => {}
        SuperblockSource::PrimaryWithoutRoot => {
            let written = device.write_at(&found.sector, 0, Durability::Cached);
            written.map_err(|error| RepairError::Io { offset: 0, error })?;
            let root = found.superblock.root_inode;
            let keeps = format!("all fields but the root inode, which is {root}");
            let place = Place::of_group(AgNumber(0));
            actions.push(Action::new("superblock.root", place, vec![Code::SbRoot], keeps));
        }
        SuperblockSource::GroupHeaders => return Err(RepairError::OnlyGroupHeaders),
        SuperblockSource::Copies { agreeing, found: copies } => {
            let mut sector = vec![0; found.sector.len()];
            // A sector that cannot be read is not known to hold the superblock.
            let is_read = read_device(&**device, 0, &mut sector).is_ok();
            if !is_read || sector != found.sector {
                let written = device.write_at(&found.sector, 0, Durability::Cached);
                written.map_err(|error| RepairError::Io { offset: 0, error })?;
                let keeps = format!("the sizes that {agreeing} of {copies} copies state");
                let place = Place::of_group(AgNumber(0));
                actions.push(Action::new("superblock.find", place, Vec::new(), keeps));
            }
        }
    }
    Ok((found.superblock, actions))
}
