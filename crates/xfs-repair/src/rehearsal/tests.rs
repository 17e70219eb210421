use std::sync::Arc;

use xfs_device::{BlockDevice, Durability};
use xfs_format::superblock;
use xfs_testkit::{CowDevice, FailingDevice, Fault, Persistence, RequestKind, golden};

use super::{PlanOptions, rehearse};
use crate::apply::set_needs_repair;
use crate::plan::LogOutcome;
use crate::testing::{CleanLog, bytes, damaged, rehearse_copy};

#[test]
fn plan_of_a_clean_volume_is_empty() {
    let device = Arc::new(CowDevice::new(Arc::new(golden())));
    let rehearsal = rehearse(device.clone(), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.is_empty() && plan.leaves_clean() && plan.actions.is_empty());
    assert_eq!((plan.log, plan.rounds, plan.findings), (LogOutcome::Clean, 0, 0));
    assert!(device.changed_chunks().is_empty(), "planning wrote to the volume");
}

#[test]
fn plan_writes_nothing_to_the_volume() {
    let device = damaged();
    let before = bytes(&*device);
    let rehearsal = rehearse_copy(device.clone());
    assert!(!rehearsal.plan().is_empty() && rehearsal.plan().leaves_clean());
    assert!(bytes(&*device) == before);
}

#[test]
fn mark_needs_repair_goes_when_nothing_else_is_wrong() {
    let device = CowDevice::new(Arc::new(golden()));
    let mut sector = [0; 512];
    device.read_at(0, &mut sector).unwrap();
    set_needs_repair(&mut sector, true).unwrap();
    superblock::seal(&mut sector);
    device.write_at(0, &sector, Durability::Cached).unwrap();
    let rehearsal = rehearse(Arc::new(device), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.leaves_clean(), "{:?}", plan.left);
    assert_eq!(plan.actions.len(), 1);
    assert_eq!(plan.runs.len(), 1);
}

#[test]
fn unreadable_sector_is_listed_and_nothing_is_changed() {
    let failing = FailingDevice::new(damaged(), 3);
    let fault = Fault { kind: RequestKind::Read, nth: 9, persistence: Persistence::Once };
    failing.set_fault(Some(fault));
    match rehearse(Arc::new(failing), PlanOptions::new(&CleanLog), &()) {
        Ok(rehearsal) => {
            let plan = rehearsal.plan();
            assert!(plan.is_empty() && !plan.leaves_clean() && plan.unreadable.len() == 1);
        }
        Err(error) => panic!("{error}"),
    }
}
