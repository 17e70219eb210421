//! Tests that the superblock is found although the first sector is damaged.

use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
use xfs_evidence::{
    ByteRange, Evidence, SuperblockDoubt, SuperblockSource, complete_by_log, find_superblock,
};
use xfs_format::features::VersionFlags;
use xfs_format::inode::FileType;
use xfs_format::{AgNumber, BlockKind, DiskAddr, IncompatFeatures, InodeNumber, Lsn, Superblock};
use xfs_testkit::{Image, golden, golden_metadata_directory, golden_quota};

use crate::damage::Unreadable;
use crate::support::superblock;

#[test]
fn sound_superblock_is_taken_as_it_is() {
    let image = golden();
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Primary);
    assert_eq!(found.superblock, superblock(&image));
}

#[test]
fn zeroed_superblock_is_built_from_the_copy() {
    let mut image = golden();
    let whole = superblock(&image);
    image.replace(DiskAddr(0), &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Copies { agreeing: 1, found: 1 });
    assert_eq!(found.superblock.geometry, whole.geometry);
    assert_eq!(found.superblock.root_inode, whole.root_inode);
    assert_eq!(found.superblock.log_start, whole.log_start);
    assert_eq!(found.superblock.realtime_bitmap_inode, whole.realtime_bitmap_inode);
    assert_eq!(found.superblock.realtime_summary_inode, whole.realtime_summary_inode);
    assert!(!found.superblock.in_progress);
}

#[test]
fn superblock_with_a_wrong_byte_keeps_its_label_and_counters() {
    let mut image = golden();
    let whole = superblock(&image);
    image.edit_with(DiskAddr(0), 512, |bytes| bytes[84] ^= 0x40);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.superblock.geometry, whole.geometry);
    assert_eq!(found.superblock.label, whole.label);
    assert_eq!(found.superblock.free_blocks, whole.free_blocks);
}

/// Makes the superblock name a wrong root inode, with a right checksum: a file, a free inode, an
/// inode outside of all chunks, and none at all. Checks that the right number is found each time.
#[test]
fn root_inode_that_is_not_the_root_directory_is_corrected() {
    let sound = golden();
    let root = superblock(&sound).root_inode;
    let whole = superblock(&sound);
    let file = Evidence::new(&sound, &whole).inode(InodeNumber(root.0 + 6));
    assert!(file.core().is_some_and(|core| core.file_type() == Some(FileType::Regular)));
    for wrong in [root.0 + 6, root.0 + 63, 0x2000, u64::MAX] {
        let mut image = golden();
        image.edit(DiskAddr(0), 512, BlockKind::Superblock, |bytes| {
            bytes[56..64].copy_from_slice(&wrong.to_be_bytes());
        });
        let found = find_superblock(&image).unwrap().unwrap();
        assert_eq!(found.source, SuperblockSource::PrimaryWithoutRoot, "{wrong:#x}");
        assert_eq!(found.superblock.root_inode, root, "{wrong:#x}");
    }
}

/// Destroys the inode of the root directory. Checks that the superblock that is found still names
/// it as the root.
#[test]
fn root_inode_that_is_destroyed_keeps_its_number() {
    let mut image = golden();
    let whole = superblock(&image);
    let root = whole.geometry.inode_location(whole.root_inode).expect("the root is on the volume");
    let at = DiskAddr(root.cluster.0 + u64::from(root.offset_bytes / 512));
    image.replace(at, &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Primary);
    assert_eq!(found.superblock.root_inode, whole.root_inode);
}

#[test]
fn group_count_that_no_copy_states_is_corrected() {
    let mut image = golden();
    let whole = superblock(&image);
    // One group of 32 MiB: legal by itself, and its checksum is right.
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |bytes| {
        bytes[84..88].copy_from_slice(&16_640_u32.to_be_bytes());
    });
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.superblock.geometry, whole.geometry);
}

/// Returns the image with zeros in the first sector of each group.
fn without_superblocks(mut image: Image) -> Image {
    let geometry = superblock(&image).geometry;
    for group in geometry.groups() {
        let length = geometry.sector_size as usize;
        image.replace(geometry.header_disk_addr(group, 0), &vec![0; length]);
    }
    image
}

