//! Tests that read the remains of deleted names and freed inodes.

use std::collections::BTreeSet;

use xfs_evidence::{Evidence, Trust};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, DiskAddr, FsBlock};
use xfs_testkit::{Image, golden};

use crate::support::{lookup, names, superblock};

/// Makes an inode free as the kernel does: the core is cleared, and the bytes of the forks stay.
fn free(image: &mut Image, path: &str) {
    let superblock = superblock(image);
    let number = lookup(&Evidence::new(image, &superblock), path).number;
    let place = superblock.geometry.inode_location(number).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    image.edit(at, 512, BlockKind::InodeCluster, |inode| {
        let format = 2;
        inode[2..4].fill(0);
        inode[5] = format;
        inode[16..20].fill(0);
        // Extent counts, size, blocks, and the place and format of the attribute fork.
        inode[24..32].fill(0);
        inode[56..72].fill(0);
        inode[76..84].fill(0);
        inode[83] = format;
        // Flags.
        inode[90..92].fill(0);
        inode[120..128].copy_from_slice(&0x18_u64.to_be_bytes());
    });
}

#[test]
fn names_that_were_removed_are_found_in_free_space() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let directory = lookup(&evidence, "node");
    let target = lookup(&evidence, "short/bb").number;
    let live = names(&evidence, &directory);
    let map = evidence.entries(&directory).map;
    let mut found = BTreeSet::new();
    for extent in &map.extents {
        for block in (0..u64::from(extent.length_blocks)).step_by(4) {
            let at = superblock.geometry.block_disk_addr(FsBlock(extent.start.0 + block)).unwrap();
            for name in evidence.deleted_names(at) {
                assert_eq!(name.trust, Trust::Doubtful);
                assert_eq!(name.child, target);
                assert!(!live.contains_key(&*name.name), "{:?}", name.name);
                found.insert(name.name);
            }
        }
    }
    // 400 names were removed; later names have taken no space in this directory.
    assert!(found.len() >= 390, "{}", found.len());
}

#[test]
fn freed_inode_keeps_its_extents_and_its_parent_pointer() {
    let mut image = golden();
    let superblock = superblock(&image);
    let whole = {
        let evidence = Evidence::new(&image, &superblock);
        evidence.extents(&lookup(&evidence, "files/unwritten"), ForkKind::Data)
    };
    let (number, parent) = {
        let evidence = Evidence::new(&image, &superblock);
        (lookup(&evidence, "files/unwritten").number, lookup(&evidence, "files").number)
    };
    free(&mut image, "files/unwritten");
    let evidence = Evidence::new(&image, &superblock);
    let inode = evidence.inode(number);
    assert!(inode.core().is_none(), "{:?}", inode.state);
    assert!(inode.any_core().is_some(), "{:?}", inode.state);
    assert_eq!(evidence.remains(&inode, ForkKind::Data).extents, whole.extents);
    let parents = evidence.parents_left(&inode);
    let found: Vec<_> = parents.iter().map(|found| (found.parent, &*found.name)).collect();
    assert_eq!(found, [(parent, b"unwritten".as_slice())]);
}

#[test]
fn freed_inode_with_an_extent_btree_keeps_what_its_leaves_hold() {
    let mut image = golden();
    let superblock = superblock(&image);
    let (number, whole) = {
        let evidence = Evidence::new(&image, &superblock);
        let inode = lookup(&evidence, "files/tree");
        (inode.number, evidence.extents(&inode, ForkKind::Data))
    };
    // The root depends on the length of the fork, so the place of the attribute fork stays.
    let place = superblock.geometry.inode_location(number).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    image.edit(at, 512, BlockKind::InodeCluster, |inode| inode[2..4].fill(0));
    let evidence = Evidence::new(&image, &superblock);
    let left = evidence.remains(&evidence.inode(number), ForkKind::Data);
    assert_eq!(left.extents, whole.extents);
}
