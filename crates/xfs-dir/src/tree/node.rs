//! Edits of one node of a hash btree.

use std::mem::offset_of;

use xfs_format::attr::leaf::{AttrLeafHeaderDisk, LEAF_MAGIC};
use xfs_format::dabtree::{self, DaHeaderDisk, NODE_MAGIC, NodeEntryDisk, NodeHeaderDisk};
use xfs_format::{DiskAddr, FileBlock};

use super::TreeIdentity;
use crate::bounds::Bounds;
use crate::edit::{BlockEdit, u16_at, u32_at};

pub(super) const FORWARD: usize = offset_of!(DaHeaderDisk, forward);
pub(super) const BACK: usize = offset_of!(DaHeaderDisk, back);

const COUNT: usize = offset_of!(NodeHeaderDisk, count);
const HEADER: usize = size_of::<NodeHeaderDisk>();
const ENTRY: usize = size_of::<NodeEntryDisk>();

/// Returns the number of entries that fit in a node of `block_bytes` bytes.
pub(super) const fn capacity(block_bytes: usize) -> usize {
    (block_bytes - HEADER) / ENTRY
}

pub(super) fn count(bytes: &[u8]) -> usize {
    u16_at(bytes, COUNT).into()
}

/// Returns the level of a node; 0 for a leaf.
pub(super) fn level(bytes: &[u8]) -> u16 {
    match dabtree::magic(bytes) {
        Some(NODE_MAGIC) => u16_at(bytes, offset_of!(NodeHeaderDisk, level)),
        _ => 0,
    }
}

pub(super) fn hash(bytes: &[u8], index: usize) -> u32 {
    u32_at(bytes, HEADER + ENTRY * index)
}

pub(super) fn child(bytes: &[u8], index: usize) -> FileBlock {
    FileBlock(u32_at(bytes, HEADER + ENTRY * index + 4).into())
}

/// Returns the bounds that a node sets for the hashes of its child `index`.
pub(super) fn bounds(bytes: &[u8], index: usize) -> Bounds {
    let lowest = index.checked_sub(1).map_or(0, |before| hash(bytes, before));
    Bounds { lowest, last: Some(hash(bytes, index)) }
}

/// Returns the highest hash in a node, or in a leaf of a directory or of attributes. All these
/// blocks have their count at the same offset, and entries of 8 bytes that start with the hash.
pub(super) fn last_hash(bytes: &[u8]) -> u32 {
    let base = match dabtree::magic(bytes) {
        Some(LEAF_MAGIC) => size_of::<AttrLeafHeaderDisk>(),
        _ => HEADER,
    };
    const { assert!(offset_of!(AttrLeafHeaderDisk, count) == COUNT) };
    count(bytes).checked_sub(1).map_or(0, |last| u32_at(bytes, base + ENTRY * last))
}

pub(super) fn set_hash(edit: &mut BlockEdit<'_>, index: usize, hash: u32) {
    if edit.u32_at(HEADER + ENTRY * index) != hash {
        edit.put_u32(HEADER + ENTRY * index, hash);
    }
}

pub(super) fn insert(edit: &mut BlockEdit<'_>, index: usize, hash: u32, child: FileBlock) {
    let entries = count(edit.bytes());
    assert!(entries < capacity(edit.length()));
    let at = HEADER + ENTRY * index;
    edit.shift(at..HEADER + ENTRY * entries, at + ENTRY);
    edit.put_u32(at, hash);
    edit.put_u32(at + 4, child.0 as u32);
    edit.put_u16(COUNT, entries as u16 + 1);
}

pub(super) fn remove(edit: &mut BlockEdit<'_>, index: usize) {
    let entries = count(edit.bytes());
    let at = HEADER + ENTRY * index;
    edit.shift(at + ENTRY..HEADER + ENTRY * entries, at);
    edit.put_u16(COUNT, entries as u16 - 1);
}

/// Keeps only the first `kept` entries of a node.
pub(super) fn truncate(edit: &mut BlockEdit<'_>, kept: usize) {
    edit.put_u16(COUNT, kept as u16);
}

/// Initializes a new node on the level of `source`, with the entries of `source` from `first` on.
pub(super) fn initialise(
    edit: &mut BlockEdit<'_>,
    identity: &TreeIdentity,
    source: &[u8],
    first: usize,
) {
    let level = u16_at(source, offset_of!(NodeHeaderDisk, level));
    let entries = count(source);
    put_header(edit, identity, level, entries - first);
    let moved = source.get(HEADER + ENTRY * first..HEADER + ENTRY * entries);
    edit.put(HEADER, moved.expect("the count was verified"));
}

/// Initializes a block as a root with one child.
pub(super) fn make_root(
    edit: &mut BlockEdit<'_>,
    identity: &TreeIdentity,
    level: u16,
    hash: u32,
    child: FileBlock,
) {
    edit.clear(0..HEADER);
    put_header(edit, identity, level, 1);
    edit.put_u32(HEADER, hash);
    edit.put_u32(HEADER + 4, child.0 as u32);
}

fn put_header(edit: &mut BlockEdit<'_>, identity: &TreeIdentity, level: u16, count: usize) {
    put_identity(edit, NODE_MAGIC, identity);
    edit.put_u16(COUNT, count as u16);
    edit.put_u16(offset_of!(NodeHeaderDisk, level), level);
}

/// Writes the common header of a new block, except the links to its siblings.
pub(crate) fn put_identity(edit: &mut BlockEdit<'_>, magic: u16, identity: &TreeIdentity) {
    edit.put_u16(offset_of!(DaHeaderDisk, magic), magic);
    edit.put_u64(offset_of!(DaHeaderDisk, block), identity.address);
    edit.put(offset_of!(DaHeaderDisk, uuid), &identity.uuid);
    edit.put_u64(offset_of!(DaHeaderDisk, owner), identity.owner);
}

/// Sets the address in a block's header, after the contents were copied from another block.
pub(super) fn set_address(edit: &mut BlockEdit<'_>, address: DiskAddr) {
    edit.put_u64(offset_of!(DaHeaderDisk, block), address.0);
}
