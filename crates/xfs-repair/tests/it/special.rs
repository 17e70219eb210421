//! Tests of destroyed inodes of symbolic links, pipes and devices. Their names survive, and with
//! them their types.

use std::ops::Range;

use xfs_check::Code;
use xfs_evidence::Evidence;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind, InodeCore};
use xfs_format::{FileBlock, InodeNumber};

use crate::trial::{Shape, Trial, superblock_of};
use crate::volume::{Repaired, TestVolume, report};

/// Destroys the inode of a path and repairs the volume. Asserts that all names are in their places,
/// that the inode has its type, and that the loss is listed.
fn check_destroyed(path: &str) -> (Trial, Repaired) {
    let trial = Trial::new();
    let inode = trial.inode(path);
    trial.zero_inode(inode);
    let held = trial.volume.repair(false);
    assert!(!report(&*held.device).is_clean(), "{path}: a loss needs a permission");
    let repaired = trial.volume.repair(true);
    let left = report(&*repaired.device);
    assert!(left.is_clean(), "{path}: {:#?} {:?}", left.findings, repaired.rules());
    let after = Shape::of(&*repaired.device);
    assert_eq!(after.paths, trial.before.paths, "{path}: {:?}", repaired.rules());
    let type_of = |shape: &Shape| shape.inodes.get(&inode.0).map(|seen| seen.mode >> 12);
    assert_eq!(type_of(&after), type_of(&trial.before), "{path}");
    assert!(repaired.inodes_with_losses().contains(&inode), "{path}");
    Trial::judge(&repaired);
    (trial, repaired)
}

/// Returns the target of a link on a repaired volume.
fn target(repaired: &Repaired, link: InodeNumber) -> Vec<u8> {
    let superblock = superblock_of(&*repaired.device);
    let evidence = Evidence::new(&*repaired.device, &superblock);
    let target = evidence.link_target(&evidence.inode(link));
    assert!(target.is_whole, "{:?}", target.damages);
    target.target
}

#[test]
fn destroyed_inode_of_a_pipe_keeps_its_name() {
    check_destroyed("/fifo");
}

#[test]
fn destroyed_inode_of_a_device_keeps_its_name() {
    for path in ["/null", "/disk"] {
        check_destroyed(path);
    }
}

#[test]
fn destroyed_inode_of_a_link_keeps_a_target_in_blocks() {
    let (trial, repaired) = check_destroyed("/links-remote");
    assert_eq!(target(&repaired, trial.inode("/links-remote")), vec![b'x'; 1000]);
}

#[test]
fn destroyed_inode_of_a_short_link_keeps_its_name() {
    let (trial, repaired) = check_destroyed("/links-inline");
    assert_eq!(target(&repaired, trial.inode("/links-inline")), b"target-lost");
}

/// Returns the byte ranges of all losses of an inode.
fn lost_ranges(repaired: &Repaired, inode: InodeNumber) -> Vec<Range<u64>> {
    let losses = repaired.rehearsed.actions.iter().flat_map(|action| &action.loses);
    losses.filter(|loss| loss.inode == Some(inode)).flat_map(|loss| loss.ranges.clone()).collect()
}

/// Asserts that each block of `before` that the fork has no longer is in a loss of the inode.
fn assert_kept_aside(trial: &Trial, repaired: &Repaired, before: &[Extent], inode: InodeNumber) {
    let superblock = superblock_of(&*repaired.device);
    let evidence = Evidence::new(&*repaired.device, &superblock);
    let after = evidence.extents(&evidence.inode(inode), ForkKind::Attr).extents;
    let after = after
        .iter()
        .chain(&evidence.extents(&evidence.inode(inode), ForkKind::Data).extents)
        .copied()
        .collect::<Vec<_>>();
    let ranges = lost_ranges(repaired, inode);
    let mut count = 0;
    for extent in before {
        for block in extent.start.0..extent.start.0 + u64::from(extent.length_blocks) {
            let has = |other: &Extent| {
                (other.start.0..other.start.0 + u64::from(other.length_blocks)).contains(&block)
            };
            if after.iter().any(has) {
                continue;
            }
            let at = trial.volume.geometry.block_disk_addr(xfs_format::FsBlock(block));
            let byte = at.expect("the block lies in the volume").0 * 512;
            assert!(ranges.iter().any(|range| range.contains(&byte)), "block {block}: {ranges:?}");
            count += 1;
        }
    }
    assert!(count > 0, "no block was freed");
}

