//! Tests of the verifiers and decoders of all kinds of directory blocks.

use xfs_format::dabtree::{DaBtreeCheck, DaNode};
use xfs_format::directory::{
    Cookie, DataBlock, DirectoryCheck, DirectoryForm, Entry, FreeBlock, LeafBlock, name_hash,
};
use xfs_format::{BlockKind, Check, StructureAddress};

use crate::blocks::{Block, check_blocks, find};

fn data_blocks(magic: &[u8]) -> Vec<Block> {
    find(BlockKind::DirectoryData, magic, (0, 8))
}

fn index_blocks(magic: u16) -> Vec<Block> {
    find(BlockKind::DirectoryIndex, &magic.to_be_bytes(), (8, 16))
}

fn entries(block: &Block) -> Vec<Entry<'_>> {
    let decoded =
        DataBlock::decode(&block.bytes, 0, StructureAddress::Disk(block.at), DirectoryForm::V5)
            .unwrap();
    decoded.entries().map(Result::unwrap).collect()
}

fn read_data(block: &Block) {
    if let Ok(decoded) =
        DataBlock::decode(&block.bytes, 0, StructureAddress::Disk(block.at), DirectoryForm::V5)
    {
        assert!(decoded.entries().count() <= block.bytes.len() / 16);
        let _ = (decoded.find(b"block-7"), decoded.parent(), decoded.best_free_length());
        for entry in decoded.index() {
            let _ = decoded.entry_at(Cookie(entry.cookie.get()));
        }
    }
}

fn read_leaf(block: &Block) {
    if let Ok(leaf) = LeafBlock::decode(&block.bytes, StructureAddress::Disk(block.at)) {
        let _ = (leaf.find(name_hash(b"block-7")).count(), leaf.forward(), leaf.best_free());
    }
}

fn read_node(block: &Block) {
    if let Ok(node) = DaNode::decode(&block.bytes, StructureAddress::Disk(block.at)) {
        let _ = (node.find(0), node.find(u32::MAX), node.level());
    }
}

#[test]
fn block_form_verifies_and_finds_names() {
    let blocks = data_blocks(b"XDB3");
    check_blocks(&blocks, read_data);
    let decoded = DataBlock::decode(
        &blocks[0].bytes,
        0,
        StructureAddress::Disk(blocks[0].at),
        DirectoryForm::V5,
    )
    .unwrap();
    assert!(decoded.is_block_form());
    let found = decoded.find(b"block-7").unwrap().unwrap();
    assert_eq!(found.name, b"block-7");
    assert_eq!(decoded.find(b"block-61"), Ok(None));
    assert_eq!(entries(&blocks[0]).len(), 62);
}

#[test]
fn data_blocks_verify_and_never_panic() {
    let blocks = data_blocks(b"XDD3");
    check_blocks(&blocks, read_data);
}

#[test]
fn leaves_verify_and_never_panic() {
    check_blocks(&index_blocks(0x3df1), read_leaf);
    check_blocks(&index_blocks(0x3dff), read_leaf);
}

#[test]
fn nodes_verify_and_never_panic() {
    let nodes = find(BlockKind::DirectoryIndex, &0x3ebe_u16.to_be_bytes(), (8, 16));
    // Nodes of attribute forks have the same magic number, but are smaller here.
    let nodes: Vec<Block> = nodes.into_iter().filter(|node| node.verify().is_ok()).collect();
    check_blocks(&nodes, read_node);
    let node = &nodes[0];
    let level = |level: u16| Check::from(DaBtreeCheck::Level { level });
    assert_eq!(node.with(58, &[0, 0]).verify(), Err(level(0)));
    assert_eq!(node.with(58, &[0, 6]).verify(), Err(level(6)));
    let count = |count| Check::from(DaBtreeCheck::Count { count, capacity: 504 });
    assert_eq!(node.with(56, &[0, 0]).verify(), Err(count(0)));
    assert_eq!(node.with(56, &[2, 0]).verify(), Err(count(512)));
    let child = DaBtreeCheck::Child { index: 0, block: 0 };
    assert_eq!(node.with(68, &[0; 4]).verify(), Err(child.into()));
    let previous = u32::MAX;
    let order = DaBtreeCheck::HashOrder { index: 1, hash: node.u32(72), previous };
    assert_eq!(node.with(64, &previous.to_be_bytes()).verify(), Err(order.into()));
}

#[test]
fn free_blocks_verify_and_never_panic() {
    let blocks = find(BlockKind::DirectoryFree, b"XDF3", (0, 8));
    check_blocks(&blocks, |block| {
        if let Ok(free) = FreeBlock::decode(&block.bytes, StructureAddress::Disk(block.at)) {
            let _ = (free.first_data_block(), free.best_free().len());
        }
    });
    let block = &blocks[0];
    let (first, count, used) = (block.u32(48), block.u32(52), block.u32(56));
    assert!(used <= count);
    let index = |first, used| Check::from(DirectoryCheck::FreeIndex { first, count, used });
    assert_eq!(block.with(48, &[0, 0, 0, 1]).verify(), Err(index(1, used)));
    let more = used + 1;
    assert_eq!(block.with(56, &more.to_be_bytes()).verify(), Err(index(first, more)));
    let past = DirectoryCheck::BestCount { count: u32::MAX };
    assert_eq!(block.with(52, &[0xff; 4]).verify(), Err(past.into()));
}

