//! The walk through the btree over name hashes, in a directory's or an attribute fork.
//!
//! Owns: the way from the root to leaves, and that it ends. Does **not** own: what is in a leaf.

use std::collections::HashSet;

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::dabtree::{self, DaBtreeCheck, NODE_MAGIC, Node};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Check, Corruption, FileBlock, InodeNumber, Place, Structure};
use xfs_inode::{BlockShape, Inode};

/// The tree of one inode.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) cache: &'a BufferCache,
    pub(crate) inode: &'a Inode,
    pub(crate) fork: ForkKind,
    pub(crate) root: FileBlock,
    /// Filesystem blocks in a block of the tree.
    pub(crate) blocks: u32,
    pub(crate) block_kind: BlockKind,
}

/// A leaf and where in the fork it lies.
pub(crate) struct Leaf {
    pub(crate) block: FileBlock,
    pub(crate) buffer: Buffer,
}

/// A block of the tree by what it is.
enum Step {
    Node { level: u16, children: Vec<FileBlock> },
    Leaf(Leaf),
}

impl<'a> Tree<'a> {
    /// The place of a block in the fork, for messages.
    pub(crate) fn place(&self, block: FileBlock) -> Place {
        place(self.inode, self.fork, block)
    }

    /// The first leaf that may hold this hash.
    pub(crate) fn find_leaf(&self, hash: u32) -> Result<Option<Leaf>> {
        let (mut block, mut level) = (self.root, None);
        loop {
            let buffer = self.read(block)?;
            let bytes = buffer.bytes();
            let node = self.verify_level(&bytes, block, level)?;
            let Some(node) = node else {
                drop(bytes);
                return Ok(Some(Leaf { block, buffer }));
            };
            match node.find(hash) {
                Some(child) => (block, level) = (child, Some(node.level() - 1)),
                None => return Ok(None),
            }
        }
    }

    /// The leaf at `block`, to which another leaf's sibling pointer leads.
    pub(crate) fn read_sibling(&self, block: FileBlock) -> Result<Leaf> {
        let buffer = self.read(block)?;
        self.verify_level(&buffer.bytes(), block, Some(0))?;
        Ok(Leaf { block, buffer })
    }

    /// All leaves, by hash. A block that cannot be read is an error; the others follow.
    pub(crate) fn leaves(self) -> Leaves<'a> {
        Leaves { tree: self, visited: HashSet::new(), levels: vec![(None, vec![self.root])] }
    }

    fn read(&self, block: FileBlock) -> Result<Buffer> {
        let shape = BlockShape { length_blocks: self.blocks, kind: self.block_kind };
        let buffer = self.inode.read_fork_block(self.cache, self.fork, block, shape)?;
        let owner = dabtree::owner(&buffer.bytes());
        verify_owner(owner, self.inode, self.structure(), self.place(block))?;
        Ok(buffer)
    }

    /// The node that a block is, `None` for a leaf. Its parent, if there is one, knows the level already.
    /// A leaf has 0.
    fn verify_level<'b>(
        &self,
        bytes: &'b [u8],
        block: FileBlock,
        expected: Option<u16>,
    ) -> Result<Option<Node<'b>>> {
        let node = match dabtree::magic(bytes) {
            Some(NODE_MAGIC) => Some(Node::decode(bytes, self.place(block))?),
            _ => None,
        };
        let found = node.as_ref().map_or(0, Node::level);
        match expected {
            Some(expected) if found != expected => {
                Err(self.corrupt(block, DaBtreeCheck::LevelBelow { found, expected }).into())
            }
            _ => Ok(node),
        }
    }

    fn step(&self, block: FileBlock, expected: Option<u16>) -> Result<Step> {
        let buffer = self.read(block)?;
        let bytes = buffer.bytes();
        let Some(node) = self.verify_level(&bytes, block, expected)? else {
            drop(bytes);
            return Ok(Step::Leaf(Leaf { block, buffer }));
        };
        let level = node.level();
        let children = node.entries().iter().rev();
        let children = children.map(|entry| FileBlock(entry.before.get().into())).collect();
        Ok(Step::Node { level, children })
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

/// Iterator over the leaves of a tree.
pub(crate) struct Leaves<'a> {
    tree: Tree<'a>,
    visited: HashSet<FileBlock>,
    /// For each level from the root down: the level that its blocks must have, if known, and
    /// those still to visit, last first.
    levels: Vec<(Option<u16>, Vec<FileBlock>)>,
}

impl Iterator for Leaves<'_> {
    type Item = Result<Leaf>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (expected, blocks) = self.levels.last_mut()?;
            let expected = *expected;
            let Some(block) = blocks.pop() else {
                self.levels.pop();
                continue;
            };
            if !self.visited.insert(block) {
                let visited = self.visited.len() as u64;
                return Some(Err(self.tree.corrupt(block, DaBtreeCheck::Cycle { visited }).into()));
            }
            match self.tree.step(block, expected) {
                Err(error) => return Some(Err(error)),
                Ok(Step::Leaf(leaf)) => return Some(Ok(leaf)),
                Ok(Step::Node { level, children }) => {
                    self.levels.push((Some(level - 1), children));
                }
            }
        }
    }
}

/// Finds a cycle in a chain of sibling pointers without remembering the chain: each block is
/// compared with one that is left behind, ever further apart (Brent).
pub(crate) struct Chain {
    marked: FileBlock,
    visited: u64,
    next_mark: u64,
}

impl Chain {
    pub(crate) fn new(start: FileBlock) -> Self {
        Self { marked: start, visited: 1, next_mark: 1 }
    }

    /// Says that the chain goes on to `block`.
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

/// A place in a fork.
pub(crate) fn place(inode: &Inode, fork: ForkKind, block: FileBlock) -> Place {
    match fork {
        ForkKind::Data => Place::Data(inode.number(), block),
        ForkKind::Attr => Place::Attr(inode.number(), block),
    }
}

/// Checks that a block belongs to the inode whose fork led to it.
pub(crate) fn verify_owner(
    owner: Option<InodeNumber>,
    inode: &Inode,
    structure: Structure,
    place: Place,
) -> Result<()> {
    match owner {
        Some(owner) if owner != inode.number() => {
            let check = Check::ForeignOwner { found: owner.0, expected: inode.number().0 };
            Err(Corruption::new(structure, place, check).into())
        }
        _ => Ok(()),
    }
}