#[test]
fn values_of_lost_attributes_are_listed_with_their_bytes() {
    let trial = Trial::new();
    let inode = trial.inode("/attr-remote");
    let before = trial.extents(inode, ForkKind::Attr);
    trial.zero_block(inode, ForkKind::Attr, FileBlock(0));
    let repaired = trial.volume.repair(true);
    assert!(report(&*repaired.device).is_clean(), "{:?}", repaired.rules());
    assert_kept_aside(&trial, &repaired, &before, inode);
}

#[test]
fn block_of_a_lost_target_is_listed_with_its_bytes() {
    let trial = Trial::new();
    let inode = trial.inode("/links-remote");
    let before = trial.extents(inode, ForkKind::Data);
    trial.zero_block(inode, ForkKind::Data, FileBlock(0));
    let repaired = trial.volume.repair(true);
    assert!(report(&*repaired.device).is_clean(), "{:?}", repaired.rules());
    assert_kept_aside(&trial, &repaired, &before, inode);
}

/// Sets bytes of each of `inodes`, with a right checksum, and asserts that the check finds `code`
/// and that a repair without losses leaves no finding.
fn check_possible(inodes: &[InodeCore], code: Code, at: Range<usize>, value: &[u8]) {
    assert!(!inodes.is_empty(), "{code:?}: the image has no such inode");
    for inode in inodes {
        let volume = TestVolume::golden();
        volume.edit_inode(inode, |bytes| bytes[at.clone()].copy_from_slice(value));
        let found = report(&*volume.device);
        assert!(
            found.findings.iter().any(|f| f.code == code),
            "{}: {:?}",
            inode.number,
            found.findings
        );
        volume.repair(false).assert_clean();
    }
}

#[test]
fn size_of_a_file_without_contents_becomes_zero() {
    let special = TestVolume::inodes(|core| {
        !matches!(
            core.file_type(),
            Some(FileType::Regular | FileType::Directory | FileType::Symlink)
        )
    });
    check_possible(&special, Code::InodeSize, 56..64, &[0, 0, 0, 0, 0, 0, 0, 5]);
}

#[test]
fn format_of_an_attribute_fork_that_does_not_exist_becomes_that_of_extents() {
    let without = TestVolume::inodes(|core| !core.has_attr_fork());
    let few = without.get(..without.len().min(2)).unwrap();
    check_possible(few, Code::InodeFormat, 83..84, &[0]);
}

/// Returns a regular file of the golden image with at least two blocks in its inode's map.
fn file() -> InodeCore {
    let volume = TestVolume::golden();
    let files = TestVolume::inodes(|core| core.file_type() == Some(FileType::Regular));
    let has_blocks = |core: &InodeCore| {
        volume.extents_of(&*volume.device, core.number).iter().any(|extent| !extent.unwritten)
    };
    files.into_iter().find(|core| core.nlink > 0 && has_blocks(core)).expect("a file with blocks")
}

#[test]
fn garbled_inode_gives_no_rights_and_cuts_off_nothing() {
    let file = file();
    let volume = TestVolume::golden();
    let at = volume.inode_at(file.number);
    let mut bytes = volume.bytes(at, volume.geometry.inode_size as usize);
    bytes[2..4].copy_from_slice(&[0x8f, 0xff]);
    bytes[8..12].copy_from_slice(&[0, 0, 0x77, 1]);
    bytes[32..40].fill(0xff);
    bytes[56..64].copy_from_slice(&[0; 8]);
    volume.put(at, &bytes);
    assert!(!report(&*volume.device).is_clean());
    let repaired = volume.repair(false);
    repaired.assert_clean();
    let mut bytes = vec![0; bytes.len()];
    repaired.device.read_at(&mut bytes, at.0 * 512).expect("the inode can be read");
    let core = InodeCore::decode(&bytes, file.number, &volume.geometry).expect("an inode");
    assert_eq!(core.mode, 0o101_777, "the set-user-ID bits are gone");
    assert!(core.access_time.seconds() < 4_000_000_000, "{:?}", core.access_time);
    assert!(core.size >= file.size, "{} {}", core.size, file.size);
    let actions = &repaired.rehearsed.actions;
    let said = actions.iter().find(|action| action.rule == "inode").expect("the rule acts");
    assert!(said.keeps.contains("may be wrong"), "{}", said.keeps);
    assert!(said.keeps.contains("set-user-ID"), "{}", said.keeps);
    assert!(said.keeps.contains("the size is"), "{}", said.keeps);
}
