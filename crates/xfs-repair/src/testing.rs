//! Repair rules that tests of the planner use. A rule copies sectors from a sound image onto the
//! damaged image.

use std::sync::Arc;

use xfs_check::{CheckOptions, Place, Progress};
use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{CowDevice, golden};

use crate::action::Action;
use crate::error::Result;
use crate::options::RehearsalOptions;
use crate::overlay::SECTOR_BYTES;
use crate::plan::LogOutcome;
use crate::planning::{Decide, LogReplay, PlanOptions, Rehearsal, plan_with};
use crate::rounds::Rehearsed;
use crate::rules;

/// The sectors that [`damaged`] zeroes: headers of groups, a btree block, and several in a row.
const ZEROED: [u64; 6] = [1, 2, 8, 9, 10, 64];

/// A replay of the log for tests whose log is clean. It panics if it is called.
pub(crate) struct CleanLog;

impl LogReplay for CleanLog {
    fn replay(&self, _device: SharedDevice) -> std::result::Result<LogOutcome, String> {
        panic!("the log of the golden image is clean");
    }
}

/// Repair rules for tests. They copy from the golden image each sector that differs.
pub(crate) struct CopyGolden;

impl Decide for CopyGolden {
    fn superblock(&self, device: &SharedDevice) -> Result<(Superblock, Vec<Action>)> {
        rules::find_superblock(device)
    }

    fn rounds(
        &self,
        device: &SharedDevice,
        superblock: &Superblock,
        options: &RehearsalOptions,
        progress: &dyn Progress,
    ) -> Result<Rehearsed> {
        let sound = golden();
        let mut actions = Vec::new();
        for sector in 0..sound.length_bytes() / SECTOR_BYTES {
            let at = (sector * SECTOR_BYTES) as u64;
            let (mut here, mut there) = ([0; SECTOR_BYTES], [0; SECTOR_BYTES]);
            device.read_at(&mut here, at).unwrap();
            sound.read_at(&mut there, at).unwrap();
            if here != there {
                device.write_at(&there, at, Durability::Cached).unwrap();
                let mut place = Place::default();
                place.disk_addr = Some(DiskAddr(sector as u64));
                actions.push(Action::new("test.copy", place, Vec::new(), "all"));
            }
        }
        let check = CheckOptions::default().key(1, 2).log_head(options.log_head.unwrap());
        let mut sector = vec![0; superblock.geometry.sector_size as usize];
        device.read_at(&mut sector, 0).unwrap();
        let superblock = superblock_of(&sector);
        let report = xfs_check::check(&**device, &superblock, &check, progress)?;
        Ok(Rehearsed { superblock, actions, report, findings: 1, rounds: 1, best: 1 })
    }
}

/// Returns the golden image with a wrong free-block counter and some zeroed sectors.
pub(crate) fn damaged() -> Arc<CowDevice> {
    let device = CowDevice::new(Arc::new(golden()));
    let mut sector = [0; SECTOR_BYTES];
    device.read_at(&mut sector, 0).unwrap();
    let mut superblock = superblock_of(&sector);
    superblock.free_blocks += 1;
    superblock.encode(&mut sector);
    xfs_format::superblock::seal(&mut sector);
    device.write_at(&sector, 0, Durability::Cached).unwrap();
    for sector in ZEROED {
        device.write_at(&[0; SECTOR_BYTES], sector * 512, Durability::Cached).unwrap();
    }
    Arc::new(device)
}

pub(crate) fn superblock_of(sector: &[u8]) -> Superblock {
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

/// Plans the repair of a device with the rules that copy from the golden image.
pub(crate) fn rehearse_copy(device: SharedDevice) -> Rehearsal {
    plan_with(device, PlanOptions::new(&CleanLog), &(), &CopyGolden).unwrap()
}

/// Returns all bytes of a device.
pub(crate) fn bytes(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.length_bytes() as usize];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}
