//! Tests of a volume with quota whose log is dirty: `testdata/quota.image`, which a kernel made.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenOptions, Volume};
use xfs_format::dquot::{QuotaFlags, QuotaKind, dquot_at, dquots_per_block};
use xfs_format::inode::ForkKind;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{CowDevice, golden_quota};

/// The usage of an owner: blocks and inodes.
type Usage = (u64, u64);

fn device() -> SharedDevice {
    Arc::new(CowDevice::new(Arc::new(golden_quota())))
}

fn superblock(device: &SharedDevice) -> Superblock {
    let mut sector = vec![0; 512];
    device.read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap()
}

fn flags(device: &SharedDevice) -> QuotaFlags {
    QuotaFlags::from_bits_retain(superblock(device).quota_flags)
}

fn recover(device: &SharedDevice) {
    let devices = OpenOptions::new().write(true).with_devices(Arc::clone(device), None);
    assert!(devices.recover().unwrap().is_some(), "the log is dirty");
}

/// Reads the dquots of one kind from a volume. Returns the usage in each dquot that has any, by the
/// ID of its owner.
fn usage(device: &SharedDevice, kind: QuotaKind) -> BTreeMap<u32, Usage> {
    let superblock = superblock(device);
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let kinds = QuotaKind::ALL.into_iter().zip(superblock.quota_inodes);
    let inode = kinds.into_iter().find(|(found, _)| *found == kind).unwrap().1.unwrap();
    let mut usage = BTreeMap::new();
    for extent in volume.node(inode).unwrap().extents(ForkKind::Data) {
        let extent = extent.unwrap();
        let mut bytes = vec![0; extent.length_bytes as usize];
        device.read_at(&mut bytes, extent.device_offset_bytes).unwrap();
        for block in bytes.chunks(superblock.geometry.block_size as usize) {
            for index in 0..dquots_per_block(&superblock.geometry) {
                let dquot = dquot_at(block, index).unwrap();
                let found = (dquot.blocks.get(), dquot.inodes.get());
                if found != (0, 0) {
                    usage.insert(dquot.id.get(), found);
                }
            }
        }
    }
    usage
}

/// Counts the usage of users by walking all files of a volume.
fn count_users(volume: &Volume) -> BTreeMap<u32, Usage> {
    let mut users: BTreeMap<u32, Usage> = BTreeMap::new();
    let root = volume.root().unwrap();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        let metadata = node.metadata();
        let (blocks, inodes) = users.entry(metadata.uid).or_default();
        (*blocks, *inodes) = (*blocks + metadata.blocks / 2, *inodes + 1);
        if metadata.is_dir() {
            open.extend(node.entries().unwrap().map(|entry| entry.unwrap().node().unwrap()));
        }
    }
    // The inodes of the realtime bitmap and summary belong to root, and have no blocks here.
    let (_, inodes) = users.entry(0).or_default();
    *inodes += 2;
    users
}

#[test]
fn quotas_of_a_recovered_volume_equal_its_dquots() {
    let device = device();
    recover(&device);
    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    let quota = volume.quota();
    for kind in QuotaKind::ALL {
        assert!(quota.state().unwrap().is_accounted(kind), "{kind:?}");
        let mut listed = BTreeMap::new();
        for found in quota.iter(kind).unwrap() {
            let found = found.unwrap();
            assert_eq!(quota.get(kind, found.id).unwrap(), Some(found));
            if (found.blocks.used, found.inodes.used) != (0, 0) {
                listed.insert(found.id, (found.blocks.used, found.inodes.used));
            }
        }
        assert_eq!(listed, usage(&device, kind), "{kind:?}");
        assert_eq!(quota.get(kind, u32::MAX).unwrap(), None);
    }
}

#[test]
fn dirty_volume_with_quota_is_read_without_a_write() {
    let device = device();
    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    let names: Vec<_> =
        volume.read_dir("/d").unwrap().map(|entry| entry.unwrap().name().to_owned()).collect();
    assert_eq!(names, ["f1", "f2", "new", "empty"]);
    assert!(flags(&device).contains(QuotaFlags::CHECKED_V5));
}

/// Recovers the volume. Checks that the usage in the dquots is the one that a walk over all files
/// counts.
#[test]
fn recovered_dquots_count_the_recovered_files() {
    let device = device();
    let before = flags(&device);
    recover(&device);
    assert_eq!(flags(&device), before);
    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    let users = usage(&device, QuotaKind::User);
    assert_eq!(users, count_users(&volume));
    assert_eq!(users.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 1000, u32::MAX - 1]);
    assert_eq!(usage(&device, QuotaKind::Group).get(&2000), Some(&(70, 1)));
    assert_eq!(usage(&device, QuotaKind::Project).get(&3000), Some(&(70, 1)));
}

/// Opens a volume with checked quota for writing. Checks that the flags for checked counts are then
/// gone, and that the other flags and the quota inodes stay.
#[test]
fn opening_for_writing_marks_the_counts_as_unchecked() {
    let device = device();
    let before = superblock(&device);
    let volume = OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap();
    volume.write("/written", b"not counted").unwrap();
    volume.close().unwrap();
    let after = superblock(&device);
    let expected = QuotaFlags::from_bits_retain(before.quota_flags);
    assert_eq!(flags(&device), expected.difference(QuotaFlags::CHECKED));
    assert!(!flags(&device).is_empty());
    assert_eq!(after.quota_inodes, before.quota_inodes);
}
