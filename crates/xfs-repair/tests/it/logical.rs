//! Tests of damage to directories, attributes and parent pointers, and of its repair without loss.
//!
//! Each test damages a copy of the golden image, repairs it, and compares all names and attributes
//! of the repaired volume with those of the sound one.

use std::collections::BTreeSet;

use xfs_evidence::{Evidence, InodeState};
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{BlockKind, DiskAddr, FileBlock, InodeNumber};
use xfs_testkit::Prng;

use crate::trial::{Shape, Trial, superblock_of};
use crate::volume::{Repaired, TestVolume};

/// Zeroes the first filesystem block of a section of a directory (its data, hash index or free
/// index), and asserts that the repair loses nothing.
fn check_zeroed_directory_block(path: &str, section: u64) {
    let trial = Trial::new();
    let block = trial.volume.geometry.file_block(section);
    trial.zero_block(trial.inode(path), ForkKind::Data, block);
    let repaired = trial.assert_whole();
    assert!(repaired.rules().contains(&"directory"), "{:?}", repaired.rules());
}

const INDEX: u64 = xfs_format::directory::INDEX_OFFSET;
const FREE: u64 = xfs_format::directory::FREE_OFFSET;

#[test]
fn first_data_block_zeroed_is_rebuilt_from_parent_pointers() {
    for path in ["/block", "/leaf", "/node"] {
        check_zeroed_directory_block(path, 0);
    }
}

#[test]
fn later_data_block_zeroed_is_rebuilt_from_parent_pointers() {
    let trial = Trial::new();
    let directory = trial.inode("/node");
    let step = 1_u64 << trial.volume.geometry.directory_block_log;
    trial.zero_block(directory, ForkKind::Data, FileBlock(2 * step));
    trial.zero_block(directory, ForkKind::Data, FileBlock(3 * step));
    trial.assert_whole();
}

#[test]
fn hash_index_zeroed_is_rebuilt() {
    check_zeroed_directory_block("/leaf", INDEX);
    check_zeroed_directory_block("/node", INDEX);
}

#[test]
fn free_space_index_zeroed_is_rebuilt() {
    check_zeroed_directory_block("/node", FREE);
}

#[test]
fn bit_of_an_index_entry_flipped_in_a_block_directory_keeps_all_names() {
    let trial = Trial::new();
    let at = trial.place(trial.inode("/block"), ForkKind::Data, FileBlock(0));
    let length = trial.volume.geometry.directory_block_size() as usize;
    let mut bytes = trial.volume.bytes(at, length);
    // The last index entry lies before the tail of 8 bytes.
    *bytes.get_mut(length - 16).unwrap() ^= 0x10;
    BlockKind::DirectoryData.seal(&mut bytes, xfs_format::Lsn(0));
    trial.volume.put(at, &bytes);
    trial.assert_whole();
}

/// The map of a directory leads to one block twice: the extent of its first data block has the
/// address of its index, or the index that of the data block.
#[test]
fn directory_that_maps_a_block_twice_keeps_all_names() {
    let trial = Trial::new();
    let directory = trial.inode("/leaf");
    let index = trial.volume.geometry.file_block(INDEX);
    let found = trial.extents(directory, ForkKind::Data);
    let first = found.iter().find(|extent| extent.file_block == FileBlock(0)).unwrap();
    let index = found.iter().find(|extent| extent.file_block == index).unwrap();
    for (from, to) in [(first, index), (index, first)] {
        let trial = Trial::new();
        let moved = Extent { start: to.start, ..*from };
        trial.edit_inline(directory, &encoded(from), &encoded(&moved));
        trial.assert_whole();
    }
}

fn encoded(extent: &Extent) -> Vec<u8> {
    zerocopy::IntoBytes::as_bytes(&extent.encode().expect("the image has it")).to_vec()
}

#[test]
fn root_inode_zeroed_keeps_all_names_in_place() {
    let trial = Trial::new();
    let root = trial.root();
    trial.zero_inode(root);
    let repaired = trial.assert_names(&[root]);
    assert_eq!(mode_of(&repaired, root), 0o40755);
}

#[test]
fn directory_inode_zeroed_is_made_again_in_its_place() {
    for path in ["/short", "/node", "/deep/1/2"] {
        let trial = Trial::new();
        let directory = trial.inode(path);
        trial.zero_inode(directory);
        let repaired = trial.assert_names(&[directory]);
        assert!(repaired.rules().contains(&"directory-inode"), "{:?}", repaired.rules());
        // Nothing states the mode any more, so only the owner gets in.
        assert_eq!(mode_of(&repaired, directory), 0o40700);
    }
}