/// Zeros all superblocks of the image, and compares the superblock that is then built from group
/// headers with the original one. Fields that no other structure shows are not compared.
fn check_found_by_headers(image: Image) {
    let whole = superblock(&image);
    let found = find_superblock(&without_superblocks(image)).unwrap().unwrap();
    assert_eq!((found.source, found.doubt), (SuperblockSource::GroupHeaders, None));
    let mut expected = whole;
    // Nothing in the volume shows these fields.
    expected.incompat.remove(IncompatFeatures::EXCHRANGE);
    expected.geometry.incompat.remove(IncompatFeatures::EXCHRANGE);
    let lost = found.superblock.clone();
    let expected = Superblock {
        label: lost.label,
        inode_max_percent: lost.inode_max_percent,
        inode_count: 0,
        free_inodes: 0,
        free_blocks: 0,
        quota_inodes: [None; 3],
        quota_flags: 0,
        lsn: lost.lsn,
        realtime_extents: 0,
        ..expected
    };
    let mut found = lost;
    found.version_flags |= expected.version_flags & VersionFlags::QUOTA;
    assert_eq!(found, expected);
}

#[test]
fn superblock_from_headers_has_log_root_and_features() {
    check_found_by_headers(golden());
    check_found_by_headers(golden_quota());
}

/// Checks that a superblock from the log equals the original in all fields except counters. The log
/// of the golden volume with quota has such a superblock.
#[test]
fn superblock_in_the_log_has_all_fields() {
    let whole = superblock(&golden_quota());
    let image: SharedDevice = Arc::new(without_superblocks(golden_quota()));
    let found = find_superblock(&*image).unwrap().unwrap();
    let found = complete_by_log(&image, found);
    assert_eq!((found.source, found.doubt), (SuperblockSource::Log, None));
    let logged = found.superblock;
    let expected = Superblock {
        inode_count: logged.inode_count,
        free_inodes: logged.free_inodes,
        free_blocks: logged.free_blocks,
        quota_flags: logged.quota_flags,
        lsn: logged.lsn,
        ..whole
    };
    assert_eq!(logged, expected);
}

#[test]
fn log_without_a_reverse_map_that_can_be_read_is_doubtful() {
    let image = golden();
    let whole = superblock(&image);
    let (group, _) = whole.log_first_block().expect("the log is internal");
    let agf = whole.geometry.header_disk_addr(group, 1);
    let mut cut = image;
    // The root of the reverse map is a block with other contents.
    cut.edit(agf, 512, BlockKind::Agf, |bytes| bytes[24..28].copy_from_slice(&[0, 0, 0, 0]));
    let found = find_superblock(&without_superblocks(cut)).unwrap().unwrap();
    // Its owners are not known without the map's blocks, so the end of the log is not.
    assert_eq!(found.doubt, Some(SuperblockDoubt::NoLog));
}

#[test]
fn root_without_an_inode_is_known_by_the_inodes_after_it() {
    let mut image = golden();
    let whole = superblock(&image);
    let root = whole.geometry.inode_location(whole.root_inode).expect("the root is on the volume");
    let at = DiskAddr(root.cluster.0 + u64::from(root.offset_bytes / 512));
    image.replace(at, &[0; 512]);
    let found = find_superblock(&without_superblocks(image)).unwrap().unwrap();
    assert_eq!((found.doubt, found.superblock.root_inode), (None, whole.root_inode));
}

#[test]
fn device_longer_than_the_volume_adds_no_group() {
    let image = golden();
    let whole = superblock(&image);
    let bytes = without_superblocks(image);
    let length = BlockDevice::length_bytes(&bytes);
    let longer = MemoryDevice::new(length + (20 << 20));
    let mut piece = vec![0; 1 << 16];
    for at in (0..length).step_by(piece.len()) {
        bytes.read_at(&mut piece, at).unwrap();
        longer.write_at(&piece, at, Durability::Cached).unwrap();
    }
    let found = find_superblock(&longer).unwrap().unwrap();
    assert_eq!(found.superblock.geometry.data_blocks, whole.geometry.data_blocks);
}

#[test]
fn group_whose_headers_are_lost_is_known_by_its_blocks() {
    let mut image = golden();
    let whole = superblock(&image);
    let last = AgNumber(whole.geometry.ag_count - 1);
    image.replace(whole.geometry.header_disk_addr(last, 0), &[0; 4 * 512]);
    let found = find_superblock(&without_superblocks(image)).unwrap().unwrap();
    assert_eq!(found.superblock.geometry.ag_count, whole.geometry.ag_count);
    assert_eq!(found.superblock.geometry.data_blocks, whole.geometry.data_blocks);
}

#[test]
fn metadata_directory_makes_a_superblock_from_headers_doubtful() {
    let image = golden_metadata_directory();
    let found = find_superblock(&without_superblocks(image)).unwrap().unwrap();
    assert_eq!(found.doubt, Some(SuperblockDoubt::MetadataDirectory));
}

#[test]
fn device_without_a_superblock_gives_none() {
    let device = xfs_device::MemoryDevice::new(40 << 20);
    assert!(find_superblock(&device).unwrap().is_none());
}

