//! The walk through the btree over name hashes, in a directory's data fork or in an attribute fork.
//!
//! Owns: the path from the root to leaves, and the guarantee that a walk ends. Does **not** own the
//! contents of a leaf.

use std::collections::HashSet;

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::dabtree::{self, DaBtreeCheck, DaNode};
use xfs_format::inode::ForkKind;
use xfs_format::{
    BlockKind, Check, Corruption, FileBlock, InodeNumber, Structure, StructureAddress,
};
use xfs_inode::{BlockShape, Inode, RecentBuffers};

use crate::bounds::Bounds;

/// The hash btree in one fork of an inode.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) cache: &'a BufferCache,
    pub(crate) inode: &'a Inode,
    /// The remembered buffers of the data fork. `None` for the attribute fork.
    pub(crate) recent: Option<&'a RecentBuffers>,
    pub(crate) fork: ForkKind,
    pub(crate) root: FileBlock,
    /// Number of filesystem blocks in a block of the btree.
    pub(crate) blocks: u32,
    pub(crate) block_kind: BlockKind,
}

/// The leaf that must follow a given leaf, according to the nodes above the given leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextLeaf {
    /// No leaf follows: the leaf is the last one.
    Edge,
    /// The next leaf, below the same parent.
    Block(FileBlock),
    /// A leaf below another parent follows.
    Beyond,
}

impl NextLeaf {
    fn verify(self, bytes: &[u8]) -> Result<(), DaBtreeCheck> {
        let found = dabtree::forward(bytes);
        let (found, expected) = match (self, found) {
            (Self::Beyond, Some(_)) | (Self::Edge, None) => return Ok(()),
            (Self::Beyond | Self::Block(_), None) => return Err(DaBtreeCheck::NoNextLeaf),
            (Self::Edge, Some(found)) => (found, FileBlock(0)),
            (Self::Block(expected), Some(found)) => (found, expected),
        };
        match found == expected {
            true => Ok(()),
            false => Err(DaBtreeCheck::NextLeaf { found: found.0, expected: expected.0 }),
        }
    }
}

/// A leaf in memory, and its first file block.
pub(crate) struct Leaf {
    pub(crate) block: FileBlock,
    pub(crate) buffer: Buffer,
}

/// A decoded block of the btree.
enum DaTreeBlock {
    Node { level: u16, children: Vec<DaChild> },
    Leaf(Leaf),
}

/// A block that is not read yet, with the limits that its parent sets for its hashes.
#[derive(Clone, Copy)]
struct DaChild {
    block: FileBlock,
    bounds: Bounds,
}

impl<'a> Tree<'a> {
    /// Returns the address of a block of the btree, for error messages.
    pub(crate) fn place(&self, block: FileBlock) -> StructureAddress {
        place(self.inode, self.fork, block)
    }

    /// Finds the first leaf that may contain this hash. If all hashes are lower, returns the last
    /// leaf.
    pub(crate) fn find_leaf(&self, hash: u32) -> Result<Leaf> {
        let (mut block, mut level) = (self.root, None);
        let (mut bounds, mut next) = (Bounds { lowest: 0, last: None }, NextLeaf::Edge);
        loop {
            let buffer = self.read(block)?;
            let bytes = buffer.bytes();
            let node = self.verify_level(&bytes, block, level)?;
            bounds.verify(&bytes, self.place(block))?;
            let Some(node) = node else {
                next.verify(&bytes).map_err(|check| self.corrupt(block, check))?;
                drop(bytes);
                return Ok(Leaf { block, buffer });
            };
            let entries = node.entries();
            let index = entries.partition_point(|entry| entry.hash.get() < hash);
            let index = index.min(entries.len().saturating_sub(1));
            let child =
                |index: usize| entries.get(index).map(|entry| FileBlock(entry.before.get().into()));
            next = match child(index + 1) {
                Some(sibling) if node.level() == 1 => NextLeaf::Block(sibling),
                Some(_) => NextLeaf::Beyond,
                None if next == NextLeaf::Edge => NextLeaf::Edge,
                None => NextLeaf::Beyond,
            };
            bounds = Bounds::of_child(bounds.lowest, entries, index);
            level = Some(node.level() - 1);
            block = child(index).expect("a node that decodes has an entry");
        }
    }

    /// Reads the leaf at file block `block`. This leaf is the right sibling of a leaf whose last
    /// hash is `hash`. Returns an error if a hash of this leaf is lower.
    pub(crate) fn read_sibling(&self, block: FileBlock, hash: u32) -> Result<Leaf> {
        let buffer = self.read(block)?;
        self.verify_level(&buffer.bytes(), block, Some(0))?;
        Bounds { lowest: hash, last: None }.verify(&buffer.bytes(), self.place(block))?;
        Ok(Leaf { block, buffer })
    }

