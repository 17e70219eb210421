//! Tests of damage to the bytes of inodes and to the maps of their forks, and of its repair without
//! loss.

use std::collections::BTreeSet;

use xfs_check::Code;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, InodeCore, InodeFlags2};
use xfs_format::{AgBlock, AgNumber, FsBlock};
use zerocopy::IntoBytes;

use crate::trial::Shape;
use crate::volume::{SECTOR_BYTES, TestVolume, report};

/// Returns the file of the golden image with a two-level extent btree.
fn tree_file() -> InodeCore {
    let files = TestVolume::inodes(|core| {
        core.data_format == ForkFormat::Btree && core.file_type() == Some(FileType::Regular)
    });
    files.into_iter().max_by_key(|core| core.extents).expect("the image has such a file")
}

#[test]
fn inode_with_one_bit_flipped_is_restored() {
    for bit in [3, 1000, 1400, 2000, 4000] {
        let volume = TestVolume::golden();
        let file = tree_file();
        let at = volume.inode_at(file.number);
        let sound = volume.bytes(at, volume.geometry.inode_size as usize);
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        volume.put(at, &bytes);
        assert!(!report(&*volume.device).is_clean(), "bit {bit}");
        let repaired = volume.repair(false);
        repaired.assert_clean();
        let mut bytes = vec![0; sound.len()];
        repaired.device.read_at(&mut bytes, at.0 * 512).expect("the inode can be read");
        assert_eq!(bytes, sound, "bit {bit}");
    }
}

#[test]
fn leaf_of_an_extent_btree_zeroed_is_rebuilt_from_the_reverse_map() {
    let volume = TestVolume::golden();
    let file = tree_file();
    for at in volume.tree_blocks(file.number) {
        let volume = TestVolume::golden();
        volume.zero(at, volume.geometry.block_size as usize);
        assert!(!report(&*volume.device).is_clean(), "block at {at}");
        let repaired = volume.repair(false);
        repaired.assert_clean();
        assert_eq!(volume.extents_of(&*repaired.device, file.number).len() as u64, file.extents);
    }
}

#[test]
fn all_blocks_of_an_extent_btree_zeroed_are_rebuilt_from_the_reverse_map() {
    let volume = TestVolume::golden();
    let file = tree_file();
    let sound = volume.extents_of(&*volume.device, file.number);
    for at in volume.tree_blocks(file.number) {
        volume.zero(at, volume.geometry.block_size as usize);
    }
    let repaired = volume.repair(false);
    repaired.assert_clean();
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
}

/// Returns a volume in which the btree blocks of a file's map and the reverse map of its group are
/// overwritten with other bytes.
fn volume_without_map_and_reverse_map(file: &InodeCore) -> TestVolume {
    let volume = TestVolume::golden();
    let noise = vec![0xa5; volume.geometry.block_size as usize];
    for at in volume.tree_blocks(file.number) {
        volume.put(at, &noise);
    }
    let (group, _) = volume.geometry.split_inode(file.number).expect("a valid number");
    for block in 0..volume.geometry.ag_length(group) {
        let at = volume.geometry.ag_block_disk_addr(group, AgBlock(block));
        if volume.bytes(at, 4) == b"RMB3" {
            volume.put(at, &noise);
        }
    }
    volume
}