fn mode_of(repaired: &Repaired, inode: InodeNumber) -> u16 {
    let shape = Shape::of(&*repaired.device);
    shape.inodes.get(&inode.0).expect("the inode is there").mode
}

#[test]
fn directory_inode_zeroed_waits_for_losses() {
    for path in ["", "/short", "/node"] {
        let trial = Trial::new();
        let directory = if path.is_empty() { trial.root() } else { trial.inode(path) };
        trial.zero_inode(directory);
        let kept = trial.volume.repair(false);
        assert!(kept.rules().is_empty(), "{path}: {:?}", kept.rules());
        let is_left = |finding: &&xfs_check::Finding| finding.place.inode == Some(directory);
        assert!(kept.rehearsed.report.findings.iter().any(|finding| is_left(&finding)), "{path}");
    }
}

/// Zeroes all inodes. The root that a repair creates must not take fields of another inode, since
/// none can be read.
#[test]
fn volume_without_a_readable_inode_gets_an_empty_root() {
    let trial = Trial::new();
    for inode in TestVolume::inodes(|_| true) {
        trial.zero_inode(inode.number);
    }
    let kept = trial.volume.repair(false);
    assert!(!kept.rules().contains(&"directory-inode"), "{:?}", kept.rules());
    let repaired = trial.volume.repair(true);
    assert_eq!(mode_of(&repaired, trial.root()), 0o40755);
}

#[test]
fn short_form_garbage_is_rebuilt_from_parent_pointers() {
    let trial = Trial::new();
    // The name of `ccc` becomes one with a slash.
    trial.edit_inline(trial.inode("/short"), b"ccc", b"c/c");
    trial.assert_whole();
}

#[test]
fn wrong_link_count_is_corrected() {
    let trial = Trial::new();
    trial.edit_core(trial.inode("/short/bb"), |core| core.nlink += 3);
    trial.edit_core(trial.inode("/deep"), |core| core.nlink = 9);
    let repaired = trial.assert_whole();
    assert!(repaired.rules().contains(&"links"), "{:?}", repaired.rules());
}

#[test]
fn wrong_generation_of_a_directory_is_corrected() {
    let trial = Trial::new();
    trial.edit_core(trial.inode("/short"), |core| core.generation ^= 0x55);
    trial.assert_whole();
}

#[test]
fn wrong_type_byte_is_corrected() {
    let trial = Trial::new();
    // The type byte follows the name. Type 5 is a pipe.
    trial.edit_inline(trial.inode("/short"), b"ccc\x01", b"ccc\x05");
    trial.assert_whole();
}

#[test]
fn wrong_parent_of_a_short_form_is_corrected() {
    let trial = Trial::new();
    let directory = trial.inode("/deep/1/2/3");
    let parent = u32::try_from(trial.inode("/deep/1/2").0).unwrap().to_be_bytes();
    let other = u32::try_from(trial.root().0).unwrap().to_be_bytes();
    trial.edit_inline(directory, &parent, &other);
    trial.assert_whole();
}

#[test]
fn entry_to_another_inode_is_corrected_by_the_parent_pointer() {
    let trial = Trial::new();
    let child = u32::try_from(trial.inode("/short/ccc").0).unwrap().to_be_bytes();
    let other = u32::try_from(trial.inode("/short/bb").0).unwrap().to_be_bytes();
    let (mut from, mut to) = (b"ccc\x01".to_vec(), b"ccc\x01".to_vec());
    from.extend(child);
    to.extend(other);
    trial.edit_inline(trial.inode("/short"), &from, &to);
    trial.assert_whole();
}

#[test]
fn parent_pointer_with_another_name_or_generation_is_written_again() {
    for (from, to) in [(b"ccc".as_slice(), b"cxc".as_slice()), (b"ccc\0", b"ccc\x01")] {
        let trial = Trial::new();
        trial.edit_inline(trial.inode("/short/ccc"), from, to);
        trial.assert_whole();
    }
}

