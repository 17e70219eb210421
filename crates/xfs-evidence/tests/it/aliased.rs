//! Tests of blocks that a fork maps many times, or that several forks map.

use xfs_evidence::{Damage, Evidence, ForkEvidence, InodeEvidence};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind};
use xfs_format::{FileBlock, Geometry};
use xfs_testkit::golden;

use crate::support::{superblock, used_inodes};

/// Returns a directory of the golden image that has data blocks, and the map of its data fork.
fn directory_with_blocks(evidence: &Evidence<'_>) -> (InodeEvidence, ForkEvidence) {
    let mut found = used_inodes(evidence).into_iter().map(|number| evidence.inode(number));
    let inode = found.find(|inode| {
        let core = inode.core().expect("the golden image is sound");
        core.file_type() == Some(FileType::Directory) && core.data_format == ForkFormat::Extents
    });
    let inode = inode.expect("the golden image has a directory with blocks");
    let map = evidence.extents(&inode, ForkKind::Data);
    (inode, map)
}

/// Returns a map of `count` directory blocks that all point to the same disk blocks: the first
/// blocks of `map`.
fn aliased(map: &ForkEvidence, geometry: &Geometry, count: u64) -> ForkEvidence {
    let length_blocks = 1_u32 << geometry.directory_block_log;
    let first = map.extents.first().expect("the directory has blocks");
    let at = |index: u64| FileBlock(index * u64::from(length_blocks));
    let extents = (0..count).map(|index| Extent { file_block: at(index), length_blocks, ..*first });
    ForkEvidence { extents: extents.collect(), ..ForkEvidence::default() }
}

#[test]
fn directory_block_that_is_mapped_many_times_is_read_once() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let (inode, map) = directory_with_blocks(&evidence);
    let once = evidence.entries_by_map(&inode, aliased(&map, evidence.geometry(), 1));
    let often = evidence.entries_by_map(&inode, aliased(&map, evidence.geometry(), 1000));
    assert!(!once.names.is_empty());
    assert_eq!(often.names, once.names);
    assert_eq!(often.missing.len(), 1, "the missing ranges are joined");
    let is_repeated = |damage: &Damage| matches!(damage, Damage::Repeated { .. });
    assert_eq!(often.damages.iter().filter(|damage| is_repeated(damage)).count(), 999);
}

#[test]
fn directories_that_map_the_same_blocks_end_when_the_budget_of_the_volume_is_spent() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let (inode, map) = directory_with_blocks(&evidence);
    let hostile = aliased(&map, evidence.geometry(), 530_000);
    let _ = evidence.entries_by_map(&inode, hostile.clone());
    let last = evidence.entries_by_map(&inode, hostile);
    assert!(last.damages.contains(&Damage::OverBudget { budget: 64 }));
    // A sound directory is still read whole.
    assert!(evidence.entries(&inode).is_whole());
}
