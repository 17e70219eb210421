//! Tests of damage to headers, btrees, inodes and forks, and of its repair without loss.

use xfs_device::BlockDevice;
use xfs_evidence::{Evidence, InodeState};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::BtreeKind;
use xfs_format::inode::{FileType, InodeCore};
use xfs_format::{AgBlock, AgNumber, BlockKind, DiskAddr, InodeNumber};

use crate::trial::{Shape, superblock_of};
use crate::volume::{SECTOR_BYTES, TestVolume, report};

const GROUPS: [AgNumber; 2] = [AgNumber(0), AgNumber(1)];

/// Returns the root of a btree of a group of the golden image.
fn root(volume: &TestVolume, group: AgNumber, kind: BtreeKind) -> DiskAddr {
    let (agf, agi) = (volume.agf(group), volume.agi(group));
    let root: BtreeRoot = match kind {
        BtreeKind::FreeSpaceByBlock => agf.free_space_by_block,
        BtreeKind::FreeSpaceBySize => agf.free_space_by_size,
        BtreeKind::ReverseMap => agf.reverse_map.expect("the volume has a reverse map"),
        BtreeKind::Refcount => agf.refcount.expect("the volume has reference counts"),
        BtreeKind::Inode => agi.inode_btree,
        BtreeKind::FreeInode => agi.free_inode_btree.expect("the volume has this btree"),
        BtreeKind::Extent | BtreeKind::RealtimeReverseMap | BtreeKind::RealtimeRefcount => {
            unreachable!("the root is in an inode")
        }
    };
    volume.geometry.ag_block_disk_addr(group, AgBlock(root.block.0))
}

#[test]
fn sound_volume_is_left_as_it_is() {
    let volume = TestVolume::golden();
    let repaired = volume.repair(false);
    repaired.assert_clean();
    assert!(repaired.rehearsed.actions.is_empty(), "{:?}", repaired.rules());
}

/// Zeroes the root block of a btree in each group, and asserts that the repair is clean.
fn check_zeroed_root(kind: BtreeKind) {
    for group in GROUPS {
        let volume = TestVolume::golden();
        volume.zero(root(&volume, group, kind), volume.geometry.block_size as usize);
        assert!(!report(&*volume.device).is_clean(), "{kind:?} of {group}");
        let repaired = volume.repair(false);
        repaired.assert_clean();
        assert!(repaired.rules().contains(&"space"), "{:?}", repaired.rules());
    }
}

/// Writes the number of another group, or of no group, into the headers of group 1, with right
/// checksums. The repair must correct the number, and must write nothing to the other group.
#[test]
fn number_of_a_group_in_its_headers_damaged_is_set_again() {
    for number in [0, u32::MAX] {
        let volume = TestVolume::golden();
        for (sector, kind) in [(1, BlockKind::Agf), (2, BlockKind::Agi)] {
            let at = volume.geometry.header_disk_addr(AgNumber(1), sector);
            // The number follows the magic number and the version.
            volume.edit(at, kind, |bytes| bytes[8..12].copy_from_slice(&number.to_be_bytes()));
        }
        volume.repair(false).assert_clean();
    }
}

#[test]
fn root_of_free_space_by_block_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::FreeSpaceByBlock);
}

#[test]
fn root_of_free_space_by_size_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::FreeSpaceBySize);
}

#[test]
fn root_of_the_reverse_map_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::ReverseMap);
}

#[test]
fn root_of_reference_counts_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::Refcount);
}

#[test]
fn root_of_the_inode_btree_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::Inode);
}

#[test]
fn root_of_the_free_inode_btree_zeroed_is_rebuilt() {
    check_zeroed_root(BtreeKind::FreeInode);
}

/// Lets a record of the inode btree lead into the data of a file, with a right checksum. The bytes
/// there are no inodes, so no byte of the file may change, and the chunk that lost its record is
/// found by the reverse map.
#[test]
fn chunk_record_that_leads_into_a_file_leaves_the_file_as_it_is() {
    let volume = TestVolume::golden();
    let before = Shape::of(&*volume.device);
    let geometry = &volume.geometry;
    let is_long = |core: &InodeCore| {
        core.file_type() == Some(FileType::Regular) && core.blocks > geometry.chunk_blocks().into()
    };
    let mut changed = 0;
    for file in TestVolume::inodes(is_long) {
        let volume = TestVolume::golden();
        let extents = volume.extents_of(&*volume.device, file.number);
        let longest = extents.iter().max_by_key(|extent| extent.length_blocks).unwrap();
        let (group, block) = geometry.split_block(longest.start).unwrap();
        let first = block.0.next_multiple_of(geometry.chunk_blocks());
        if first + 1 > block.0 + longest.length_blocks {
            continue;
        }
        let contents = |device: &dyn BlockDevice| {
            let mut bytes = vec![0; (longest.length_blocks * geometry.block_size) as usize];
            let at = geometry.block_disk_addr(longest.start).unwrap();
            device.read_at(&mut bytes, at.byte_offset().unwrap()).unwrap();
            bytes
        };
        let sound = contents(&*volume.device);
        let inode = first << geometry.inodes_per_block_log;
        let at = root(&volume, group, BtreeKind::Inode);
        volume.edit(at, BlockKind::Btree(BtreeKind::Inode), |bytes| {
            assert_eq!(bytes[4..6], [0, 0], "the root is a leaf");
            // The records follow a header of 56 bytes, and start with the first inode.
            bytes[56..60].copy_from_slice(&inode.to_be_bytes());
        });
        let repaired = volume.repair(true);
        repaired.assert_clean();
        assert!(repaired.inodes_with_losses().is_empty(), "{:?}", repaired.rules());
        assert!(contents(&*repaired.device) == sound, "bytes of {} have changed", file.number);
        assert_eq!(Shape::of(&*repaired.device).links(), before.links());
        changed += 1;
    }
    assert!(changed > 0);
}

