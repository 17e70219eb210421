//! Freeing a file that has no name and that no process uses any more.
//!
//! Owns: freeing its contents and attributes, and then the inode. Does **not** own the decision
//! that the file is unused.
//!
//! # What a crash leaves
//!
//! The inode stays on its unlinked list until the very last step, so recovery finds it and frees
//! the rest. The buffer of a metadata block becomes invalid in the step that unmaps the block.
//! Blocks are unmapped from the end of the fork backwards. The root of the attributes, at block 0,
//! is therefore freed last, so it is emptied first. A root that was not emptied would point to
//! freed blocks. The kernel's recovery, which reads the root, would then fail and leave the inode
//! unfreed.

use std::collections::BTreeSet;
use std::sync::Arc;

use xfs_alloc::{LinkState, free_inode};
use xfs_buffer::{PosixError, Result};
use xfs_format::attr::leaf::AttrLeafHeaderDisk;
use xfs_format::dabtree::{DaNode, NODE_MAGIC, magic};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::reservation::TransactionKind;
use xfs_format::{BlockKind, FileBlock, StructureAddress};
use xfs_trans::{Journal, Transaction};

use super::LiveInode;
use super::range::LIMIT;
use super::with_transaction::with_transaction;
use crate::edit::BlockRange;
use crate::extent_map::Mapping;
use crate::fork::Fork;
use crate::fork_block::BlockShape;

/// The largest number of blocks that one transaction step frees. Each of these blocks may have a
/// buffer.
const STEP_BLOCKS: u32 = 16;

/// The mode that a symbolic link gets before its target is freed: that of a regular file. Recovery
/// would refuse to read a link without a target.
const EMPTY_MODE: u16 = 0o100_000;

/// The file blocks at which metadata blocks with buffers start.
pub(super) type BufferedBlocks = BTreeSet<FileBlock>;

impl LiveInode {
    /// Frees the contents and attributes of an inode without links, and then the inode itself. The
    /// inode must be on an unlinked list.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] for a file that has links; the device's error; the check
    /// that failed.
    #[doc(alias = "xfs_inactive")]
    pub fn inactivate(self: &Arc<Self>, journal: &Arc<Journal>) -> Result<()> {
        if self.inode().core().nlink != 0 {
            return Err(PosixError::InvalidArgument.into());
        }
        self.free_contents(journal)?;
        self.free_attributes(journal)?;
        with_transaction(
            journal,
            TransactionKind::FreeInode,
            xfs_alloc::inode_blocks(journal.geometry()),
            |tx| {
                tx.join(self.log_item());
                let core = self.inode().core().clone();
                free_inode(tx, self.log_item(), &core, LinkState::Unlinked).map(|_| ())
            },
        )
    }

    /// Whether the file has no blocks outside its inode. If so, the inode can be freed in the
    /// transaction that removes its last name: see [`free_with_name`](Self::free_with_name).
    #[must_use]
    pub fn is_bare(&self) -> bool {
        let inode = self.inode();
        let core = inode.core();
        core.blocks == 0 && core.extents == 0 && core.attr_extents == 0
    }

    /// Frees an unused inode without blocks (`is_bare`) in the transaction that
    /// removes its last name. The caller does this before it removes the name, because freeing
    /// latches the header of the inode's group. The parent pointers are freed with the inode. This
    /// `LiveInode` is invalid afterwards.
    ///
    /// # Errors
    ///
    /// The device's error, or the check that failed. The transaction must be cancelled.
    pub fn free_with_name(&self, tx: &mut Transaction<'_>) -> Result<()> {
        assert!(self.is_bare(), "an inode with blocks is freed through the unlinked list");
        let core = self.inode().core().clone();
        free_inode(tx, self.log_item(), &core, LinkState::Named).map(|_| ())
    }

