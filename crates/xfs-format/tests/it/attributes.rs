//! Tests of the verifiers and decoders of attribute leaves, nodes and remote values.

use xfs_format::attr::{AttrCheck, AttrLeaf, RemoteBlock};
use xfs_format::directory::name_hash;
use xfs_format::parent::Parent;
use xfs_format::{BlockKind, Check, StructureAddress};

use crate::blocks::{Block, check_blocks, find};

fn leaves() -> Vec<Block> {
    find(BlockKind::Attr, &0x3bee_u16.to_be_bytes(), (8, 16))
}

fn read_leaf(block: &Block) {
    let place = StructureAddress::Disk(block.at);
    if let Ok(leaf) = AttrLeaf::decode(&block.bytes, place) {
        for entry in leaf.entries().flatten() {
            let _ = Parent::decode(&entry, place);
        }
        let _ = (leaf.find(name_hash(b"one")).count(), leaf.hash_range(), leaf.forward());
    }
}

/// Returns a leaf of the golden image whose attributes are not parent pointers.
fn plain_leaf() -> Block {
    let is_plain = |block: &Block| block.bytes[86] == 1;
    leaves().into_iter().find(is_plain).unwrap()
}

fn check_leaf(offset: usize, bytes: &[u8], expected: AttrCheck) {
    assert_eq!(plain_leaf().with(offset, bytes).verify(), Err(expected.into()), "offset {offset}");
}

/// Checks the verifier on all leaves and nodes of the golden image (`check_blocks`). The verifier
/// counts the padding of names with remote values as used bytes (I3 of `xfs_format::attr::leaf`).
#[test]
fn leaves_and_nodes_verify_and_never_panic() {
    check_blocks(&leaves(), read_leaf);
    let nodes = find(BlockKind::Attr, &0x3ebe_u16.to_be_bytes(), (8, 16));
    let nodes: Vec<Block> = nodes.into_iter().filter(|node| node.verify().is_ok()).collect();
    check_blocks(&nodes, |_| {});
}

#[test]
fn parent_pointers_have_their_own_hash() {
    let mut parents = 0;
    for block in leaves() {
        let place = StructureAddress::Disk(block.at);
        let leaf = AttrLeaf::decode(&block.bytes, place).unwrap();
        for entry in leaf.entries() {
            let entry = entry.unwrap();
            let Some(parent) = Parent::decode(&entry, place).unwrap() else { continue };
            assert!(leaf.find(parent.hash()).any(|found| found == Ok(entry)));
            parents += 1;
        }
    }
    assert!(parents > 100);
}

#[test]
fn invalid_leaves_are_refused() {
    let leaf = plain_leaf();
    let (count, used, first_used) = (leaf.u16(56), leaf.u16(58), leaf.u16(60));
    let (hash, name_offset) = (leaf.u32(80), leaf.u16(84));
    let name = usize::from(name_offset);
    check_leaf(56, &[0xff; 2], AttrCheck::Count { count: 0xffff, first_used: first_used.into() });
    check_leaf(58, &[0xff; 2], AttrCheck::UsedBytes { used: 0xffff, found: used.into() });
    // 0 means 64 KiB, which is past the end of a smaller block.
    check_leaf(60, &[0; 2], AttrCheck::FirstUsed { first_used: 1 << 16, block_size: 1024 });
    check_leaf(60, &[0, 80], AttrCheck::Count { count, first_used: 80 });
    let order = AttrCheck::HashOrder { index: 1, hash: leaf.u32(88), previous: u32::MAX };
    let falls = leaf.with(80, &[0xff; 4]).verify();
    assert!(matches!(falls, Err(Check::Attr(check))
        if check == order || matches!(check, AttrCheck::Hash { index: 0, .. })));
    check_leaf(84, &[0, 0], AttrCheck::NamePlace { index: 0, offset: 0 });
    check_leaf(84, &[0xff, 0xfc], AttrCheck::NamePlace { index: 0, offset: 0xfffc });
    check_leaf(86, &[0x06], AttrCheck::Flags { index: 0, flags: 0x06 });
    check_leaf(86, &[0x41], AttrCheck::Flags { index: 0, flags: 0x41 });
    check_leaf(name + 2, &[0], AttrCheck::NameEmpty { index: 0 });
    check_leaf(name + 3, &[0], AttrCheck::NameBytes { index: 0 });
    check_leaf(name, &[0xff; 2], AttrCheck::NamePlace { index: 0, offset: name_offset });
    let mut renamed = leaf.bytes[name + 3..name + 4].to_vec();
    renamed[0] ^= 0x40;
    let changed = leaf.with(name + 3, &renamed);
    assert!(matches!(
        changed.verify(),
        Err(Check::Attr(AttrCheck::Hash { index: 0, hash: found, .. })) if found == hash
    ));
    let second = leaf.with(92, &name_offset.to_be_bytes()).with(88, &hash.to_be_bytes());
    let overlap = AttrCheck::NameOverlap { index: 1, offset: name_offset };
    assert_eq!(second.verify(), Err(overlap.into()));
}

