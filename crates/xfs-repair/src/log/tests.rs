use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfs_device::{BlockDevice, Durability, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::log_item::{ExtentFree, IntentExtents, ItemKind, LoggedFields, LoggedItem};
use xfs_format::{BlockKind, DiskAddr, IncompatFeatures, Lsn};
use xfs_log::LogDevice;
use xfs_testkit::{
    CowDevice, FailingDevice, Fault, LogRecords, Persistence, RequestKind, delegate_device, golden,
};

use super::{BEFORE_DAMAGE_RULE, SettleLog, dropped};
use crate::apply::set_needs_repair;
use crate::error::RepairError;
use crate::plan::LogOutcome;
use crate::planning::{LogReplay, PlanOptions, plan_repair};
use crate::testing::{CleanLog, superblock_of};

/// Returns the golden image with every byte of its log overwritten with the value `fill`.
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
    // The last cycle is one with which an empty log would begin in a cycle of more than 31 bits.
    for cycle in [0x8000_0003, 0x7fff_ffff, 0x7fff_fffe] {
        let device = CowDevice::new(Arc::new(golden()));
        let mut sector = [0; 512];
        device.read_at(&mut sector, 0).unwrap();
        let at = u64::from(superblock_of(&sector).geometry.sector_size) * 2;
        device.read_at(&mut sector, at).unwrap();
        BlockKind::Agi.seal(&mut sector, Lsn::new(cycle, 17));
        device.write_at(&sector, at, Durability::Cached).unwrap();
        let rehearsal = plan_repair(Arc::new(device), PlanOptions::new(&CleanLog), &()).unwrap();
        let plan = rehearsal.plan();
        assert_eq!(plan.log, LogOutcome::Clean, "cycle {cycle:#x}");
        assert!(plan.leaves_clean() && !plan.is_lossy(), "{:?}", plan.left);
    }
}

/// Checks that a damaged log is made empty only if losses are allowed, and that the plan then lists
/// a loss (R4 of the crate).
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