#[test]
fn map_lost_together_with_the_reverse_map_is_rebuilt_if_loss_is_allowed() {
    let file = tree_file();
    let volume = volume_without_map_and_reverse_map(&file);
    let repaired = volume.repair(true);
    let report = report(&*repaired.device);
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{findings:#?} {:?}", repaired.rules());
    let losses = repaired.rehearsed.actions.iter().flat_map(|action| &action.loses);
    let losers: BTreeSet<_> = losses.map(|loss| loss.inode).collect();
    assert_eq!(losers, BTreeSet::from([Some(file.number)]));
}

#[test]
fn map_lost_together_with_the_reverse_map_keeps_its_blocks_if_loss_is_not_allowed() {
    let file = tree_file();
    let volume = volume_without_map_and_reverse_map(&file);
    let repaired = volume.repair(false);
    let left = report(&*repaired.device);
    assert!(!left.is_clean());
    let crosslinked = left.findings.iter().find(|finding| finding.code == Code::SpaceCrosslinked);
    assert!(crosslinked.is_none(), "{crosslinked:?}");
}

#[test]
fn sibling_pointer_changed_is_set_again_and_no_extent_is_lost() {
    let volume = TestVolume::golden();
    let file = tree_file();
    let sound = volume.extents_of(&*volume.device, file.number);
    let blocks = volume.tree_blocks(file.number);
    let kind = xfs_format::BlockKind::Btree(xfs_format::btree::BtreeKind::Extent);
    volume.edit(*blocks.last().expect("a block"), kind, |bytes| bytes[8..16].fill(0xff));
    assert!(!report(&*volume.device).is_clean());
    let repaired = volume.repair(false);
    repaired.assert_clean();
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
}

/// Damages one inode of each kind: sets the bytes `range` to each of `values`, with a good
/// checksum. Asserts that a repair without losses leaves no finding. `field` names the bytes in
/// messages.
fn check_field(field: &str, range: std::ops::Range<usize>, values: &[&[u8]]) {
    let mut kinds = std::collections::BTreeSet::new();
    let inodes = TestVolume::inodes(|_| true);
    for inode in inodes {
        let kind = (inode.mode >> 12, inode.data_format as u8);
        if !kinds.insert(kind) {
            continue;
        }
        for value in values {
            let volume = TestVolume::golden();
            volume.edit_inode(&inode, |bytes| bytes[range.clone()].copy_from_slice(value));
            if report(&*volume.device).is_clean() {
                continue;
            }
            let repaired = volume.repair(false);
            let report = report(&*repaired.device);
            let left: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            let case = format!("{field} of {} {kind:?} = {value:?}", inode.number);
            assert!(report.is_clean(), "{case}: {left:#?} {:?}", repaired.rules());
        }
    }
}

#[test]
fn type_of_an_inode_is_taken_from_its_names() {
    check_field("mode", 2..3, &[&[0xf0], &[0]]);
}

#[test]
fn version_of_an_inode_is_set_again() {
    check_field("version", 4..5, &[&[0], &[7]]);
}

#[test]
fn format_of_a_fork_is_found_by_its_contents() {
    check_field("format", 5..6, &[&[9], &[0xff], &[0], &[3]]);
}

#[test]
fn block_count_of_an_inode_is_counted() {
    check_field("nblocks", 64..72, &[&[0; 8], &[0xff; 8], &[0, 0, 0, 0, 0, 0, 4, 1]]);
}

#[test]
fn extent_count_of_an_inode_is_counted() {
    check_field("nextents", 24..32, &[&[0; 8], &[0xff; 8], &[0, 0, 0, 0, 0, 0, 0, 1]]);
}

#[test]
fn attribute_extent_count_of_an_inode_is_counted() {
    check_field("anextents", 76..80, &[&[0; 4], &[0xff; 4], &[0, 0, 0, 1]]);
}

#[test]
fn start_of_the_attribute_fork_is_found_by_its_contents() {
    check_field("forkoff", 82..83, &[&[0xff], &[60], &[200]]);
}

#[test]
fn format_of_the_attribute_fork_is_found_by_its_contents() {
    check_field("aformat", 83..84, &[&[9], &[0xff]]);
}

#[test]
fn size_of_an_inode_that_is_impossible_is_set_again() {
    check_field("size", 56..64, &[&[0xff; 8]]);
}

#[test]
fn flags_of_features_that_the_volume_lacks_are_cleared() {
    check_field("flags2", 126..128, &[&[0, 0x3c], &[0, 0x1a]]);
}

#[test]
fn hint_that_is_impossible_is_cleared() {
    check_field("extsize", 72..76, &[&[0xff; 4], &[0, 0, 0, 1]]);
}

#[test]
fn inode_zeroed_keeps_its_contents_and_its_name() {
    let file = tree_file();
    let volume = TestVolume::golden();
    let sound = volume.extents_of(&*volume.device, file.number);
    volume.zero(volume.inode_at(file.number), volume.geometry.inode_size as usize);
    let kept = volume.repair(false);
    assert!(!report(&*kept.device).is_clean(), "a loss needs a permission");
    let repaired = volume.repair(true);
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
    let left = report(&*repaired.device);
    assert!(left.is_clean(), "{:?}", left.findings);
}

/// Returns two files with extents in their inodes, each with at least one extent of several blocks.
fn two_files() -> [InodeCore; 2] {
    let volume = TestVolume::golden();
    let mut files = TestVolume::inodes(|core| {
        core.data_format == ForkFormat::Extents
            && core.file_type() == Some(FileType::Regular)
            && core.extents > 0
            && !core.flags2.contains(InodeFlags2::REFLINK)
    });
    files.retain(|core| volume.extents_of(&*volume.device, core.number)[0].length_blocks > 0);
    [files[0].clone(), files[1].clone()]
}

/// Changes the first extent of a file so that it starts at the block `start`.
fn point_to(volume: &TestVolume, file: &InodeCore, start: FsBlock) {
    let extent = Extent { start, ..volume.extents_of(&*volume.device, file.number)[0] };
    let disk = extent.encode().expect("the values fit a record");
    volume.edit_inode(file, |bytes| bytes[176..192].copy_from_slice(disk.as_bytes()));
}

#[test]
fn extent_that_points_to_blocks_of_another_file_is_taken_from_the_reverse_map() {
    let [first, second] = two_files();
    for (file, other) in [(&first, &second), (&second, &first)] {
        let volume = TestVolume::golden();
        let sound = volume.extents_of(&*volume.device, file.number);
        point_to(&volume, file, volume.extents_of(&*volume.device, other.number)[0].start);
        assert!(!report(&*volume.device).is_clean());
        let repaired = volume.repair(false);
        repaired.assert_clean();
        assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
    }
}

#[test]
fn extent_that_points_to_free_space_is_taken_from_the_reverse_map() {
    let [file, _] = two_files();
    let volume = TestVolume::golden();
    let sound = volume.extents_of(&*volume.device, file.number);
    let last = volume.geometry.ag_length(AgNumber(1)) - 20;
    point_to(&volume, &file, volume.geometry.join_block(AgNumber(1), AgBlock(last)));
    assert!(!report(&*volume.device).is_clean());
    let repaired = volume.repair(false);
    repaired.assert_clean();
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
}

#[test]
fn blocks_of_two_files_without_a_reverse_map_are_shared_by_both() {
    let [file, other] = two_files();
    let volume = TestVolume::golden();
    let wanted = volume.extents_of(&*volume.device, other.number)[0].start;
    point_to(&volume, &file, wanted);
    for group in volume.geometry.groups() {
        volume.zero(volume.geometry.header_disk_addr(group, 1), SECTOR_BYTES);
        let map = TestVolume::golden().agf(group).reverse_map.expect("a reverse map").block;
        let at = volume.geometry.ag_block_disk_addr(group, map);
        volume.zero(at, volume.geometry.block_size as usize);
    }
    let repaired = volume.repair(false);
    repaired.assert_clean();
    assert_eq!(volume.extents_of(&*repaired.device, file.number)[0].start, wanted);
    assert_eq!(volume.extents_of(&*repaired.device, other.number)[0].start, wanted);
}

#[test]
fn file_that_claims_inodes_without_a_reverse_map_gets_a_copy() {
    let [file, other] = two_files();
    let volume = TestVolume::golden();
    let (group, inode) = volume.geometry.split_inode(other.number).expect("an inode");
    let block = volume.geometry.ag_inode_block(inode);
    let wanted = volume.geometry.join_block(group, block);
    let at = volume.geometry.ag_block_disk_addr(group, block);
    point_to(&volume, &file, wanted);
    let bytes = volume.bytes(at, volume.geometry.block_size as usize);
    for group in volume.geometry.groups() {
        volume.zero(volume.geometry.header_disk_addr(group, 1), SECTOR_BYTES);
        let map = TestVolume::golden().agf(group).reverse_map.expect("a reverse map").block;
        let at = volume.geometry.ag_block_disk_addr(group, map);
        volume.zero(at, volume.geometry.block_size as usize);
    }
    let repaired = volume.repair(false);
    repaired.assert_clean();
    let start = volume.extents_of(&*repaired.device, file.number)[0].start;
    assert_ne!(start, wanted);
    let mut copy = vec![0; bytes.len()];
    let at = volume.geometry.block_disk_addr(start).expect("the block lies in the volume");
    repaired.device.read_at(&mut copy, at.0 * 512).expect("the copy can be read");
    assert_eq!(copy, bytes);
}

#[test]
fn cluster_of_inodes_zeroed_keeps_all_names_of_files() {
    let volume = TestVolume::golden();
    let file = tree_file();
    let location = volume.geometry.inode_location(file.number).expect("the inode has a place");
    let length = location.cluster_bytes as usize;
    volume.zero(location.cluster, length);
    let repaired = volume.repair(true);
    let left = report(&*repaired.device);
    let findings: Vec<String> = left.findings.iter().map(ToString::to_string).collect();
    assert!(left.is_clean(), "{findings:#?} {:?}", repaired.rules());
    let sound = TestVolume::golden();
    let sound = sound.extents_of(&*sound.device, file.number);
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound);
}