/// Zeroes header sectors of each group (0 superblock, 1 AGF, 2 AGI, 3 AGFL), and asserts that the
/// repair is clean.
fn check_zeroed_headers(sectors: &[u32]) {
    for group in GROUPS {
        let volume = TestVolume::golden();
        for index in sectors {
            volume.zero(volume.geometry.header_disk_addr(group, *index), SECTOR_BYTES);
        }
        volume.repair(false).assert_clean();
    }
}

#[test]
fn superblock_zeroed_is_taken_from_its_copies() {
    check_zeroed_headers(&[0]);
}

/// Makes the superblock name a file, an inode outside of all chunks, and no inode as the root, each
/// with a right checksum. Checks that all names stay in their place.
#[test]
fn superblock_with_another_root_inode_names_the_root_directory_again() {
    let before = Shape::of(&*TestVolume::golden().device);
    let file = TestVolume::inodes(|core| core.file_type() == Some(FileType::Regular));
    for wrong in [file[0].number.0, 0x2000, u64::MAX] {
        let volume = TestVolume::golden();
        volume.edit(DiskAddr(0), BlockKind::Superblock, |bytes| {
            bytes[56..64].copy_from_slice(&wrong.to_be_bytes());
        });
        let repaired = volume.repair(false);
        repaired.assert_clean();
        assert_eq!(Shape::of(&*repaired.device).links(), before.links(), "{wrong:#x}");
    }
}

/// Makes the superblock name an inode outside of the volume, an inode outside of all chunks, and a
/// free inode as the realtime bitmap, the realtime summary and the inode of each type of quota.
/// Checks that the realtime inodes are named again, that no quota inode is, and that all names stay
/// in their place.
#[test]
fn superblock_with_a_wrong_special_inode_names_the_right_one_again() {
    let before = Shape::of(&*TestVolume::golden().device);
    let sound = TestVolume::golden().bytes(DiskAddr(0), SECTOR_BYTES);
    let free = first_free_inode(&TestVolume::golden()).0;
    // The bitmap and summary inodes, and the three of quota.
    for field in [64, 72, 160, 168, 232] {
        for wrong in [u64::MAX - 1, 0x2000, free] {
            let volume = TestVolume::golden();
            volume.edit(DiskAddr(0), BlockKind::Superblock, |bytes| {
                bytes[field..field + 8].copy_from_slice(&wrong.to_be_bytes());
            });
            assert!(!report(&*volume.device).is_clean(), "{field}: {wrong:#x}");
            let repaired = volume.repair(false);
            repaired.assert_clean();
            assert_eq!(Shape::of(&*repaired.device).links(), before.links(), "{field}: {wrong:#x}");
            let mut sector = vec![0; SECTOR_BYTES];
            repaired.device.read_at(&mut sector, 0).unwrap();
            if field < 160 {
                assert_eq!(sector[field..field + 8], sound[field..field + 8]);
            }
        }
    }
}

fn first_free_inode(volume: &TestVolume) -> InodeNumber {
    let superblock = superblock_of(&*volume.device);
    let evidence = Evidence::new(&*volume.device, &superblock);
    let first = superblock.root_inode.0;
    let mut numbers = (first..).map(InodeNumber);
    numbers.find(|number| matches!(evidence.inode(*number).state, InodeState::Free(_))).unwrap()
}

#[test]
fn agf_zeroed_is_rebuilt() {
    check_zeroed_headers(&[1]);
}

#[test]
fn agi_zeroed_is_rebuilt() {
    check_zeroed_headers(&[2]);
}

#[test]
fn agfl_zeroed_is_rebuilt() {
    check_zeroed_headers(&[3]);
}

#[test]
fn all_headers_of_a_group_zeroed_are_rebuilt() {
    check_zeroed_headers(&[0, 1, 2, 3]);
}