/// Returns the first inode, in the order of paths, whose attribute fork has at least `blocks`
/// blocks.
fn with_attribute_blocks(trial: &Trial, blocks: u64) -> (String, InodeNumber) {
    let count = |inode: InodeNumber| -> u64 {
        let extents = trial.extents(inode, ForkKind::Attr);
        extents.iter().map(|extent| u64::from(extent.length_blocks)).sum()
    };
    let mut paths = trial.before.paths.iter();
    let found = paths.find(|(_, inode)| count(InodeNumber(**inode)) >= blocks);
    let (path, inode) = found.expect("the image has such an inode");
    (path.clone(), InodeNumber(*inode))
}

#[test]
fn attribute_node_zeroed_keeps_all_attributes() {
    let trial = Trial::new();
    let (path, inode) = with_attribute_blocks(&trial, 4);
    trial.zero_block(inode, ForkKind::Attr, FileBlock(0));
    let repaired = trial.assert_whole();
    assert!(repaired.rules().contains(&"attributes"), "{path}: {:?}", repaired.rules());
}

#[test]
fn leaf_of_attributes_with_a_wrong_counter_keeps_all_attributes() {
    let trial = Trial::new();
    let (_, inode) = with_attribute_blocks(&trial, 1);
    let extents = trial.extents(inode, ForkKind::Attr);
    let blocks = extents.iter().flat_map(|extent| extent.file_block.0..extent.end().0);
    for block in blocks.map(FileBlock) {
        let at = trial.place(inode, ForkKind::Attr, block);
        let bytes = trial.volume.bytes(at, trial.volume.geometry.block_size as usize);
        let magic = xfs_format::dabtree::magic(&bytes);
        if magic == Some(xfs_format::attr::leaf::LEAF_MAGIC) {
            // The number of used bytes stands at byte 58.
            trial.volume.edit(at, BlockKind::Attr, |bytes| *bytes.get_mut(59).unwrap() ^= 4);
        }
    }
    let repaired = trial.assert_whole();
    assert!(repaired.rules().contains(&"attributes"), "{:?}", repaired.rules());
}

#[test]
fn inode_with_neither_name_nor_parent_pointer_goes_to_lost_and_found() {
    let trial = Trial::new();
    let (directory, file) = (trial.inode("/short"), trial.inode("/short/ccc"));
    // Entry and parent pointer get different names in directories that do not exist.
    trial.zero_inode(directory);
    trial.edit_core(file, |core| {
        core.attr_format = xfs_format::inode::ForkFormat::Extents;
        core.attr_extents = 0;
    });
    let repaired = trial.volume.repair(true);
    let report = crate::volume::report(&*repaired.device);
    assert!(report.is_clean(), "{:#?}", report.findings);
    let after = Shape::of(&*repaired.device);
    let place = format!("/lost+found/{}", file.0);
    assert_eq!(after.paths.get(&place), Some(&file.0), "{:?}", after.paths);
    assert_eq!(after.paths.get("/short/bb"), trial.before.paths.get("/short/bb"));
}

#[test]
fn entry_to_a_free_inode_goes_only_if_losses_are_allowed() {
    let trial = Trial::new();
    let directory = trial.inode("/short");
    let child = u32::try_from(trial.inode("/short/ccc").0).unwrap().to_be_bytes();
    // A free inode between those of the directory `many` takes the place of the file.
    let superblock = superblock_of(&*trial.volume.device);
    let evidence = Evidence::new(&*trial.volume.device, &superblock);
    let first = trial.inode("/many/2").0;
    let is_free =
        |number: &u64| matches!(evidence.inode(InodeNumber(*number)).state, InodeState::Free(_));
    let free = InodeNumber((first..).find(is_free).unwrap());
    let (mut from, mut to) = (b"ccc\x01".to_vec(), b"xyz\x01".to_vec());
    from.extend(child);
    to.extend(u32::try_from(free.0).unwrap().to_be_bytes());
    trial.edit_inline(directory, &from, &to);
    let kept = trial.volume.repair(false);
    assert_eq!(Shape::of(&*kept.device).paths.get("/short/xyz"), Some(&free.0));
    let repaired = trial.volume.repair(true);
    let report = crate::volume::report(&*repaired.device);
    assert!(report.is_clean(), "{:#?}", report.findings);
    let after = Shape::of(&*repaired.device);
    assert_eq!(after.paths.get("/short/xyz"), None);
    // The file itself comes back under its own name.
    assert_eq!(after.paths, trial.before.paths);
}