/// Overwrites the inode of a directory with that of a file, as a misdirected write does. Checks
/// that the inode is a directory again after the repair, and that no name is lost.
#[test]
fn inode_that_is_a_copy_of_another_inode_is_made_again() {
    let is_of_type = |file_type| move |core: &InodeCore| core.file_type() == Some(file_type);
    let file = TestVolume::inodes(is_of_type(FileType::Regular)).remove(0);
    let directories = TestVolume::inodes(|core| {
        core.file_type() == Some(FileType::Directory) && core.data_format == ForkFormat::Extents
    });
    for directory in &directories {
        let volume = TestVolume::golden();
        let bytes = volume.bytes(volume.inode_at(file.number), SECTOR_BYTES);
        volume.put(volume.inode_at(directory.number), &bytes);
        let repaired = volume.repair(true);
        let left = report(&*repaired.device);
        assert!(left.is_clean(), "{:?} {:?}", left.findings, repaired.rules());
        let (shape, sound) = (Shape::of(&*repaired.device), Shape::of(&*volume.device));
        let types =
            |shape: &Shape| shape.inodes.get(&directory.number.0).map(|seen| seen.mode >> 12);
        assert_eq!(types(&shape), types(&Shape::of(&*TestVolume::golden().device)));
        assert!(shape.paths.len() >= sound.paths.len(), "{:?}", repaired.rules());
    }
}

