//! Tests that everything on a volume without damage is found, and is reported as sound and whole.

use std::collections::BTreeSet;

use xfs_evidence::{Evidence, FoundBlock, FoundValue, Trust, sweep};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{DiskAddr, InodeNumber};
use xfs_testkit::golden;

use crate::support::{lookup, names, superblock, used_inodes};

#[test]
fn whole_volume_gives_no_damage() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let numbers = used_inodes(&evidence);
    assert!(numbers.len() > 700, "{}", numbers.len());
    let (mut entries, mut parents) = (0, 0);
    for number in numbers {
        let inode = evidence.inode(number);
        assert!(inode.is_sound(), "{number}: {:?}", inode.state);
        let core = inode.core().unwrap();
        let data = evidence.extents(&inode, ForkKind::Data);
        assert!(data.is_whole(), "{number}: {:?}", data.damages);
        let attributes = evidence.attributes(&inode);
        assert!(attributes.is_whole(), "{number}: {:?}", attributes.damages);
        parents += attributes.parents.len();
        match core.file_type().unwrap() {
            FileType::Directory => {
                let directory = evidence.entries(&inode);
                assert!(directory.is_whole(), "{number}: {:?}", directory.damages);
                assert!(directory.parent.is_some(), "{number}");
                entries += directory.names.len();
            }
            FileType::Symlink => assert!(evidence.link_target(&inode).is_whole),
            _ => {}
        }
    }
    assert_eq!(entries, parents, "each name has a parent pointer");
    assert!(evidence.unread().is_empty());
}

#[test]
fn directory_of_each_form_gives_its_names() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    for (path, count) in [("short", 4), ("block", 60), ("leaf", 200), ("node", 800)] {
        let found = names(&evidence, &lookup(&evidence, path));
        assert_eq!(found.len(), count, "{path}");
        assert!(found.values().all(|(_, _, trust)| *trust == Trust::Sound), "{path}");
    }
}

#[test]
fn attribute_values_and_link_targets_are_read_whole() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let attributes = |path| evidence.attributes(&lookup(&evidence, path)).attributes;
    assert_eq!(attributes("attr-leaf").len(), 12);
    assert_eq!(attributes("attr-node").len(), 120);
    let remote = attributes("attr-remote");
    assert_eq!(remote[0].value, FoundValue::Whole(vec![b'v'; 3000]));
    assert_eq!(evidence.link_target(&lookup(&evidence, "links-remote")).target, [b'x'; 1000]);
    assert_eq!(evidence.link_target(&lookup(&evidence, "links-inline")).target, b"target");
}

#[test]
fn sweep_sees_every_inode_and_every_tree_block() {
    let image = golden();
    let superblock = superblock(&image);
    let evidence = Evidence::new(&image, &superblock);
    let (mut inodes, mut blocks) = (BTreeSet::new(), BTreeSet::new());
    let outcome = sweep(&evidence, 0..2, &(), &mut |sighting, _| {
        match sighting.what {
            FoundBlock::Inode { is_free: false } => inodes.insert(InodeNumber(sighting.owner)),
            _ => blocks.insert(sighting.at),
        };
    });
    assert_eq!(outcome.read_bytes, superblock.geometry.data_bytes());
    let used = used_inodes(&evidence);
    assert!(used.iter().all(|number| inodes.contains(number)));
    for number in used {
        let inode = evidence.inode(number);
        let map = evidence.extents(&inode, ForkKind::Data);
        for block in map.tree_blocks {
            let at: DiskAddr = superblock.geometry.block_disk_addr(block).unwrap();
            assert!(blocks.contains(&at));
        }
    }
}