/// Zeroes the first block of a directory, and the attribute blocks of a file, which may have held a
/// parent pointer to it. Asserts that a repair without permission for losses leaves the directory
/// as it is, and that a repair with it lists the block as lost.
#[test]
fn directory_block_waits_for_losses_if_a_parent_pointer_may_be_lost_too() {
    let trial = Trial::new();
    let (_, file) = with_attribute_blocks(&trial, 1);
    let directory = trial.inode("/leaf");
    let at = trial.place(directory, ForkKind::Data, FileBlock(0)).0 * 512;
    trial.zero_block(directory, ForkKind::Data, FileBlock(0));
    for extent in trial.extents(file, ForkKind::Attr) {
        for block in extent.file_block.0..extent.end().0 {
            trial.zero_block(file, ForkKind::Attr, FileBlock(block));
        }
    }
    let kept = trial.volume.repair(false);
    assert!(kept.rules().is_empty(), "{:?}", kept.rules());
    let is_of_directory = |finding: &&xfs_check::Finding| finding.place.inode == Some(directory);
    assert!(kept.rehearsed.report.findings.iter().any(|finding| is_of_directory(&finding)));

    let repaired = trial.volume.repair(true);
    let actions = &repaired.rehearsed.actions;
    let written = actions.iter().find(|action| action.rule == "directory");
    let lost = &written.expect("the directory is written").loses;
    let block = trial.volume.geometry.directory_block_size();
    let ranges: Vec<_> = lost.iter().flat_map(|loss| loss.ranges.clone()).collect();
    assert_eq!((ranges.len(), ranges.first()), (1, Some(&(at..at + u64::from(block)))), "{lost:?}");
}

#[test]
fn start_of_the_volume_zeroed_keeps_each_name_whose_inode_survives() {
    let trial = Trial::new();
    let geometry = trial.volume.geometry.clone();
    // The headers and btrees of group 0, and the chunk of the root directory.
    let root = trial.inode_place(trial.root());
    let chunk_end = root.0 * 512 + u64::from(geometry.inode_size) * 64;
    trial.volume.zero(DiskAddr(0), usize::try_from(chunk_end).unwrap());
    let lost = |inode: u64| {
        let place = trial.inode_place(InodeNumber(inode));
        place.0 * 512 < chunk_end
    };
    let repaired = trial.volume.repair(true);
    let report = crate::volume::report(&*repaired.device);
    assert!(report.is_clean(), "{:#?}\n{:?}", report.findings, repaired.rules());
    Trial::judge(&repaired);
    let after = Shape::of(&*repaired.device).links();
    // The name of an inode that is gone, in a directory that is gone, stands nowhere any more.
    let kept: BTreeSet<_> = trial.before.links().into_iter().filter(|link| !lost(link.2)).collect();
    assert!(kept.len() > 500, "{}", kept.len());
    let missing: Vec<_> = kept.difference(&after).collect();
    assert!(missing.is_empty(), "{missing:?}\n{:?}", repaired.rules());
}

#[test]
fn symbolic_link_with_a_damaged_header_keeps_its_target() {
    let trial = Trial::new();
    let link = trial.inode("/links-remote");
    let at = trial.place(link, ForkKind::Data, FileBlock(0));
    // The checksum stands at byte 12 of the block.
    let mut bytes = trial.volume.bytes(at, 512);
    *bytes.get_mut(13).unwrap() ^= 0xff;
    trial.volume.put(at, &bytes);
    let repaired = trial.assert_whole();
    assert!(repaired.rules().contains(&"symlink"), "{:?}", repaired.rules());
    let superblock = superblock_of(&*repaired.device);
    let evidence = Evidence::new(&*repaired.device, &superblock);
    let found = evidence.link_target(&evidence.inode(link));
    assert!(found.is_whole && found.target == [b'x'; 1000], "{:?}", found.target);
}

#[test]
fn symbolic_link_without_its_block_keeps_its_name() {
    let trial = Trial::new();
    let link = trial.inode("/links-remote");
    trial.zero_block(link, ForkKind::Data, FileBlock(0));
    let kept = trial.volume.repair(false);
    assert!(kept.rules().is_empty(), "{:?}", kept.rules());
    let repaired = trial.volume.repair(true);
    let report = crate::volume::report(&*repaired.device);
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!(Shape::of(&*repaired.device).paths, trial.before.paths);
}

