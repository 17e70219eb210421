use std::sync::Arc;

use xfs_device::{BlockDevice, Durability};
use xfs_evidence::Evidence;
use xfs_format::log_item::{ItemKind, LoggedFields};
use xfs_format::{BlockKind, DiskAddr, Lsn};
use xfs_testkit::{CowDevice, LogRecords, golden};

use super::dropped;
use crate::error::RepairError;
use crate::plan::LogOutcome;
use crate::planning::{PlanOptions, plan_repair};
use crate::testing::{CleanLog, superblock_of};

/// Returns the golden image with every byte of its log overwritten by `fill`.
fn with_log_of(fill: u8) -> Arc<CowDevice> {
    let device = CowDevice::new(Arc::new(golden()));
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let superblock = superblock_of(&sector);
    let geometry = &superblock.geometry;
    let start = geometry.block_disk_addr(superblock.log_start).unwrap().0 * 512;
    let length = (superblock.log_blocks << geometry.block_log) as usize;
    device.write_at(&vec![fill; length], start, Durability::Cached).unwrap();
    Arc::new(device)
}

#[test]
fn zeroed_log_is_made_empty_in_a_later_cycle() {
    let rehearsal = plan_repair(with_log_of(0), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert_eq!(plan.log, LogOutcome::Formatted);
    assert!(plan.leaves_clean() && !plan.is_lossy(), "{:?}", plan.left);
}

#[test]
fn impossible_lsn_of_a_header_leaves_the_log_as_it_is() {
    let device = CowDevice::new(Arc::new(golden()));
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let at = u64::from(superblock_of(&sector).geometry.sector_size) * 2;
    device.read_at(&mut sector, at).unwrap();
    BlockKind::Agi.seal(&mut sector, Lsn::new(0x8000_0003, 17));
    device.write_at(&sector, at, Durability::Cached).unwrap();
    let rehearsal = plan_repair(Arc::new(device), PlanOptions::new(&CleanLog), &()).unwrap();
    let plan = rehearsal.plan();
    assert_eq!(plan.log, LogOutcome::Clean);
    assert!(plan.leaves_clean() && !plan.is_lossy(), "{:?}", plan.left);
}

#[test]
fn damaged_log_needs_allow_loss() {
    let device = with_log_of(0x5a);
    let error = plan_repair(device.clone(), PlanOptions::new(&CleanLog), &()).err().unwrap();
    assert!(matches!(error, RepairError::Log(_)), "{error}");
    let mut options = PlanOptions::new(&CleanLog);
    options.allow_loss = true;
    let rehearsal = plan_repair(device, options, &()).unwrap();
    assert_eq!(rehearsal.plan().log, LogOutcome::Formatted);
    assert!(rehearsal.plan().leaves_clean() && rehearsal.plan().is_lossy());
}

#[test]
fn open_work_on_contents_needs_allow_loss() {
    for kind in [ItemKind::Map, ItemKind::Attr, ItemKind::Exchange] {
        let kinds = [ItemKind::ExtentFree, kind];
        let error = dropped(&kinds, "a reason", false).unwrap_err().to_string();
        assert!(error.contains(kind.name()) && error.contains("a reason"), "{error}");
        let action = dropped(&kinds, "a reason", true).unwrap().unwrap();
        assert!(!action.loses.is_empty() && action.keeps.contains(kind.name()), "{action:?}");
    }
}

#[test]
fn open_work_on_space_is_dropped_by_name() {
    let kinds = [ItemKind::ExtentFree, ItemKind::Rmap, ItemKind::Refcount];
    let action = dropped(&kinds, "a reason", false).unwrap().unwrap();
    assert!(action.loses.is_empty() && action.keeps.contains("CUI, EFI, RUI"), "{action:?}");
    assert_eq!(dropped(&[], "a reason", false).unwrap(), None);
}

/// Returns the golden image with a dirty log. Its first record gives the root inode the mode 0750,
/// its second one cannot be read, and the mode in all later ones is 0711.
fn with_log_damaged_in_the_middle() -> Arc<CowDevice> {
    let mut image = golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let root = superblock_of(&sector).root_inode;
    let location = image.geometry().inode_location(root).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    let mut inode = image.bytes(at, 512).unwrap();
    let mut log = LogRecords::of(&mut image);
    inode[2..4].copy_from_slice(&0o040_750_u16.to_be_bytes());
    log.inode(root, &inode, LoggedFields::CORE);
    inode[2..4].copy_from_slice(&0o040_711_u16.to_be_bytes());
    let damaged = log.inode(root, &inode, LoggedFields::CORE).block();
    for _ in 0..12 {
        log.inode(root, &inode, LoggedFields::CORE);
    }
    let damaged = log.address(damaged + 1);
    image.edit_with(damaged, 512, |block| block[64..128].fill(0x5a));
    Arc::new(CowDevice::new(Arc::new(image)))
}

#[test]
fn damaged_log_is_replayed_up_to_the_damage() {
    let device = with_log_damaged_in_the_middle();
    let error = plan_repair(device.clone(), PlanOptions::new(&CleanLog), &()).err().unwrap();
    assert!(matches!(error, RepairError::Log(_)), "{error}");
    let mut options = PlanOptions::new(&CleanLog);
    options.allow_loss = true;
    let rehearsal = plan_repair(device.clone(), options, &()).unwrap();
    let plan = rehearsal.plan();
    assert_eq!(plan.log, LogOutcome::Formatted);
    assert!(plan.leaves_clean(), "{:?}", plan.left);
    let action = plan.actions.iter().find(|action| action.rule == "log.before-damage").unwrap();
    assert!(action.loses.iter().any(|loss| loss.what.contains("changes")), "{action:?}");
    let undo = rehearsal.write_undo(tempfile::tempfile().unwrap()).unwrap();
    crate::resume(&undo, &*device, &()).unwrap();
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let superblock = superblock_of(&sector);
    let root = Evidence::new(&*device, &superblock).inode(superblock.root_inode);
    assert_eq!(root.core().unwrap().mode, 0o040_750);
}
