//! Checks and repairs of a volume with quota: `testdata/quota.image`, after its log was replayed.

mod lost;

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_check::{CheckOptions, Code, Report, check};
use xfs_device::{Durability, SharedDevice};
use xfs_evidence::{Evidence, find_superblock};
use xfs_format::dquot::{
    DQUOT_BLOCK_BYTES, DquotDisk, QuotaFlags, QuotaKind, dquot_at, dquots_per_block, seal_block,
};
use xfs_format::inode::ForkKind;
use xfs_format::superblock::seal;
use xfs_format::{DiskAddr, FsBlock, InodeNumber, Superblock};
use xfs_log::{LogDevice, replay};
use xfs_repair::{RehearsalOptions, rehearse};
use xfs_testkit::{CowDevice, golden_quota};

fn superblock(device: &SharedDevice) -> Superblock {
    find_superblock(&**device).expect("a known version").expect("a superblock").superblock
}

/// Returns the volume of the quota image with its log replayed, as a device that can be written.
fn recovered() -> SharedDevice {
    let device: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden_quota())));
    let superblock = superblock(&device);
    let log = LogDevice::new(Arc::clone(&device), &superblock).unwrap();
    let replayed = replay(Arc::clone(&device), &log, &superblock).unwrap();
    replayed.write_back(&log).unwrap();
    device
}

fn report(device: &SharedDevice) -> Report {
    check(&**device, &superblock(device), &CheckOptions::default(), &()).unwrap()
}

/// Returns the codes of all findings, also of those that are not damage.
fn codes(device: &SharedDevice) -> Vec<Code> {
    report(device).findings.iter().map(|finding| finding.code).collect()
}

/// Returns the address of the first block of user dquots.
fn first_block(device: &SharedDevice) -> DiskAddr {
    let superblock = superblock(device);
    let evidence = Evidence::new(&**device, &superblock);
    let [users, ..] = superblock.quota_inodes;
    let inode = evidence.inode(users.expect("the volume has user quota"));
    let start = evidence.extents(&inode, ForkKind::Data).extents[0].start;
    superblock.geometry.block_disk_addr(start).unwrap()
}

/// Changes the first block of user dquots, and computes its checksums again.
fn damage(device: &SharedDevice, change: impl FnOnce(&mut [u8])) {
    let mut block = vec![0; superblock(device).geometry.block_size as usize];
    let offset = first_block(device).byte_offset().unwrap();
    device.read_at(&mut block, offset).unwrap();
    change(&mut block);
    seal_block(&mut block);
    device.write_at(&block, offset, Durability::Cached).unwrap();
}

fn repair(device: &SharedDevice) -> Vec<&'static str> {
    let rehearsed = rehearse(device, &superblock(device), &RehearsalOptions::default()).unwrap();
    rehearsed.actions.iter().map(|action| action.rule).collect()
}

/// The limits and grace periods of all owners that have any, by type and ID.
type Limits = BTreeMap<(QuotaKind, u32), Vec<u64>>;

/// Returns the limits of all owners.
fn limits(device: &SharedDevice) -> Limits {
    let superblock = superblock(device);
    let mut limits = Limits::new();
    for (kind, inode) in QuotaKind::ALL.into_iter().zip(superblock.quota_inodes) {
        let Some(inode) = inode else { continue };
        for (block, _) in blocks(device, inode) {
            let mut bytes = vec![0; superblock.geometry.block_size as usize];
            device.read_at(&mut bytes, block.byte_offset().unwrap()).unwrap();
            for index in 0..dquots_per_block(&superblock.geometry) {
                let dquot = dquot_at(&bytes, index).unwrap();
                let own = limits_of(dquot);
                if dquot.quota_kind() == Some(kind) && own.iter().any(|limit| *limit != 0) {
                    limits.insert((kind, dquot.id.get()), own);
                }
            }
        }
    }
    limits
}

fn limits_of(dquot: &DquotDisk) -> Vec<u64> {
    let limits = [
        dquot.block_hard_limit,
        dquot.block_soft_limit,
        dquot.inode_hard_limit,
        dquot.inode_soft_limit,
        dquot.realtime_hard_limit,
        dquot.realtime_soft_limit,
    ];
    let timers = [dquot.inode_timer, dquot.block_timer, dquot.realtime_timer];
    // The timers of ID 0 are the grace periods of its type.
    let periods = timers.iter().map(|timer| if dquot.id.get() == 0 { timer.get() } else { 0 });
    limits.iter().map(|limit| limit.get()).chain(periods.map(u64::from)).collect()
}

/// Returns the blocks of a quota inode: the address of each, and its place in the file.
fn blocks(device: &SharedDevice, inode: InodeNumber) -> Vec<(DiskAddr, u64)> {
    let superblock = superblock(device);
    let evidence = Evidence::new(&**device, &superblock);
    let extents = evidence.extents(&evidence.inode(inode), ForkKind::Data).extents;
    let blocks = extents.into_iter().flat_map(|extent| {
        (0..u64::from(extent.length_blocks))
            .map(move |index| (FsBlock(extent.start.0 + index), extent.file_block.0 + index))
    });
    let addresses =
        blocks.map(|(block, place)| (superblock.geometry.block_disk_addr(block).unwrap(), place));
    addresses.collect()
}

fn flags(device: &SharedDevice) -> QuotaFlags {
    QuotaFlags::from_bits_retain(superblock(device).quota_flags)
}

#[test]
fn sound_volume_with_quota_has_no_findings() {
    let device = recovered();
    let report = report(&device);
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(codes(&device), []);
    assert_eq!(repair(&device), Vec::<&str>::new());
    assert!(flags(&device).contains(QuotaFlags::CHECKED_V5));
}