#[test]
fn free_ranges_must_only_lie_inside_the_block() {
    let leaf = plain_leaf();
    let range = |base: u16, size: u16| [base.to_be_bytes(), size.to_be_bytes()].concat();
    let overlapping = [range(200, 100), range(240, 100), range(0, 0)].concat();
    assert_eq!(leaf.with(64, &overlapping).verify(), Ok(()));
    let past = AttrCheck::FreeRange { index: 1, base: 1020, size: 8 };
    check_leaf(68, &range(1020, 8), past);
    check_leaf(64, &range(202, 4), AttrCheck::FreeRange { index: 0, base: 202, size: 4 });
}

#[test]
fn incomplete_attributes_are_not_listed() {
    let leaf = plain_leaf();
    let hidden = leaf.with(86, &[0x81]);
    assert_eq!(hidden.verify(), Ok(()));
    let count = |block: &Block| {
        AttrLeaf::decode(&block.bytes, StructureAddress::Disk(block.at)).unwrap().entries().count()
    };
    assert_eq!(count(&hidden), count(&leaf) - 1);
}

#[test]
fn remote_values_verify_and_never_panic() {
    let blocks = find(BlockKind::AttrRemote, b"XARM", (0, 40));
    let read = |block: &Block| {
        if let Ok(piece) = RemoteBlock::decode(&block.bytes, StructureAddress::Disk(block.at)) {
            let _ = (piece.owner(), piece.offset(), piece.part().len());
        }
    };
    check_blocks(&blocks, read);
    let range = |offset, bytes| Check::from(AttrCheck::RemoteRange { offset, bytes });
    let (offset, bytes) = (blocks[0].u32(4), blocks[0].u32(8));
    assert_eq!(blocks[0].with(8, &969_u32.to_be_bytes()).verify(), Err(range(offset, 969)));
    assert_eq!(blocks[0].with(4, &[0xff; 4]).verify(), Err(range(u32::MAX, bytes)));
    let last = (1 << 16) - bytes;
    assert_eq!(blocks[0].with(4, &last.to_be_bytes()).verify(), Ok(()));
}

/// Checks that an empty leaf of 64 KiB is valid. Its "first used" offset is 65536, which does not
/// fit the field and is stored as 0.
#[test]
fn largest_empty_leaf_verifies() {
    let mut block = plain_leaf();
    block.bytes.truncate(56);
    block.bytes.resize(1 << 16, 0);
    let block = block.with(64, &[0, 80, 0xff, 0xb0]);
    assert_eq!(block.verify(), Ok(()));
    let leaf = AttrLeaf::decode(&block.bytes, StructureAddress::Disk(block.at)).unwrap();
    assert_eq!((leaf.entries().count(), leaf.hash_range()), (0, None));
}
