use std::io;
use std::sync::Arc;

use xfs_check::{Place, Progress};
use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_format::{DiskAddr, IncompatFeatures, Superblock, superblock};
use xfs_testkit::{CowDevice, Image, delegate_device, golden};

use super::{Decide, PlanOptions, plan_repair, plan_with};
use crate::action::Action;
use crate::apply::set_needs_repair;
use crate::error::{RepairError, Result};
use crate::options::RehearsalOptions;
use crate::plan::LogOutcome;
use crate::rounds::{self, Rehearsed};
use crate::rules;
use crate::testing::{CleanLog, bytes, damaged, rehearse_copy, superblock_of};

#[test]
fn plan_of_a_clean_volume_is_empty() {
    let device = Arc::new(CowDevice::new(Arc::new(golden())));
    let rehearsal = plan_repair(device.clone(), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.is_empty() && plan.leaves_clean() && plan.actions.is_empty());
    assert_eq!((plan.log, plan.rounds, plan.findings), (LogOutcome::Clean, 0, 0));
    assert!(device.changed_chunks().is_empty(), "planning wrote to the volume");
}

/// Returns the golden image with zeros in its first sector and in `count` sectors of each group,
/// from sector number `first` of the group on.
fn without_headers(first: u32, count: usize) -> Image {
    let mut image = golden();
    let geometry = image.geometry();
    image.replace(DiskAddr(0), &[0; 512]);
    for group in geometry.groups() {
        image.replace(geometry.header_disk_addr(group, first), &vec![0; count * 512]);
    }
    image
}

#[test]
fn volume_without_any_superblock_is_refused_by_name_unless_losses_are_allowed() {
    let device = Arc::new(without_headers(0, 1));
    let error = plan_repair(device, PlanOptions::new(&CleanLog), &()).map(|_| ()).unwrap_err();
    assert!(matches!(error, RepairError::OnlyGroupHeaders), "{error}");
}

/// Checks that the superblock from headers differs from the lost one only in the fields that the
/// plan names. The log of the golden image has no superblock.
#[test]
fn volume_without_any_superblock_gets_one_from_headers() {
    let device = Arc::new(CowDevice::new(Arc::new(without_headers(0, 1))));
    let mut options = PlanOptions::new(&CleanLog);
    options.allow_loss = true;
    let rehearsal = plan_repair(device, options, &()).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.leaves_clean(), "{:?}", plan.left);
    let first = plan.actions.first().expect("the superblock is written first");
    assert_eq!((first.rule, first.loses.len()), ("superblock.headers", 4));
    let mut sector = [0; 512];
    rehearsal.overlay.read_at(&mut sector, 0).unwrap();
    let found = superblock_of(&sector);
    let mut right = superblock_of(&golden().bytes(DiskAddr(0), 512).unwrap());
    right.incompat.remove(IncompatFeatures::EXCHRANGE);
    right.geometry.incompat.remove(IncompatFeatures::EXCHRANGE);
    let right = Superblock {
        label: found.label,
        inode_max_percent: found.inode_max_percent,
        realtime_extents: 0,
        lsn: found.lsn,
        ..right
    };
    assert_eq!(found, right);
}

#[test]
fn lone_copy_that_no_group_agrees_with_is_refused() {
    let device = Arc::new(without_headers(1, 2));
    let error = plan_repair(device, PlanOptions::new(&CleanLog), &()).map(|_| ()).unwrap_err();
    assert!(matches!(error, RepairError::DoubtfulSuperblock(_)), "{error}");
}

/// Checks I1 of `patient` (every change goes to the overlay): planning the repair of a damaged
/// volume does not change the volume. Also checks that the planned result is clean (R1 of the
/// crate).
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
    device.read_at(&mut sector, 0).unwrap();
    set_needs_repair(&mut sector, true).unwrap();
    superblock::seal(&mut sector);
    device.write_at(&sector, 0, Durability::Cached).unwrap();
    let rehearsal = plan_repair(Arc::new(device), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.leaves_clean(), "{:?}", plan.left);
    assert_eq!(plan.actions.len(), 1);
    assert_eq!(plan.runs.len(), 1);
}