/// Destroys the headers, the reverse map and the inode btrees of a group, and all but the last
/// block of a part of a chunk. Checks that the whole part belongs to the chunk again: a hole has
/// the size of a part.
#[test]
fn part_of_a_chunk_with_one_sound_block_is_whole_again() {
    let volume = TestVolume::golden();
    let geometry = volume.geometry.clone();
    let group = AgNumber(0);
    let root = crate::trial::superblock_of(&*volume.device).root_inode.0;
    let is_far = |core: &InodeCore| {
        let is_here = geometry.split_inode(core.number).is_some_and(|(found, _)| found == group);
        is_here && core.number.0 > root + 64
    };
    // The inodes from this one on to the end of its part are files in directories that stay.
    let files = TestVolume::inodes(|core| {
        is_far(core) && core.file_type() == Some(FileType::Regular) && core.nlink == 1
    });
    let (_, in_group) = geometry.split_inode(files[files.len() / 2].number).expect("valid");
    let blocks = geometry.sparse_alignment_blocks;
    assert!(blocks > 1, "the image has sparse chunks of several blocks");
    let block = geometry.ag_inode_block(in_group).0;
    let first = AgBlock(block - block % blocks);
    for block in 0..geometry.ag_length(group) {
        let at = geometry.ag_block_disk_addr(group, AgBlock(block));
        if [&b"RMB3"[..], b"IAB3", b"FIB3"].contains(&&volume.bytes(at, 4)[..]) {
            volume.zero(at, geometry.block_size as usize);
        }
    }
    volume.zero(geometry.header_disk_addr(group, 1), 3 * SECTOR_BYTES);
    let at = geometry.ag_block_disk_addr(group, first);
    volume.zero(at, ((blocks - 1) << geometry.block_log) as usize);
    let repaired = volume.repair(true);
    let left = report(&*repaired.device);
    assert!(left.is_clean(), "{:?} {:?}", left.findings, repaired.rules());
    let shape = Shape::of(&*repaired.device);
    let sound = Shape::of(&*TestVolume::golden().device);
    let is_lost = |path: &&String| !shape.paths.contains_key(*path);
    let lost: Vec<_> = sound.paths.keys().filter(is_lost).collect();
    assert!(lost.is_empty(), "{lost:?} are gone: {:?}", repaired.rules());
}

