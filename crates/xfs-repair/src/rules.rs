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
mod metadata;
mod names;
mod orphans;
mod owners;
mod pieces;
mod quota;
mod realtime;
mod resolve;
mod space;
mod superblock;
mod symlink;

use std::collections::BTreeMap;

use xfs_check::{Code, Place, Report, Unsupported};
use xfs_device::{Durability, SharedDevice};
use xfs_evidence::{SuperblockEvidence, SuperblockSource};
use xfs_format::rmap::{Rmap, RmapFlags, RmapOwner};
use xfs_format::superblock::SuperblockError;
use xfs_format::{
    AgBlock, AgNumber, BlockKind, DiskAddr, FsBlock, InodeNumber, StructureAddress, Superblock,
};

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

/// Returns the btree blocks to which forks of sound inodes point, each with its inode.
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
    metadata::run(patient)?;
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
    if patient.count_actions() == before {
        metadata::make_missing(patient)?;
    }
    if patient.count_actions() == before {
        realtime::run(patient, damage)?;
    }
    patient.poll()?;
    space::run(patient, damage)?;
    counters::run(patient, damage)?;
    let is_changed = patient.count_actions() != before;
    quota::run(patient, damage, is_changed)?;
    Ok(patient.count_actions() != before)
}

/// Finds the superblock of a volume, also if only a copy of it or the headers of groups are left.
/// If the first sector does not hold it, writes it there. Returns the superblock and the actions.
/// An action has losses if no superblock was left.
///
/// # Errors
///
/// [`RepairError::NoSuperblock`] if there is none. [`RepairError::DoubtfulSuperblock`] if a repair
/// with the superblock that was found could destroy the volume. The error of the device.
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
    let found = xfs_evidence::complete_by_log(device, found);
    if let Some(doubt) = found.doubt {
        return Err(RepairError::DoubtfulSuperblock(doubt));
    }
    let mut sector = vec![0; found.sector.len()];
    // A sector that cannot be read is not known to hold the superblock.
    let is_there = read_device(&**device, 0, &mut sector).is_ok() && sector == found.sector;
    let action = action_of(&found);
    let Some(action) = action.filter(|_| !is_there) else {
        return Ok((found.superblock, Vec::new()));
    };
    let written = device.write_at(&found.sector, 0, Durability::Cached);
    written.map_err(|error| RepairError::Io { offset: 0, error })?;
    Ok((found.superblock, vec![action]))
}

/// Returns the action of writing a superblock to the first sector. `None` if the superblock comes
/// from there.
fn action_of(found: &SuperblockEvidence) -> Option<Action> {
    let place = Place::of_group(AgNumber(0));
    match found.source {
        SuperblockSource::Primary => None,
        SuperblockSource::PrimaryWithoutRoot => {
            let root = found.superblock.root_inode;
            let keeps = format!("all fields but the root inode, which is {root}");
            Some(Action::new("superblock.root", place, vec![Code::SbRoot], keeps))
        }
        SuperblockSource::Copies { agreeing, found: copies } => {
            let keeps = format!("the sizes that {agreeing} of {copies} copies state");
            Some(Action::new("superblock.find", place, Vec::new(), keeps))
        }
        SuperblockSource::Log => {
            let keeps = "the newest superblock in the log, with the sizes of the headers of groups";
            let action = Action::new("superblock.log", place, Vec::new(), keeps);
            Some(action.losing(None, "changes of the superblock that are not in the log"))
        }
        SuperblockSource::GroupHeaders => {
            let keeps = "the sizes by the headers of groups, the log by the reverse map or its \
                         records, the root directory and the features by inodes";
            let action = Action::new(FROM_HEADERS, place, Vec::new(), keeps);
            let action = LOST_FIELDS.iter().fold(action, |action, lost| action.losing(None, *lost));
            Some(action)
        }
    }
}

/// The name of the rule that writes a superblock from the headers of groups.
const FROM_HEADERS: &str = "superblock.headers";

/// Returns whether the action writes a superblock from the headers of groups.
pub(crate) fn is_from_headers(action: &Action) -> bool {
    action.rule == FROM_HEADERS
}

/// Adds to a superblock from headers the features that only inodes from the log use. The log was
/// replayed onto `device`. Writes the superblock to the first sector.
///
/// # Errors
///
/// The error of the device.
pub(crate) fn add_features(
    device: &SharedDevice,
    superblock: &mut Superblock,
) -> Result<(), RepairError> {
    let Some(found) = xfs_evidence::find_by_headers(&**device) else { return Ok(()) };
    let mut sector = vec![0; found.sector.len()];
    read_device(&**device, 0, &mut sector)?;
    let place = StructureAddress::Disk(DiskAddr(0));
    let mut replayed = Superblock::decode(&sector, place).unwrap_or_else(|_| superblock.clone());
    replayed.incompat |= found.superblock.incompat;
    replayed.geometry.incompat |= found.superblock.geometry.incompat;
    replayed.version_flags |= found.superblock.version_flags;
    replayed.geometry.directory_block_log = found.superblock.geometry.directory_block_log;
    replayed.encode(&mut sector);
    BlockKind::Superblock.seal(&mut sector, replayed.lsn);
    let written = device.write_at(&sector, 0, Durability::Cached);
    written.map_err(|error| RepairError::Io { offset: 0, error })?;
    *superblock = replayed;
    Ok(())
}

/// The fields of a superblock that no other structure repeats.
const LOST_FIELDS: [&str; 4] = [
    "the label of the volume",
    "the stripe unit and width of the device and of the log",
    "the limit on the space for inodes",
    "features that nothing shows to be in use, such as EXCHRANGE",
];
