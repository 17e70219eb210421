use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_check::Place;
use xfs_device::SharedDevice;
use xfs_format::{AgNumber, DiskAddr};
use xfs_testkit::{CowDevice, golden};

use super::super::Patient;
use crate::action::Action;
use crate::error::RepairError;
use crate::options::RehearsalOptions;
use crate::testing::{bytes, superblock_of};

const GROUP: AgNumber = AgNumber(0);

/// Returns a patient and its device. Only the blocks 10 to 14 of the first group are free.
fn patient() -> (Patient<'static>, SharedDevice) {
    let device: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden())));
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let options = RehearsalOptions::default();
    let mut patient = Patient::new(device.clone(), superblock_of(&sector), &options, &());
    patient.free = Some(BTreeMap::from([(GROUP, vec![(10, 15)])]));
    patient.blind.insert(GROUP);
    (patient, device)
}

/// Makes the changes of an attempt: writes some bytes, adds an action, takes 2 blocks, and then
/// takes `count` further blocks.
fn change(patient: &mut Patient, count: u32) -> Result<(), RepairError> {
    patient.write(DiskAddr(1), &[7; 512])?;
    patient.write(DiskAddr(1), &[8; 1024])?;
    patient.act(Action::new("test", Place::default(), Vec::new(), "all"));
    patient.take_blocks(GROUP, 2)?;
    patient.take_blocks(GROUP, count)?;
    Ok(())
}

#[test]
fn attempt_without_room_leaves_nothing() {
    let (mut patient, device) = patient();
    let before = bytes(&*device);
    assert!(!patient.attempt(|patient| change(patient, 4)).unwrap());
    assert!(bytes(&*device) == before, "bytes differ");
    assert_eq!(patient.count_actions(), 0);
    assert!(patient.marked.is_empty() && patient.taken_blindly.is_empty());
    assert_eq!(patient.free, Some(BTreeMap::from([(GROUP, vec![(10, 15)])])));
}

#[test]
fn attempt_with_room_keeps_its_changes() {
    let (mut patient, device) = patient();
    let before = bytes(&*device);
    assert!(patient.attempt(|patient| change(patient, 3)).unwrap());
    assert!(bytes(&*device) != before);
    assert_eq!((patient.count_actions(), patient.marked.len()), (1, 1));
    assert!(patient.taken_blindly.contains(&GROUP));
}