/// Clears the mode of an inode and the offset of its attribute fork, so that no parent pointer
/// gives it a name.
fn nameless(volume: &TestVolume, file: &InodeCore) {
    // The mode and the start of the attribute fork are gone: no parent pointer names the inode.
    volume.edit_inode(file, |bytes| {
        bytes[2..4].fill(0);
        bytes[82] = 0;
    });
}

/// Asserts that an inode has the extents `sound` and a link count above 0 after a repair without
/// losses. Its mode is not checked.
fn assert_kept(volume: &TestVolume, file: &InodeCore, sound: &[Extent]) {
    let repaired = volume.repair(false);
    let losses: Vec<_> =
        repaired.rehearsed.actions.iter().flat_map(|action| &action.loses).collect();
    assert!(losses.is_empty(), "{losses:#?}");
    assert_eq!(volume.extents_of(&*repaired.device, file.number), sound, "{:?}", repaired.rules());
    let mut bytes = vec![0; volume.geometry.inode_size as usize];
    let at = volume.inode_at(file.number);
    repaired.device.read_at(&mut bytes, at.0 * 512).expect("the inode can be read");
    let core = InodeCore::decode(&bytes, file.number, &volume.geometry).expect("an inode");
    assert!(core.nlink > 0, "inode {}", file.number);
}

#[test]
fn inode_without_mode_and_without_a_second_witness_keeps_its_contents() {
    for file in two_files() {
        let volume = TestVolume::golden();
        let sound = volume.extents_of(&*volume.device, file.number);
        nameless(&volume, &file);
        assert!(!report(&*volume.device).is_clean());
        assert_kept(&volume, &file, &sound);
    }
}

#[test]
fn inode_without_mode_in_a_lost_inode_btree_keeps_its_contents() {
    let [file, _] = two_files();
    let volume = TestVolume::golden();
    let sound = volume.extents_of(&*volume.device, file.number);
    volume.edit_inode(&file, |bytes| bytes[2..4].fill(0));
    let (group, _) = volume.geometry.split_inode(file.number).expect("an inode");
    volume.zero(volume.geometry.header_disk_addr(group, 2), SECTOR_BYTES);
    assert_kept(&volume, &file, &sound);
}

#[test]
fn inode_without_mode_and_with_a_damaged_map_keeps_its_links() {
    let file = tree_file();
    let volume = TestVolume::golden();
    let sound = volume.extents_of(&*volume.device, file.number);
    volume.edit_inode(&file, |bytes| bytes[2..4].fill(0));
    for at in volume.tree_blocks(file.number) {
        volume.zero(at, volume.geometry.block_size as usize);
    }
    assert_kept(&volume, &file, &sound);
}