    fn free_contents(&self, journal: &Arc<Journal>) -> Result<()> {
        let (file_type, has_map) = {
            let inode = self.inode();
            let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
            (inode.file_type(), !map.is_empty())
        };
        if !has_map {
            return Ok(());
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            self.change(tx, |core| {
                core.size = 0;
                // A link without a target is invalid: recovery would not read it.
                if file_type == FileType::Symlink {
                    core.mode = EMPTY_MODE;
                }
            });
            match file_type {
                FileType::Symlink => {
                    // Each extent of a link is one buffer.
                    let starts = {
                        let inode = self.inode();
                        let map = inode.extent_map(tx.cache(), ForkKind::Data)?;
                        map.iter().map(|extent| extent.file_block).collect()
                    };
                    self.drop_blocks(tx, ForkKind::Data, BlockKind::Symlink, &starts)
                }
                _ => self.unmap_all(tx, ForkKind::Data, BlockRange::between(FileBlock(0), LIMIT)),
            }
        })
    }

    fn free_attributes(&self, journal: &Arc<Journal>) -> Result<()> {
        let has_map = {
            let inode = self.inode();
            !inode.extent_map(journal.cache(), ForkKind::Attr)?.is_empty()
        };
        if !has_map {
            return Ok(());
        }
        let tree = self.attr_tree(journal)?;
        if tree.contains(&FileBlock(0)) && !self.has_only_attr_root(journal)? {
            with_transaction(journal, TransactionKind::Truncate, 0, |tx| self.empty_attr_root(tx))?;
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            tx.join(self.log_item());
            self.drop_blocks(tx, ForkKind::Attr, BlockKind::Attr, &tree)?;
            if matches!(self.inode().fork(ForkKind::Attr), Fork::Absent) {
                return Ok(());
            }
            self.remove_attr_fork(tx)
        })
    }

    fn has_only_attr_root(&self, journal: &Arc<Journal>) -> Result<bool> {
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Attr)?;
        Ok(map.iter().all(|extent| extent.end() <= FileBlock(1)))
    }

    fn empty_attr_root(&self, tx: &mut Transaction<'_>) -> Result<()> {
        let shape = BlockShape { length_blocks: 1, kind: BlockKind::Attr };
        let root = self.fork_block(tx, ForkKind::Attr, FileBlock(0), shape)?;
        let length = root.bytes().len();
        tx.change(&root, 0..length, AttrLeafHeaderDisk::empty);
        Ok(())
    }

    /// Returns the start of each block of the attribute btree. A block of the btree that is not
    /// mapped was freed before a crash, and is left out.
    pub(super) fn attr_tree(&self, journal: &Arc<Journal>) -> Result<BufferedBlocks> {
        let shape = BlockShape { length_blocks: 1, kind: BlockKind::Attr };
        let (mut found, mut open) = (BufferedBlocks::new(), vec![FileBlock(0)]);
        while let Some(at) = open.pop() {
            let inode = self.inode();
            let mapping = inode.find(journal.cache(), ForkKind::Attr, at)?;
            // A block that was seen before is skipped, so that a cycle ends.
            if !matches!(mapping, Mapping::Extent(_)) || !found.insert(at) {
                continue;
            }
            let buffer = inode.read_fork_block(journal.cache(), ForkKind::Attr, at, shape)?;
            let bytes = buffer.bytes();
            if magic(&bytes) == Some(NODE_MAGIC) {
                let node = DaNode::decode(&bytes, StructureAddress::Attr(self.number(), at))?;
                open.extend(
                    node.entries().iter().map(|entry| FileBlock(entry.before.get().into())),
                );
            }
        }
        Ok(found)
    }

    /// Unmaps and frees all blocks of a fork. The blocks in `buffered` have buffers of the kind
    /// `kind`, which become invalid.
    fn drop_blocks(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        kind: BlockKind,
        buffered: &BufferedBlocks,
    ) -> Result<()> {
        let mut rest = BlockRange::between(FileBlock(0), LIMIT);
        while let Some(extent) = self.last_in(tx.cache(), fork, rest)? {
            let piece = match kind {
                // One buffer of the same length as the extent.
                BlockKind::Symlink => extent,
                _ => last_blocks(&extent, STEP_BLOCKS),
            };
            let length_blocks = if kind == BlockKind::Symlink { piece.length_blocks } else { 1 };
            for at in buffered.range(piece.file_block..piece.end()) {
                let buffer = self.fork_block(tx, fork, *at, BlockShape { length_blocks, kind })?;
                tx.invalidate(&buffer);
            }
            self.take_extent(tx, fork, &piece)?;
            self.free_blocks(tx, fork, &piece);
            tx.finish_deferred()?;
            rest = BlockRange::between(FileBlock(0), piece.file_block);
        }
        Ok(())
    }
}

/// Returns the part of an extent with its last `most` blocks.
fn last_blocks(extent: &Extent, most: u32) -> Extent {
    let skipped = extent.length_blocks.saturating_sub(most);
    Extent {
        file_block: FileBlock(extent.file_block.0 + u64::from(skipped)),
        start: xfs_format::FsBlock(extent.start.0 + u64::from(skipped)),
        length_blocks: extent.length_blocks - skipped,
        unwritten: extent.unwritten,
    }
}