    /// Returns an iterator over all leaves, in the order of their hashes. For a block that cannot
    /// be read the iterator returns an error, and then the following leaves. For a leaf whose
    /// hashes contradict its parent, it returns an error and then the leaf.
    pub(crate) fn leaves(self) -> DaLeaves<'a> {
        let root = DaChild { block: self.root, bounds: Bounds { lowest: 0, last: None } };
        let levels = vec![(None, vec![root])];
        DaLeaves { tree: self, visited: HashSet::new(), levels, held: None }
    }

    fn read(&self, block: FileBlock) -> Result<Buffer> {
        let shape = BlockShape { length_blocks: self.blocks, kind: self.block_kind };
        let buffer = match self.recent {
            Some(recent) => recent.read(self.inode, self.cache, block, shape)?,
            None => self.inode.read_fork_block(self.cache, self.fork, block, shape)?,
        };
        let owner = dabtree::owner(&buffer.bytes());
        verify_owner(owner, self.inode, self.structure(), self.place(block))?;
        Ok(buffer)
    }

    /// Decodes a block as a node, or returns `None` for a leaf. If the parent gives the level
    /// `expected`, a block of another level is an error. A leaf has level 0.
    fn verify_level<'b>(
        &self,
        bytes: &'b [u8],
        block: FileBlock,
        expected: Option<u16>,
    ) -> Result<Option<DaNode<'b>>> {
        let node = match dabtree::is_node(bytes) {
            true => Some(DaNode::decode(bytes, self.place(block))?),
            false => None,
        };
        let found = node.as_ref().map_or(0, DaNode::level);
        match expected {
            Some(expected) if found != expected => {
                Err(self.corrupt(block, DaBtreeCheck::LevelBelow { found, expected }).into())
            }
            _ => Ok(node),
        }
    }

    fn step(&self, child: DaChild, expected: Option<u16>) -> Result<(DaTreeBlock, Result<()>)> {
        let DaChild { block, bounds } = child;
        let buffer = self.read(block)?;
        let bytes = buffer.bytes();
        let node = self.verify_level(&bytes, block, expected)?;
        let verdict = bounds.verify(&bytes, self.place(block)).map_err(Into::into);
        let Some(node) = node else {
            drop(bytes);
            return Ok((DaTreeBlock::Leaf(Leaf { block, buffer }), verdict));
        };
        let (level, entries) = (node.level(), node.entries());
        let children = entries.iter().enumerate().rev().map(|(index, entry)| DaChild {
            block: FileBlock(entry.before.get().into()),
            bounds: Bounds::of_child(bounds.lowest, entries, index),
        });
        Ok((DaTreeBlock::Node { level, children: children.collect() }, verdict))
    }

    fn structure(&self) -> Structure {
        match self.fork {
            ForkKind::Data => Structure::Directory,
            ForkKind::Attr => Structure::Attr,
        }
    }

    fn corrupt(&self, block: FileBlock, check: DaBtreeCheck) -> Corruption {
        Corruption::new(Structure::DaBtree, self.place(block), check)
    }
}

/// An iterator over the leaves of a btree, in the order of their hashes.
pub(crate) struct DaLeaves<'a> {
    tree: Tree<'a>,
    visited: HashSet<FileBlock>,
    /// For each level from the root down: the level number (`None` if unknown), and the blocks of
    /// the level that are still to be visited. The next block to visit is the last of the list.
    levels: Vec<(Option<u16>, Vec<DaChild>)>,
    /// A leaf that contradicts its parent. The iterator has returned the error for this leaf, and
    /// returns the leaf itself next.
    held: Option<Leaf>,
}

impl Iterator for DaLeaves<'_> {
    type Item = Result<Leaf>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(leaf) = self.held.take() {
            return Some(Ok(leaf));
        }
        loop {
            let (expected, children) = self.levels.last_mut()?;
            let expected = *expected;
            let Some(child) = children.pop() else {
                self.levels.pop();
                continue;
            };
            let block = child.block;
            if !self.visited.insert(block) {
                let visited = self.visited.len() as u64;
                return Some(Err(self.tree.corrupt(block, DaBtreeCheck::Cycle { visited }).into()));
            }
            let (step, verdict) = match self.tree.step(child, expected) {
                Ok(step) => step,
                Err(error) => return Some(Err(error)),
            };
            match (step, verdict) {
                (DaTreeBlock::Leaf(leaf), Ok(())) => return Some(Ok(leaf)),
                (DaTreeBlock::Leaf(leaf), Err(error)) => {
                    self.held = Some(leaf);
                    return Some(Err(error));
                }
                (DaTreeBlock::Node { level, children }, verdict) => {
                    self.levels.push((Some(level - 1), children));
                    if let Err(error) = verdict {
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

/// Detects a cycle in a chain of sibling pointers without storing the chain. Each block of the
/// chain is compared with a marked one, and the mark moves at ever larger distances (Brent's
/// algorithm).
pub(crate) struct CycleDetector {
    marked: FileBlock,
    visited: u64,
    next_mark: u64,
}

impl CycleDetector {
    pub(crate) fn new(start: FileBlock) -> Self {
        Self { marked: start, visited: 1, next_mark: 1 }
    }

    /// Advances to `block`, the next block of the chain. Returns an error if `block` is the block
    /// that the detector has marked, because the chain is then a cycle.
    pub(crate) fn advance(&mut self, tree: &Tree<'_>, block: FileBlock) -> Result<()> {
        if block == self.marked {
            let check = DaBtreeCheck::Cycle { visited: self.visited };
            return Err(tree.corrupt(block, check).into());
        }
        if self.visited == self.next_mark {
            self.marked = block;
            self.next_mark = self.next_mark.saturating_mul(2);
        }
        self.visited = self.visited.saturating_add(1);
        Ok(())
    }
}

/// Returns the address of a block in a fork, for error messages.
pub(crate) fn place(inode: &Inode, fork: ForkKind, block: FileBlock) -> StructureAddress {
    match fork {
        ForkKind::Data => StructureAddress::Data(inode.number(), block),
        ForkKind::Attr => StructureAddress::Attr(inode.number(), block),
    }
}

/// Checks that a block belongs to `inode`, whose fork led to the block. `owner` is the owner in the
/// header of the block.
pub(crate) fn verify_owner(
    owner: Option<InodeNumber>,
    inode: &Inode,
    structure: Structure,
    place: StructureAddress,
) -> Result<()> {
    match owner {
        Some(owner) if owner != inode.number() => {
            let check = Check::ForeignOwner { found: owner.0, expected: inode.number().0 };
            Err(Corruption::new(structure, place, check).into())
        }
        _ => Ok(()),
    }
}
