//! Walks btrees, and writes their blocks.
//!
//! # Invariants
//!
//! - **B1** A child has the level below its parent's, and a block that is in the image is not
//!   visited again. So a walk ends, and its stack holds at most one block's children for each
//!   level.

use std::ops::Range;

use xfs_format::btree::{BtreeBlock, BtreeKind, PointerForm};
use xfs_format::{AgBlock, AgNumber, DiskAddr, FsBlock, InodeNumber};

use crate::cleaning::{Cleaned, Cleaning};
use crate::dump::{Dump, DumpError, DumpLocation};
use crate::raw::zero;
use crate::seal::Seal;

/// Offset of the checksum in a btree block with short pointers, in bytes.
const SHORT_CRC: usize = 52;
/// Offset of the checksum in a btree block with long pointers, in bytes.
const LONG_CRC: usize = 64;

/// The owner of a btree: an allocation group, or an inode with a fork whose extents are in the
/// btree.
#[derive(Clone, Copy)]
pub(crate) enum TreeOwner {
    /// The btree belongs to this group.
    Group(AgNumber),
    /// The btree maps the extents of a fork of this inode.
    Fork(InodeNumber),
}

/// A pointer to a block of a btree.
#[derive(Clone, Copy)]
pub(crate) struct TreePointer {
    pub(crate) block: u64,
    /// The level of the block; 0 for a leaf.
    pub(crate) level: u32,
}

/// A btree to walk.
pub(crate) struct Tree {
    pub(crate) owner: TreeOwner,
    pub(crate) kind: BtreeKind,
}

impl Tree {
    fn spot(&self, byte: Option<u64>) -> DumpLocation {
        let inode = match self.owner {
            TreeOwner::Group(_) => None,
            TreeOwner::Fork(inode) => Some(inode),
        };
        DumpLocation { byte, inode }
    }
}

impl Dump<'_> {
    /// Writes the blocks of a btree to the image: those to which the pointers in `stack` lead, and
    /// all blocks below them. Passes each record of the leaves to `record`.
    pub(crate) fn walk_tree(
        &mut self,
        tree: &Tree,
        mut stack: Vec<TreePointer>,
        record: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DumpError> {
        stack.reverse();
        while let Some(pointer) = stack.pop() {
            self.check_stopped()?;
            let Some(range) = self.tree_range(tree, pointer) else { continue };
            // B1: a block that is in the image is not visited again.
            if self.sink.has(&range) {
                self.note(
                    tree.spot(Some(range.start)),
                    "a btree leads to this block a second time",
                );
                continue;
            }
            let spot = tree.spot(Some(range.start));
            let Some(mut bytes) = self.read(range.clone(), spot)? else { continue };
            let at = DiskAddr(range.start / 512);
            let block = BtreeBlock::decode(&bytes, tree.kind, at).ok();
            // B1: a child has the level below its parent's.
            if let Some(block) = block.filter(|block| block.level() == pointer.level) {
                if block.is_leaf() {
                    block.records().for_each(&mut *record);
                } else {
                    let children = (0..block.count()).rev().filter_map(|at| block.pointer(at));
                    let level = pointer.level - 1;
                    stack.extend(children.map(|block| TreePointer { block, level }));
                }
            } else {
                self.note(spot, "the block is not the one that the btree leads to");
            }
            let cleaned = clean_block(&mut bytes, tree.kind, self.cleaning());
            self.note_cleaned(cleaned, spot);
            self.add(range.start, &bytes)?;
        }
        Ok(())
    }

    /// Returns the byte range on the device of the block to which the pointer leads. `None` if the
    /// volume has no such block.
    fn tree_range(&mut self, tree: &Tree, pointer: TreePointer) -> Option<Range<u64>> {
        let geometry = &self.superblock.geometry;
        let at = match tree.owner {
            TreeOwner::Group(group) => {
                let block = u32::try_from(pointer.block).ok().map(AgBlock);
                let block = block.filter(|block| geometry.contains_ag_block(group, *block));
                block.map(|block| geometry.ag_block_disk_addr(group, block))
            }
            TreeOwner::Fork(_) => geometry.block_disk_addr(FsBlock(pointer.block)),
        };
        let start = at.and_then(DiskAddr::byte_offset);
        let range = start.map(|start| start..start + u64::from(geometry.block_size));
        if range.is_none() {
            let block = pointer.block;
            let reason = format!("a {} btree leads to block {block}", tree.kind.name());
            self.note(tree.spot(None), reason + ", which does not exist");
        }
        range
    }
}

/// Zeros the unused bytes of a btree block: all that belong neither to the header nor to entries.
fn clean_block(bytes: &mut [u8], kind: BtreeKind, cleaning: Cleaning<'_>) -> Cleaned {
    let Some((level, count)) = BtreeBlock::decode(bytes, kind, DiskAddr(0))
        .ok()
        .map(|block| (block.level(), block.count()))
    else {
        return cleaning.unknown(bytes);
    };
    if !cleaning.zeroes_stale {
        return Cleaned::Whole;
    }
    let layout = kind.layout();
    let crc = match layout.form {
        PointerForm::Short => SHORT_CRC,
        PointerForm::Long => LONG_CRC,
    };
    let seal = Seal::of(bytes, crc);
    let end = bytes.len();
    let header = layout.header_bytes();
    if level == 0 {
        zero(bytes, header + count * layout.record_bytes..end);
    } else {
        let block_size = u32::try_from(end).expect("a block has at most 64 KiB");
        let pointers = layout.pointers_offset(block_size);
        zero(bytes, header + count * layout.node_key_bytes()..pointers);
        zero(bytes, pointers + count * layout.pointer_bytes()..end);
    }
    seal.renew(bytes);
    Cleaned::Whole
}
