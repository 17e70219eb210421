//! Tests that build attribute forks in each form, decode them again, and compare the attributes.

use std::collections::BTreeSet;

use xfs_device::BlockDevice;
use xfs_format::attr::{AttrLeaf, AttrShortForm, Namespace};
use xfs_format::dabtree::DaNode;
use xfs_format::kind::VerifyContext;
use xfs_format::{DiskAddr, FileBlock, Geometry, InodeNumber, Lsn, StructureAddress, Superblock};

use super::{AttributeForm, AttributeOwner, NewAttribute, build};

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(131));

fn golden_geometry() -> Geometry {
    let mut sector = [0; 512];
    xfs_testkit::golden().read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn attributes(count: usize) -> Vec<NewAttribute> {
    let attribute = |number: usize| NewAttribute {
        namespace: Namespace::User,
        name: format!("attribute {number}").into_bytes(),
        value: vec![b'v'; number % 60],
    };
    let parent = NewAttribute::parent(b"a name", InodeNumber(128), 7);
    (0..count).map(attribute).chain([parent]).collect()
}

/// Builds a fork with `attributes`. Verifies each of its blocks at a disk address of its own, and
/// compares the attributes in all leaves with `attributes`. Returns the block numbers of the fork,
/// and how many of these blocks are nodes.
fn check_fork(attributes: &[NewAttribute]) -> (Vec<u64>, usize) {
    let geometry = golden_geometry();
    let owner = AttributeOwner { number: InodeNumber(131), room: 100 };
    let Some(AttributeForm::Blocks(blocks)) = build(attributes, owner, &geometry) else {
        panic!("the attributes do not fit an inode")
    };
    let context = VerifyContext { geometry: &geometry, log_head: None };
    let (mut found, mut nodes) = (BTreeSet::new(), 0);
    let places = blocks.tree.iter().map(|block| block.file_block.0).collect();
    for (number, block) in blocks.tree.into_iter().enumerate() {
        let (at, kind) = (DiskAddr(80_000 + number as u64 * 8), block.kind);
        let bytes = block.sealed(at, Lsn(0));
        kind.verify(&bytes, at, &context).unwrap();
        if DaNode::decode(&bytes, PLACE).is_ok() {
            nodes += 1;
            continue;
        }
        let leaf = AttrLeaf::decode(&bytes, PLACE).unwrap();
        found.extend(leaf.entries().map(|entry| entry.unwrap().name.to_vec()));
    }
    let expected: BTreeSet<_> = attributes.iter().map(|attribute| attribute.name.clone()).collect();
    assert_eq!(found, expected);
    (places, nodes)
}

#[test]
fn few_attributes_give_the_short_form() {
    let owner = AttributeOwner { number: InodeNumber(131), room: 100 };
    let list = attributes(2);
    let Some(AttributeForm::Short(bytes)) = build(&list, owner, &golden_geometry()) else {
        panic!("three attributes fit an inode")
    };
    let form = AttrShortForm::decode(&bytes, PLACE).unwrap();
    form.verify().unwrap();
    assert_eq!(form.count(), 3);
}

#[test]
fn more_attributes_give_one_leaf_and_then_nodes() {
    assert_eq!(check_fork(&attributes(20)), (vec![0], 0));
    let (places, nodes) = check_fork(&attributes(1000));
    assert!(places.len() > 10 && nodes == 1, "{places:?} {nodes}");
}

#[test]
fn long_value_has_blocks_between_the_root_and_the_leaves() {
    let mut list = attributes(400);
    let value: Vec<u8> = (0..9000_u32).map(|number| number as u8).collect();
    let name = b"large".to_vec();
    list.push(NewAttribute { namespace: Namespace::User, name, value: value.clone() });
    let (places, _) = check_fork(&list);
    // Ten blocks of 1 KiB hold the value.
    assert!(places.starts_with(&[0, 11, 12]), "{places:?}");
    let owner = AttributeOwner { number: InodeNumber(131), room: 100 };
    let Some(AttributeForm::Blocks(blocks)) = build(&list, owner, &golden_geometry()) else {
        panic!("the attributes do not fit an inode")
    };
    let parts: Vec<u8> = blocks.values.iter().flat_map(|part| part.part.clone()).collect();
    assert_eq!(parts, value);
    assert_eq!(blocks.values.first().map(|part| part.file_block), Some(FileBlock(1)));
}

/// Checks I1 of `attributes` (the order in the list does not matter). Builds a fork from a list and
/// from the reversed list, and compares the bytes.
#[test]
fn order_of_the_list_does_not_change_the_fork() {
    let owner = AttributeOwner { number: InodeNumber(131), room: 100 };
    let mut list = attributes(300);
    let forward = build(&list, owner, &golden_geometry());
    list.reverse();
    assert_eq!(forward, build(&list, owner, &golden_geometry()));
}