/// Checks that unfinished operations on maps, attributes and contents are dropped from the log only
/// if losses are allowed, and that the plan then lists a loss (R4 of the crate).
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
/// its second one cannot be read, and the mode in all later ones is 0711. If `cycle` is given, it
/// replaces the cycle number of the log.
fn with_log_damaged_in_the_middle(cycle: Option<u32>) -> Arc<CowDevice> {
    let mut image = golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let root = superblock_of(&sector).root_inode;
    let location = image.geometry().inode_location(root).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    let mut inode = image.bytes(at, 512).unwrap();
    let mut log = LogRecords::of(&mut image);
    if let Some(cycle) = cycle {
        log.set_cycle(cycle);
    }
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
    let device = with_log_damaged_in_the_middle(None);
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

/// Plans the repair of a damaged log whose records have the cycle 2^31. Checks that the new log
/// does not take its cycle from these records: the kernel compares cycles as signed numbers.
#[test]
fn record_with_an_impossible_cycle_is_not_replayed() {
    let device = with_log_damaged_in_the_middle(Some(1 << 31));
    let mut options = PlanOptions::new(&CleanLog);
    options.allow_loss = true;
    let rehearsal = plan_repair(device, options, &()).unwrap();
    let plan = rehearsal.plan();
    assert_eq!((plan.log, plan.leaves_clean()), (LogOutcome::Formatted, true), "{:?}", plan.left);
    let rules: Vec<_> = plan.actions.iter().map(|action| action.rule).collect();
    assert_eq!(rules, ["log.format"]);
}

/// Settles a damaged log, with loss allowed, while the n-th request of a kind fails, for each n.
/// Checks that a failed request either is reported as an error or does not change the result, and
/// never makes the log empty.
fn check_failing_device(kind: RequestKind, persistence: Persistence) {
    let sound = with_log_damaged_in_the_middle(None);
    let mut sector = [0; 512];
    sound.read_at(&mut sector, 0).unwrap();
    let superblock = superblock_of(&sector);
    let mut errors = 0;
    for nth in 1.. {
        let failing = Arc::new(FailingDevice::new(Arc::new(sound.fork()), nth));
        failing.set_fault(Some(Fault { kind, nth, persistence }));
        let device: SharedDevice = failing.clone();
        let (superblock, replay) = (&superblock, &CleanLog);
        let settled = SettleLog { device: &device, superblock, replay, allow_loss: true }.run();
        match settled {
            Err(RepairError::Io { .. }) => errors += 1,
            Err(error) => panic!("request {nth}: {error}"),
            Ok((outcome, action)) => {
                let rule = action.map(|action| action.rule);
                assert_eq!(outcome, LogOutcome::Formatted, "request {nth}");
                assert_eq!(rule, Some(BEFORE_DAMAGE_RULE), "request {nth}");
            }
        }
        if failing.failures() == 0 {
            break;
        }
    }
    assert!(errors > 5, "only {errors} failures of {kind:?} were noticed");
}

#[test]
fn failed_read_of_a_damaged_log_is_an_error() {
    check_failing_device(RequestKind::Read, Persistence::Once);
    check_failing_device(RequestKind::Read, Persistence::Forever);
}

#[test]
fn failed_write_of_a_replay_before_damage_is_an_error() {
    check_failing_device(RequestKind::Write, Persistence::Once);
}

/// Returns the golden image with a dirty log, all of whose records can be read. The log has an open
/// intent to free blocks.
fn with_open_intent() -> Arc<CowDevice> {
    let mut image = golden();
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let superblock = superblock_of(&sector);
    let (root, start) = (superblock.root_inode, superblock.log_start);
    let location = image.geometry().inode_location(root).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    let inode = image.bytes(at, 512).unwrap();
    let extents = vec![ExtentFree { start, length_blocks: 1 }];
    let mut log = LogRecords::of(&mut image);
    log.transaction(&[LoggedItem::ExtentFree(IntentExtents { id: 1, extents })]);
    for _ in 0..12 {
        log.inode(root, &inode, LoggedFields::CORE);
    }
    Arc::new(CowDevice::new(Arc::new(image)))
}

/// A full recovery for tests. Replays the log, reads the header of a group as finishing an intent
/// would, and drops the intents.
struct FullRecovery;

impl LogReplay for FullRecovery {
    fn replay(&self, device: SharedDevice) -> Result<LogOutcome, String> {
        let recovered = || {
            let mut sector = [0; 512];
            device.read_at(&mut sector, 0).map_err(|error| error.to_string())?;
            let superblock = superblock_of(&sector);
            let log = LogDevice::new(device.clone(), &superblock).map_err(|e| e.to_string())?;
            let replayed = xfs_log::replay_all(device.clone(), &log, &superblock);
            let replayed = replayed.map_err(|error| error.to_string())?;
            device.read_at(&mut sector, 512).map_err(|error| error.to_string())?;
            replayed.write_back_without_work(&log).map_err(|error| error.to_string())
        };
        recovered().map(|()| LogOutcome::Replayed)
    }
}

/// Plans the repair of a volume with a whole dirty log whose superblock is marked NEEDSREPAIR, as
/// after an interrupted repair. Checks that the log is replayed.
#[test]
fn dirty_log_of_a_marked_volume_is_replayed() {
    let mut image = golden();
    let mut sector = image.bytes(DiskAddr(0), 512).unwrap();
    let root = superblock_of(&sector).root_inode;
    let location = image.geometry().inode_location(root).unwrap();
    let at = DiskAddr(location.cluster.0 + u64::from(location.offset_bytes) / 512);
    let mut inode = image.bytes(at, 512).unwrap();
    inode[2..4].copy_from_slice(&0o040_750_u16.to_be_bytes());
    let mut log = LogRecords::of(&mut image);
    for _ in 0..13 {
        log.inode(root, &inode, LoggedFields::CORE);
    }
    set_needs_repair(&mut sector, true).unwrap();
    image.replace(DiskAddr(0), &sector);
    let device = Arc::new(CowDevice::new(Arc::new(image)));
    let rehearsal = plan_repair(device.clone(), PlanOptions::new(&FullRecovery), &()).unwrap();
    let plan = rehearsal.plan();
    assert_eq!(plan.log, LogOutcome::Replayed);
    assert!(plan.leaves_clean() && !plan.is_lossy(), "{:?}", plan.left);
    assert!(
        plan.actions.iter().all(|action| !action.rule.starts_with("log")),
        "{:?}",
        plan.actions
    );
    let undo = rehearsal.write_undo(tempfile::tempfile().unwrap()).unwrap();
    crate::resume(&undo, &*device, &()).unwrap();
    device.read_at(&mut sector, 0).unwrap();
    let superblock = superblock_of(&sector);
    assert!(!superblock.has_incompat(IncompatFeatures::NEEDSREPAIR));
    let root = Evidence::new(&*device, &superblock).inode(root);
    assert_eq!(root.core().unwrap().mode, 0o040_750);
}

/// Settles a sound dirty log with an open intent while the n-th read fails once, for each n. Checks
/// that a failed read is reported as an error or has no effect, and that the intent is never
/// dropped.
#[test]
fn failed_read_of_the_full_recovery_keeps_open_intents() {
    let sound = with_open_intent();
    let mut sector = [0; 512];
    sound.read_at(&mut sector, 0).unwrap();
    let superblock = superblock_of(&sector);
    let mut errors = 0;
    for nth in 1.. {
        let failing = Arc::new(FailingDevice::new(Arc::new(sound.fork()), nth));
        let fault = Fault { kind: RequestKind::Read, nth, persistence: Persistence::Once };
        failing.set_fault(Some(fault));
        let device: SharedDevice = failing.clone();
        let (superblock, replay) = (&superblock, &FullRecovery);
        let settled = SettleLog { device: &device, superblock, replay, allow_loss: true }.run();
        match settled {
            Err(RepairError::Io { .. }) => errors += 1,
            Err(error) => panic!("read {nth}: {error}"),
            Ok(done) => assert_eq!(done, (LogOutcome::Replayed, None), "read {nth}"),
        }
        if failing.failures() == 0 {
            break;
        }
    }
    assert!(errors > 5, "only {errors} failures were noticed");
}

/// A device whose first write fails for lack of space, as that of an overlay with a limit.
struct FullOnce {
    inner: SharedDevice,
    is_full: AtomicBool,
}

impl BlockDevice for FullOnce {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, read_at, flush, discard);

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        if self.is_full.swap(false, Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.write_at(bytes, offset, durability)
    }
}

/// Settles a sound dirty log and a damaged one, each with loss allowed, while the overlay has too
/// little memory. Checks that the lack is named and that the log is not made empty.
#[test]
fn lack_of_memory_never_makes_the_log_empty() {
    for sound in [with_open_intent(), with_log_damaged_in_the_middle(None)] {
        let mut sector = [0; 512];
        sound.read_at(&mut sector, 0).unwrap();
        let superblock = superblock_of(&sector);
        let device: SharedDevice = Arc::new(FullOnce { inner: sound, is_full: true.into() });
        let (superblock, replay) = (&superblock, &FullRecovery);
        let settled = SettleLog { device: &device, superblock, replay, allow_loss: true }.run();
        let error = settled.unwrap_err();
        assert!(matches!(error, RepairError::Refused(_)), "{error}");
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
