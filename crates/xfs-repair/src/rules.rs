//! The rules of a repair, in the order in which they run.
//!
//! Owns: the order. Does **not** own: the rules, each of which has a file of its own.

use xfs_device::SharedDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};

use crate::action::Action;
use crate::error::{RepairError, Result};
use crate::rehearsal::{Round, Rules};
use crate::undo::read_device;

/// The most bytes of a sector.
const MOST_SECTOR_BYTES: u64 = 32 << 10;

/// All rules of the crate.
pub(crate) struct AllRules;

impl Rules for AllRules {
    fn superblock(&self, device: &SharedDevice) -> Result<(Superblock, Vec<Action>)> {
        let length = usize::try_from(device.length_bytes().min(MOST_SECTOR_BYTES));
        let mut sector = vec![0; length.expect("a sector fits the address space")];
        read_device(&**device, 0, &mut sector)?;
        let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
        superblock.map(|superblock| (superblock, Vec::new())).map_err(|_| RepairError::NoSuperblock)
    }

    fn run(&self, _round: &Round<'_>) -> Result<Vec<Action>> {
        Ok(Vec::new())
    }
}