/// Damages a dquot in four ways, and repairs the volume. The check must report each damage. The
/// repair must bring all limits back. The flags for checked counts must then be clear, so that the
/// next mount counts again.
#[test]
fn damaged_dquot_gets_its_limits_back_and_is_counted_again() {
    let changes: [fn(&mut [u8]); 4] = [
        |block| block[0] = 0,
        |block| block[DQUOT_BLOCK_BYTES + 3] = 4,
        |block| block[7] = 7,
        |block| block[2 * DQUOT_BLOCK_BYTES + 125] ^= 1,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let device = recovered();
        let limits = limits(&device);
        damage(&device, change);
        assert_eq!(codes(&device), [Code::QuotaDquot], "change {number}");
        assert_eq!(repair(&device), ["quota", "quota"], "change {number}");
        assert_eq!(codes(&device), [], "change {number}");
        assert_eq!(self::limits(&device), limits, "change {number}");
        assert!(!flags(&device).is_empty() && !flags(&device).intersects(QuotaFlags::CHECKED));
        assert_eq!(repair(&device), Vec::<&str>::new(), "change {number}");
    }
}

/// Changes the count of blocks of a user, and then the count of inodes. The check must report the
/// user, both counts and the right ones. After the repair, the next mount counts again.
#[test]
fn wrong_count_of_a_dquot_is_reported_and_counted_again_after_a_repair() {
    // Blocks and inodes of the first dquot are big-endian numbers in these places.
    for (place, name) in [(47, "blocks"), (55, "inodes")] {
        let device = recovered();
        damage(&device, |block| block[place] ^= 1);
        let report = report(&device);
        let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
        assert_eq!(finding.code, Code::QuotaCount);
        assert!(finding.found.starts_with("user 0 has "), "{finding:?}");
        let differs: Vec<_> = finding
            .found
            .trim_start_matches("user 0 has ")
            .split(", ")
            .zip(finding.expected.split(", "))
            .filter(|(found, expected)| found != expected)
            .collect();
        assert!(matches!(&differs[..], [(found, _)] if found.ends_with(name)), "{differs:?}");
        assert_eq!(repair(&device), ["quota"], "{name}");
        assert_eq!(codes(&device), [], "{name}");
        assert!(!flags(&device).intersects(QuotaFlags::CHECKED));
    }
}

/// Damages a header that has nothing to do with quota. The repair may change files without counting
/// their blocks, so it must also clear the flags for checked quota counts.
#[test]
fn any_repair_marks_quota_counts_as_unchecked() {
    let device = recovered();
    device.write_at(&[0; 512], 512, Durability::Cached).unwrap();
    let rules = repair(&device);
    assert!(rules.contains(&"quota"), "{rules:?}");
    assert!(report(&device).is_clean());
    assert!(!flags(&device).intersects(QuotaFlags::CHECKED));
}

/// Destroys the first sector, which alone has the numbers of the quota inodes: once its checksum,
/// and once all of it. Checks that the repair finds the quota inodes again, and gives none of them
/// a name in `lost+found`.
#[test]
fn quota_inodes_are_found_again_after_the_superblock_is_lost() {
    let sound = recovered();
    let mut sector = [0; 512];
    sound.read_at(&mut sector, 0).unwrap();
    let expected = superblock(&sound);
    assert!(expected.quota_inodes.iter().flatten().count() > 0);
    let mut garbled = sector;
    garbled[100] ^= 0xff;
    garbled[230] ^= 0xff;
    for first in [garbled, [0; 512]] {
        let device = recovered();
        device.write_at(&first, 0, Durability::Cached).unwrap();
        let rules = repair(&device);
        assert!(!rules.contains(&"lost-and-found"), "{rules:?}");
        assert_eq!(superblock(&device).quota_inodes, expected.quota_inodes, "{rules:?}");
        let flags = flags(&device);
        assert!(flags.contains(QuotaFlags::USER_ACCOUNTED), "{flags:?}");
        assert!(!flags.intersects(QuotaFlags::CHECKED), "{flags:?}");
        let report = report(&device);
        assert!(report.is_clean(), "{rules:?} {:?} {:?}", superblock(&device), report.findings);
    }
}

/// Destroys the root inode, and removes the quota inodes from the superblock, as if a copy of it
/// was restored. Without the root, the check reports no link counts. Checks that the repair still
/// adds the quota inodes to the superblock.
#[test]
fn quota_inodes_are_found_again_after_the_root_is_lost_too() {
    let expected = superblock(&recovered());
    let device = recovered();
    let place = expected.geometry.inode_location(expected.root_inode).unwrap();
    let root = place.cluster.0 * 512 + u64::from(place.offset_bytes);
    let zeros = vec![0; expected.geometry.inode_size as usize];
    device.write_at(&zeros, root, Durability::Cached).unwrap();
    let mut copy = expected.clone();
    (copy.quota_inodes, copy.quota_flags) = ([None; 3], 0);
    let mut sector = vec![0; copy.geometry.sector_size as usize];
    device.read_at(&mut sector, 0).unwrap();
    copy.encode(&mut sector);
    seal(&mut sector);
    device.write_at(&sector, 0, Durability::Cached).unwrap();
    let options = RehearsalOptions { allow_loss: true, ..RehearsalOptions::default() };
    let rehearsed = rehearse(&device, &superblock(&device), &options).unwrap();
    let rules: Vec<_> = rehearsed.actions.iter().map(|action| action.rule).collect();
    let left = report(&device);
    assert_eq!(superblock(&device).quota_inodes, expected.quota_inodes, "{rules:?} {left:?}");
    assert!(left.is_clean(), "{rules:?} {:?}", left.findings);
}
