//! Test helper: checks the rules that must hold between the blocks of a directory.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::dabtree::{self, DaNode, NODE_MAGIC};
use xfs_format::directory::{
    Cookie, DataBlock, DirectoryForm, FreeBlock, LeafBlock, NULL_OFFSET, ShortForm, free_start,
    index_start, name_hash,
};
use xfs_format::{BlockKind, FileBlock, InodeNumber, StructureAddress};

use super::super::DirectoryChange;
use super::Model;
use crate::store::memory::MemoryFork;
use crate::store::{ForkPlacement, ForkStore};

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(131));

/// Returns the cookies of all names in a directory.
pub(super) fn cookies(fork: &mut MemoryFork) -> BTreeMap<Vec<u8>, Cookie> {
    if let ForkPlacement::Inline(bytes) = fork.contents().unwrap() {
        let form = ShortForm::decode(&bytes, PLACE, DirectoryForm::V5).unwrap();
        return form
            .entries()
            .map(|entry| entry.map(|e| (e.name.to_vec(), e.cookie)).unwrap())
            .collect();
    }
    let mut found = BTreeMap::new();
    for (_, bytes, start) in data_blocks(fork) {
        for entry in DataBlock::decode(&bytes, start, PLACE, DirectoryForm::V5).unwrap().entries() {
            let entry = entry.unwrap();
            found.insert(entry.name.to_vec(), entry.cookie);
        }
    }
    found
}

fn data_blocks(fork: &MemoryFork) -> Vec<(usize, Vec<u8>, u64)> {
    let blocks = 1_u64 << fork.geometry().directory_block_log;
    let size = u64::from(fork.geometry().directory_block_size());
    let all = fork.blocks_of(BlockKind::DirectoryData);
    let place = |at: FileBlock| ((at.0 / blocks) as usize, at.0 / blocks * size);
    all.into_iter().map(|(at, bytes)| (place(at).0, bytes, place(at).1)).collect()
}

/// Checks the rules between the blocks of a directory, and that the directory contains exactly the
/// entries of the model.
pub(super) fn directory(fork: &mut MemoryFork, model: &Model, parent: InodeNumber) {
    fork.verify();
    for (name, expected) in model.iter().step_by(1 + model.len() / 50) {
        let found = DirectoryChange::new(fork).find(name).unwrap();
        assert_eq!(found, Some(*expected), "{name:?}");
    }
    assert_eq!(DirectoryChange::new(fork).find(b"no such name").unwrap(), None);
    let found = DirectoryChange::new(fork).find(b"..").unwrap();
    assert_eq!(found.map(|(inode, _)| inode), Some(parent));
    if let ForkPlacement::Inline(bytes) = fork.contents().unwrap() {
        let form = ShortForm::decode(&bytes, PLACE, DirectoryForm::V5).unwrap();
        form.verify(fork.geometry()).unwrap();
        assert_eq!(usize::from(form.count()), model.len());
        return;
    }
    let mut entries = BTreeSet::new();
    let mut lengths = Vec::new();
    for (index, bytes, start) in data_blocks(fork) {
        let block = DataBlock::decode(&bytes, start, PLACE, DirectoryForm::V5).unwrap();
        lengths.resize(index, NULL_OFFSET);
        lengths.push(block.best_free_length());
        for entry in block.entries() {
            let entry = entry.unwrap();
            if entry.name != b"." && entry.name != b".." {
                assert_eq!(model.get(entry.name), Some(&(entry.inode, entry.entry_type)));
            }
            entries.insert((name_hash(entry.name), entry.cookie.0));
        }
    }
    assert_eq!(entries.len(), model.len() + 2);
    let size = u64::from(fork.geometry().directory_block_size());
    assert_eq!(fork.size(), lengths.len() as u64 * size);
    let index = fork.blocks_of(BlockKind::DirectoryIndex);
    if index.is_empty() {
        return;
    }
    let blocks: BTreeMap<FileBlock, Vec<u8>> = index.into_iter().collect();
    let root = index_start(fork.geometry());
    let mut leaves = Vec::new();
    walk(&blocks, root, None, &mut leaves);
    check_leaves(&blocks, &leaves, &entries);
    check_lengths(fork, &blocks[&root], &lengths);
    let nodes = blocks.len() - leaves.len();
    assert!(nodes == 0 || leaves.len() > 1, "a node with one leaf below it");
}

/// Checks the nodes and leaves from file block `at` down, and appends the leaves to `leaves`.
/// Returns the highest hash in them.
fn walk(
    blocks: &BTreeMap<FileBlock, Vec<u8>>,
    at: FileBlock,
    level: Option<u16>,
    leaves: &mut Vec<FileBlock>,
) -> u32 {
    let bytes = &blocks[&at];
    if dabtree::magic(bytes) != Some(NODE_MAGIC) {
        assert!(level.is_none_or(|level| level == 0));
        leaves.push(at);
        return LeafBlock::decode(bytes, PLACE).unwrap().entries().last().unwrap().hash.get();
    }
    let node = DaNode::decode(bytes, PLACE).unwrap();
    assert!(level.is_none_or(|level| level == node.level()));
    for entry in node.entries() {
        let child = FileBlock(entry.before.get().into());
        let highest = walk(blocks, child, Some(node.level() - 1), leaves);
        assert_eq!(highest, entry.hash.get(), "I2 of `xfs_dir::tree`");
    }
    node.entries().last().unwrap().hash.get()
}

fn check_leaves(
    blocks: &BTreeMap<FileBlock, Vec<u8>>,
    leaves: &[FileBlock],
    entries: &BTreeSet<(u32, u32)>,
) {
    let (mut found, mut highest) = (BTreeSet::new(), 0);
    for (index, at) in leaves.iter().enumerate() {
        let bytes = &blocks[at];
        let leaf = LeafBlock::decode(bytes, PLACE).unwrap();
        assert_eq!(leaf.forward(), leaves.get(index + 1).copied(), "the chain of leaves");
        let back = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap());
        let before = index.checked_sub(1).map_or(FileBlock(0), |before| leaves[before]);
        assert_eq!(FileBlock(back.into()), before);
        for entry in leaf.entries() {
            assert!(entry.hash.get() >= highest);
            highest = entry.hash.get();
            if entry.cookie.get() != 0 {
                assert!(found.insert((entry.hash.get(), entry.cookie.get())));
            }
        }
    }
    assert_eq!(found, *entries);
}

fn check_lengths(fork: &MemoryFork, root: &[u8], lengths: &[u16]) {
    let leaf = LeafBlock::decode(root, PLACE);
    if let Some(only) = leaf.ok().and_then(|leaf| leaf.best_free()) {
        let found: Vec<_> = only.iter().map(|best| best.get()).collect();
        assert_eq!(found, lengths);
        return;
    }
    let start = free_start(fork.geometry());
    let blocks = 1_u64 << fork.geometry().directory_block_log;
    let capacity = (fork.geometry().directory_block_size() as usize - 64) / 2;
    let mut found = Vec::new();
    for (at, bytes) in fork.blocks_of(BlockKind::DirectoryFree) {
        let free = FreeBlock::decode(&bytes, PLACE).unwrap();
        let first = free.first_data_block() as usize;
        assert_eq!(first, (at.0 - start.0) as usize / blocks as usize * capacity);
        found.resize(first, NULL_OFFSET);
        found.extend(free.best_free().iter().map(|best| best.get()));
    }
    assert_eq!(found, lengths);
}