/// Damages the bytes of a block in one of four ways. Returns a word for the way that `pick` has
/// chosen.
fn damage_bytes(bytes: &mut [u8], pick: &mut impl FnMut(u64) -> u64) -> &'static str {
    match pick(4) {
        0 => {
            bytes.fill(0);
            "zeroed"
        }
        1 => {
            bytes.iter_mut().for_each(|byte| *byte = pick(256) as u8);
            "random"
        }
        2 => {
            let place = pick(bytes.len() as u64) as usize;
            *bytes.get_mut(place).expect("the index was drawn below the length") ^= 1 << pick(8);
            "bit"
        }
        _ => {
            let place = pick(96) as usize;
            *bytes.get_mut(place).expect("the index was drawn below the length") ^= 1 << pick(8);
            "bit near the start"
        }
    }
}

/// Damages one structure of names or attributes as the seed says. Returns its description.
fn seeded_damage(trial: &Trial, seed: u64) -> String {
    let mut random = Prng::new(seed);
    let mut pick = |count: u64| random.number() % count;
    let paths: Vec<_> = trial.before.paths.iter().collect();
    let is_directory = |inode: &u64| {
        trial.before.inodes.get(inode).expect("the index was drawn below the length").mode >> 12
            == 0o4
    };
    let directories: Vec<_> = paths.iter().filter(|(_, inode)| is_directory(inode)).collect();
    let (path, inode, kind) = match pick(3) {
        0 => {
            let (path, inode) = paths
                .get(pick(paths.len() as u64) as usize)
                .expect("the index was drawn below the length");
            (*path, InodeNumber(**inode), ForkKind::Attr)
        }
        _ => {
            let (path, inode) = directories
                .get(pick(directories.len() as u64) as usize)
                .expect("the index was drawn below the length");
            (*path, InodeNumber(**inode), ForkKind::Data)
        }
    };
    let blocks: Vec<FileBlock> = trial
        .extents(inode, kind)
        .iter()
        .flat_map(|extent| (extent.file_block.0..extent.end().0).map(FileBlock))
        .collect();
    let geometry = &trial.volume.geometry;
    if blocks.is_empty() {
        let at = trial.inode_place(inode);
        let mut bytes = trial.volume.bytes(at, geometry.inode_size as usize);
        let core = InodeCore::decode(&bytes, inode, geometry)
            .expect("the index was drawn below the length");
        let start = match kind {
            ForkKind::Data => 176,
            ForkKind::Attr => 176 + u64::from(core.fork_offset) * 8,
        };
        // Bytes after the first few may belong to no entry.
        let place = start + pick(24);
        *bytes.get_mut(place as usize).expect("the index was drawn below the length") ^=
            1 << pick(8);
        xfs_format::inode::seal(&mut bytes, core.lsn);
        trial.volume.put(at, &bytes);
        return format!("seed {seed}: byte {place} of {path} ({inode})");
    }
    let block = *blocks
        .get(pick(blocks.len() as u64) as usize)
        .expect("the index was drawn below the length");
    let at = trial.place(inode, kind, block);
    let length = geometry.block_size as usize;
    let mut bytes = trial.volume.bytes(at, length);
    let verb = damage_bytes(&mut bytes, &mut pick);
    trial.volume.put(at, &bytes);
    format!("seed {seed}: {verb} in {kind:?} block {} of {path} ({inode})", block.0)
}

/// Damages one structure after another on copies of the volume, repairs each, and asserts that the
/// volume is clean and has all its names. The variable `FERROXFS_REPAIR_SEEDS` sets how many
/// damages are tried.
#[test]
fn seeded_damages_to_names_lose_no_name() {
    let count = std::env::var("FERROXFS_REPAIR_SEEDS").ok().and_then(|count| count.parse().ok());
    let mut failures = Vec::new();
    for seed in 0..count.unwrap_or(4) {
        let trial = Trial::new();
        let damage = seeded_damage(&trial, seed);
        let repaired = trial.volume.repair(true);
        let report = crate::volume::report(&*repaired.device);
        let after = Shape::of(&*repaired.device);
        if !report.is_clean() || after.paths != trial.before.paths {
            let gone =
                trial.before.paths.iter().filter(|(path, _)| !after.paths.contains_key(*path));
            let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
            let gone: Vec<_> = gone.collect();
            failures.push(format!("{damage}: {findings:#?} gone {gone:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