/// The byte of the device at which a second volume begins. The second volume is the contents of a
/// file of the golden image. The byte is a multiple of the smallest block size, and no group starts
/// there.
const FOREIGN_START: u64 = 20 << 20;

/// Returns the superblock, AGF and AGI of `group` with another UUID and right checksums.
fn foreign_headers(image: &Image, group: AgNumber) -> Vec<u8> {
    let geometry = image.geometry();
    let mut bytes = image.bytes(geometry.header_disk_addr(group, 0), 3 * 512).unwrap();
    let kinds = [BlockKind::Superblock, BlockKind::Agf, BlockKind::Agi];
    for ((sector, kind), uuid) in bytes.chunks_mut(512).zip(kinds).zip([32, 64, 296]) {
        sector[uuid] ^= 0xff;
        kind.seal(sector, Lsn(0));
    }
    bytes
}

#[test]
fn superblock_of_a_volume_inside_a_file_is_not_adopted() {
    let mut image = golden();
    let whole = superblock(&image);
    let second = whole.geometry.header_disk_addr(AgNumber(1), 0);
    let foreign = foreign_headers(&image, AgNumber(0));
    image.replace(DiskAddr(FOREIGN_START / 512), &foreign);
    image.replace(DiskAddr(0), &[0; 512]);
    image.replace(second, &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::GroupHeaders);
    assert_eq!(found.superblock.geometry.meta_uuid, whole.geometry.meta_uuid);
}

#[test]
fn foreign_copy_at_a_group_start_loses_to_headers_that_name_another_group() {
    let mut image = golden();
    let whole = superblock(&image);
    let second = whole.geometry.header_disk_addr(AgNumber(1), 0);
    // The stored volume begins where the second group does, so its first superblock lies there.
    let foreign = foreign_headers(&image, AgNumber(0));
    image.replace(second, &foreign);
    image.replace(DiskAddr(0), &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_ne!(found.source, SuperblockSource::Copies { agreeing: 1, found: 1 });
    assert_eq!(found.superblock.geometry.meta_uuid, whole.geometry.meta_uuid);
}

#[test]
fn lone_copy_without_any_header_that_agrees_is_doubtful() {
    let mut image = golden();
    let whole = superblock(&image);
    image.replace(DiskAddr(0), &[0; 512]);
    for group in whole.geometry.groups() {
        image.replace(whole.geometry.header_disk_addr(group, 1), &[0; 1024]);
    }
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.doubt, Some(SuperblockDoubt::FewGroups { agreeing: 0, of: 2 }));
}

#[test]
fn sound_primary_with_stale_copies_wins_by_the_headers_of_groups() {
    let mut image = golden();
    let whole = superblock(&image);
    let second = whole.geometry.header_disk_addr(AgNumber(1), 0);
    // A growth that was cut off leaves a copy with fewer blocks.
    image.edit(second, 512, BlockKind::Superblock, |bytes| {
        let shorter = whole.geometry.data_blocks - 100;
        bytes[8..16].copy_from_slice(&shorter.to_be_bytes());
    });
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.source, SuperblockSource::Primary);
    assert_eq!(found.superblock.geometry, whole.geometry);
}

#[test]
fn unreadable_sector_does_not_hide_the_headers_of_its_group() {
    let mut image = golden();
    let geometry = image.geometry();
    for group in geometry.groups() {
        image.replace(geometry.header_disk_addr(group, 0), &[0; 512]);
    }
    for bad in [0, 5, 9, 40] {
        let device = Unreadable {
            image: &image,
            range: ByteRange { start: bad * 512, end: bad * 512 + 512 },
        };
        let found = find_superblock(&device).unwrap().unwrap();
        assert_eq!(found.source, SuperblockSource::GroupHeaders, "sector {bad}");
        assert_eq!(found.superblock.geometry.ag_count, geometry.ag_count, "sector {bad}");
    }
}

#[test]
fn root_that_no_copy_states_is_found_by_its_own_entry() {
    let mut image = golden();
    let whole = superblock(&image);
    for group in whole.geometry.groups().filter(|group| group.0 > 0) {
        let at = whole.geometry.header_disk_addr(group, 0);
        image.edit(at, 512, BlockKind::Superblock, |bytes| bytes[56..80].fill(0xff));
    }
    image.replace(DiskAddr(0), &[0; 512]);
    let found = find_superblock(&image).unwrap().unwrap();
    assert_eq!(found.superblock.root_inode, whole.root_inode);
    assert_eq!(found.superblock.realtime_bitmap_inode, whole.realtime_bitmap_inode);
    assert_eq!(found.superblock.realtime_summary_inode, whole.realtime_summary_inode);
}