/// Writes `bytes` to a copy of `block` at `offset`, and checks that the verifier refuses the copy
/// with the failed check `expected`.
fn check_entry(block: &Block, offset: usize, bytes: &[u8], expected: DirectoryCheck) {
    assert_eq!(block.with(offset, bytes).verify(), Err(expected.into()), "offset {offset}");
}

#[test]
fn invalid_entries_are_refused() {
    let block = &data_blocks(b"XDB3")[0];
    let third = entries(block)[2];
    let (offset, length) = (third.cookie.offset() as usize, third.name.len());
    let tag_offset = offset + (9 + length + 3).next_multiple_of(8) - 2;
    let end = block.bytes.len() - 8 - 8 * block.u32(block.bytes.len() - 8) as usize;
    check_entry(
        block,
        offset,
        &[1; 8],
        DirectoryCheck::EntryInode { offset, inode: 0x0101_0101_0101_0101 },
    );
    check_entry(block, offset + 9, b"/", DirectoryCheck::NameBytes { offset });
    check_entry(block, offset + 9, b"\0", DirectoryCheck::NameBytes { offset });
    check_entry(block, offset + 9, b"X", DirectoryCheck::NotIndexed { offset });
    check_entry(
        block,
        offset + 9 + length,
        &[9],
        DirectoryCheck::TypeByte { offset, type_byte: 9 },
    );
    check_entry(block, tag_offset, &[0, 0], DirectoryCheck::Tag { offset, tag: 0 });
    check_entry(block, 64 + 8, &[1, b'x'], DirectoryCheck::NotIndexed { offset: 64 });
    let size = DirectoryCheck::FreeLength { offset, length: 12 };
    check_entry(block, offset, &[0xff, 0xff, 0, 12], size);
    let past = DirectoryCheck::RecordEnd { offset, end };
    check_entry(block, offset, &[0xff, 0xff, 0xff, 0xf8], past);
}

#[test]
fn invalid_indexes_are_refused() {
    let block = &data_blocks(b"XDB3")[0];
    let tail = block.bytes.len() - 8;
    let (count, stale) = (block.u32(tail), block.u32(tail + 4));
    let index = tail - 8 * count as usize;
    let wrong = DirectoryCheck::IndexCount { count: u32::MAX, stale };
    check_entry(block, tail, &[0xff; 4], wrong);
    let wrong = DirectoryCheck::IndexCount { count, stale: stale + 1 };
    check_entry(block, tail + 4, &(stale + 1).to_be_bytes(), wrong);
    let first_hash = block.u32(index + 8);
    let falls = block.with(index, &[0xff; 4]).verify();
    let order = DirectoryCheck::HashOrder { index: 1, hash: first_hash, previous: u32::MAX };
    // The position of the entry decides which of the two errors is found first.
    assert!(matches!(falls, Err(Check::Directory(check))
        if check == order || matches!(check, DirectoryCheck::NotIndexed { .. })));

    let leaf = &index_blocks(0x3df1)[0];
    let (count, stale) = (u32::from(leaf.u16(56)), u32::from(leaf.u16(58)));
    let wrong = DirectoryCheck::IndexCount { count, stale: stale + 1 };
    check_entry(leaf, 58, &(stale as u16 + 1).to_be_bytes(), wrong);
    let order = DirectoryCheck::HashOrder { index: 1, hash: leaf.u32(72), previous: u32::MAX };
    check_entry(leaf, 64, &[0xff; 4], order);
    let past = DirectoryCheck::BestCount { count: u32::MAX };
    check_entry(leaf, leaf.bytes.len() - 4, &[0xff; 4], past);
}

#[test]
fn invalid_best_free_tables_are_refused() {
    // A block with a free record, which must be in the table.
    let blocks = data_blocks(b"XDD3");
    let block = blocks.iter().find(|block| block.u16(50) != 0).unwrap();
    let (offset, length) = (block.u16(48), block.u16(50));
    let missing = DirectoryCheck::FreeNotListed { offset: offset.into(), length };
    check_entry(block, 48, &[0; 12], missing);
    let unseen = DirectoryCheck::BestFree { index: 1, offset: 16, length: 8 };
    check_entry(block, 52, &[0, 16, 0, 8, 0, 0, 0, 0], unseen);
    let order = DirectoryCheck::BestFree { index: 1, offset: 0, length: 8 };
    check_entry(block, 48, &[0, 0, 0, 0, 0, 0, 0, 8], order);
}