/// A device with one sector that cannot be read.
struct BadSector {
    inner: SharedDevice,
    bad: u64,
}

impl BlockDevice for BadSector {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, write_at, flush, discard);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset < self.bad + 512 && self.bad < offset + buffer.len() as u64 {
            return Err(io::Error::other("medium error"));
        }
        self.inner.read_at(buffer, offset)
    }
}

/// Checks that the plan for a device with an unreadable sector lists the sector and changes nothing
/// (R6 of the crate).
#[test]
fn unreadable_sector_is_listed_and_nothing_is_changed() {
    let bad = (32768 + 1) * 512;
    let device = Arc::new(BadSector { inner: damaged(), bad });
    let plan = plan_repair(device, PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = plan.plan();
    assert!(plan.is_empty() && !plan.leaves_clean());
    let ranges = plan.unreadable.iter();
    assert!(ranges.clone().count() > 0);
    assert!(ranges.clone().all(|(range, _)| range.contains(&bad)), "{:?}", plan.unreadable);
    assert!(plan.text().contains("medium error"));
}

/// An implementation of `Decide` for a test: its only round zeroes the AGI of the first group, and
/// then meets the sector that the device cannot read.
struct FailsHalfWay {
    bad: u64,
}

impl Decide for FailsHalfWay {
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
        if options.most_rounds == Some(0) {
            return rounds::run(device, superblock, options, progress);
        }
        device.write_at(&[0; 512], 2 * 512, Durability::Cached).unwrap();
        let read = device.read_at(&mut [0; 512], self.bad);
        read.map_err(|error| RepairError::Io { offset: self.bad, error })?;
        unreachable!("the sector cannot be read")
    }
}

#[test]
fn rule_that_meets_an_unreadable_sector_leaves_no_change_in_the_report() {
    let inner: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden())));
    let bad = inner.length_bytes() - 512;
    let device = Arc::new(BadSector { inner, bad });
    let plan = plan_with(device, PlanOptions::new(&CleanLog), &(), &FailsHalfWay { bad }).unwrap();
    let plan = plan.plan();
    assert!(plan.is_empty() && plan.actions.is_empty());
    assert_eq!(plan.left.len(), 0, "{:?}", plan.left);
    assert!(!plan.unreadable.is_empty());
}

/// An implementation of `Decide` for a test. The damage of the volume is a zeroed AGF, and the
/// single round makes the volume worse: it zeroes the AGI of the first group.
struct MakesWorse;

impl Decide for MakesWorse {
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
        let rounds = options.most_rounds.unwrap_or(1);
        let mut actions = Vec::new();
        if rounds > 0 {
            device.write_at(&[0; 512], 2 * 512, Durability::Cached).unwrap();
            actions.push(Action::new("test.zero", Place::default(), Vec::new(), "nothing"));
        }
        let report = rounds::check_device(device, superblock, options, progress)?;
        let superblock = superblock.clone();
        Ok(Rehearsed { superblock, actions, report, findings: 1, rounds, best: 0 })
    }
}

#[test]
fn round_that_makes_the_volume_worse_is_taken_back() {
    let device = CowDevice::new(Arc::new(golden()));
    device.write_at(&[0; 512], 512, Durability::Cached).unwrap();
    let options = PlanOptions::new(&CleanLog);
    let rehearsal = plan_with(Arc::new(device), options, &(), &MakesWorse).unwrap();
    let plan = rehearsal.plan();
    assert!(plan.is_empty() && plan.actions.is_empty(), "{:?}", plan.runs);
    assert_eq!((plan.rounds, plan.withdrawn), (0, 1));
    assert!(!plan.left.is_empty());
    assert!(plan.text().contains("\"withdrawn\":1"), "{}", plan.text());
}