/// Gives a size to one inode of each type without contents (devices, FIFOs, sockets), and an
/// invalid format of the attribute fork to an inode without this fork. The checksums are valid.
/// Checks that both are found and repaired.
#[test]
fn unused_fields_with_invalid_values_are_repaired() {
    let has_no_contents = |core: &InodeCore| {
        let with = [FileType::Regular, FileType::Directory, FileType::Symlink];
        core.file_type().is_some_and(|found| !with.contains(&found))
    };
    let mut kinds = BTreeSet::new();
    for inode in TestVolume::inodes(has_no_contents) {
        if !kinds.insert(inode.mode >> 12) {
            continue;
        }
        let volume = TestVolume::golden();
        volume.edit_inode(&inode, |bytes| bytes[63] = 5);
        let report = report(&*volume.device);
        assert!(report.findings.iter().any(|finding| finding.code == Code::InodeSize));
        volume.repair(false).assert_clean();
    }
    assert!(!kinds.is_empty());
    let file = TestVolume::inodes(|core| !core.has_attr_fork() && core.nlink > 0);
    for inode in file.iter().take(1) {
        let volume = TestVolume::golden();
        volume.edit_inode(inode, |bytes| bytes[83] = 0);
        let report = report(&*volume.device);
        assert!(report.findings.iter().any(|finding| finding.code == Code::InodeFormat));
        volume.repair(false).assert_clean();
    }
}

/// Garbles several bytes of an inode, the mode among them, without a new checksum. Checks that the
/// repair grants no rights of the owner to others, and says that the fields may be wrong.
#[test]
fn garbled_mode_does_not_make_a_program_with_rights_of_its_owner() {
    let mut told = 0;
    for file in TestVolume::inodes(|core| core.file_type() == Some(FileType::Regular)) {
        let volume = TestVolume::golden();
        let at = volume.inode_at(file.number);
        let mut bytes = volume.bytes(at, volume.geometry.inode_size as usize);
        bytes[2..4].copy_from_slice(&0o106_777_u16.to_be_bytes());
        bytes[93..96].copy_from_slice(&[0x5a; 3]);
        volume.put(at, &bytes);
        let repaired = volume.repair(false);
        let actions = repaired.rehearsed.actions.iter();
        let is_told = actions.filter(|action| action.keeps.contains("checksum was wrong")).count();
        if is_told == 0 {
            // The log has the newest state of this inode.
            continue;
        }
        repaired.assert_clean();
        let mut bytes = [0; 4];
        repaired.device.read_at(&mut bytes, at.0 * 512).expect("the inode can be read");
        assert_eq!(u16::from_be_bytes([bytes[2], bytes[3]]), 0o100_777);
        told += 1;
        if told == 2 {
            return;
        }
    }
    assert!(told > 0, "no inode was corrected");
}

/// Destroys one inode of each type other than directories. Checks that all names stay, that the
/// file has the type in its directory entries, and that a link whose blocks are left keeps its
/// target.
#[test]
fn destroyed_inode_of_any_type_keeps_its_names_and_its_type() {
    let before = Shape::of(&*TestVolume::golden().device);
    let mut kinds = BTreeSet::new();
    let is_named =
        |core: &InodeCore| before.links().iter().any(|(.., child)| *child == core.number.0);
    for inode in TestVolume::inodes(|core| core.file_type() != Some(FileType::Directory)) {
        let kind = (inode.mode >> 12, inode.data_format == ForkFormat::Local);
        if kinds.contains(&kind) || !is_named(&inode) {
            continue;
        }
        kinds.insert(kind);
        let volume = TestVolume::golden();
        let target = volume.extents_of(&*volume.device, inode.number);
        volume.zero(volume.inode_at(inode.number), volume.geometry.inode_size as usize);
        let repaired = volume.repair(true);
        let left = report(&*repaired.device);
        let findings: Vec<String> = left.findings.iter().map(ToString::to_string).collect();
        assert!(left.is_clean(), "{kind:?}: {findings:#?} {:?}", repaired.rules());
        let after = Shape::of(&*repaired.device);
        assert_eq!(after.links(), before.links(), "{kind:?}");
        let mode = after.inodes.get(&inode.number.0).expect("the inode is in use").mode;
        assert_eq!(mode >> 12, inode.mode >> 12);
        if inode.data_format == ForkFormat::Extents {
            assert_eq!(volume.extents_of(&*repaired.device, inode.number), target, "{kind:?}");
        }
        assert!(repaired.inodes_with_losses().contains(&inode.number), "{kind:?}");
    }
    assert!(kinds.len() >= 4, "{kinds:?}");
}
