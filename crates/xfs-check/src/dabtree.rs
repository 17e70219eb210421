//! The walk over the hash btree that directories and attribute forks share.
//!
//! Owns: the checks of levels, owners, siblings and hashes across the blocks of the btree. Does
//! **not** own: the contents of leaves, which the visitor reads.
//!
//! # Invariants
//!
//! - **I1** A node's level is one less than its parent's, so a path ends.
//! - **I2** No more blocks are visited than the fork has (C5 of the crate).

use xfs_format::dabtree::{self, DaBtreeCheck, DaNode, MAX_DEPTH};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, FileBlock, StructureAddress};

use crate::code::Code;
use crate::facts::Facts;
use crate::finding::{Finding, Place};
use crate::fork::{BlockRun, ForkMap, OpenFork};
use crate::inode::Pass;
use crate::used_inode::Inode;

/// A block of a hash btree.
pub(crate) struct DaBlock {
    pub(crate) block: FileBlock,
    pub(crate) bytes: Vec<u8>,
}

/// A visitor of the leaves of a hash btree.
pub(crate) trait LeafVisitor<T> {
    /// Reads a leaf. Returns its lowest and highest hash, or `None` if it has no entry.
    fn leaf(&mut self, pass: &mut Pass<'_, T>, leaf: &DaBlock) -> Option<(u32, u32)>;
}

/// The fork whose hash btree is walked.
#[derive(Clone, Copy)]
pub(crate) struct DaFork<'a> {
    pub(crate) inode: &'a Inode<'a>,
    pub(crate) map: &'a ForkMap,
    pub(crate) kind: ForkKind,
    /// Base-2 logarithm of the number of filesystem blocks in one block of the btree.
    pub(crate) blocks_log: u8,
}

impl DaFork<'_> {
    fn block_kind(&self) -> BlockKind {
        match self.kind {
            ForkKind::Data => BlockKind::DirectoryIndex,
            ForkKind::Attr => BlockKind::Attr,
        }
    }

    /// Returns the place of a block of the fork, for findings.
    pub(crate) fn place<T: Facts>(&self, pass: &Pass<'_, T>, block: FileBlock) -> Place {
        let place = self.inode.place(pass.geometry());
        let mut place = place.at_file_block(block, self.kind == ForkKind::Attr);
        place.disk_addr = self.map.address(pass, block).or(place.disk_addr);
        place
    }

    /// Reads a block of the btree and checks its owner. `None` if the block cannot be read.
    pub(crate) fn read<T: Facts>(
        &self,
        pass: &mut Pass<'_, T>,
        block: FileBlock,
    ) -> Option<DaBlock> {
        let count = 1 << self.blocks_log;
        let fork = OpenFork { inode: self.inode, kind: self.kind };
        let read = self.map.read(pass, fork, BlockRun { block, count }, self.block_kind());
        let (bytes, ..) = read?;
        let foreign = dabtree::owner(&bytes).filter(|owner| *owner != self.inode.number());
        if let Some(owner) = foreign {
            let code = self.code(Code::DirOwner, Code::AttrOwner);
            let finding = Finding::new(code, self.place(pass, block), owner.to_string());
            pass.findings.push(finding.expected(self.inode.number().to_string()));
        }
        Some(DaBlock { block, bytes })
    }

    /// Returns `of_directory` or `of_attributes`, depending on the kind of fork.
    pub(crate) const fn code(&self, of_directory: Code, of_attributes: Code) -> Code {
        match self.kind {
            ForkKind::Data => of_directory,
            ForkKind::Attr => of_attributes,
        }
    }
}

/// The state of a walk over a hash btree.
pub(crate) struct DaWalk<'w, 'a, V> {
    fork: DaFork<'w>,
    visitor: &'a mut V,
    /// For each level, the block that was visited last, and its forward pointer.
    neighbours: [Option<(FileBlock, Option<FileBlock>)>; MAX_DEPTH as usize + 1],
    /// The highest hash of the leaves that were visited so far.
    highest: u32,
    visited: u64,
    budget: u64,
    is_whole: bool,
}

/// The result of a walk over a hash btree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walked {
    /// The number of visited blocks.
    pub(crate) blocks: u64,
    /// Whether all blocks of the btree could be read.
    pub(crate) is_whole: bool,
}

/// Walks the btree from its root. A root that is a leaf is a btree of one block.
pub(crate) fn walk<T: Facts, V: LeafVisitor<T>>(
    pass: &mut Pass<'_, T>,
    fork: DaFork<'_>,
    root: FileBlock,
    visitor: &mut V,
) -> Walked {
    let budget = fork.map.blocks >> fork.blocks_log;
    let mut walk = DaWalk {
        fork,
        visitor,
        neighbours: [None; MAX_DEPTH as usize + 1],
        highest: 0,
        visited: 0,
        budget,
        is_whole: true,
    };
    walk.visit(pass, root, None);
    for (pointer, forward) in walk.neighbours.into_iter().flatten() {
        if let Some(forward) = forward.filter(|_| walk.is_whole) {
            let found = format!("the last block of a level leads on to block {}", forward.0);
            walk.problem(pass, pointer, found);
        }
    }
    Walked { blocks: walk.visited, is_whole: walk.is_whole }
}

impl<V> DaWalk<'_, '_, V> {
    fn problem<T: Facts>(&self, pass: &mut Pass<'_, T>, block: FileBlock, found: String) {
        let code = self.fork.code(Code::DirNode, Code::AttrNode);
        pass.findings.push(Finding::new(code, self.fork.place(pass, block), found));
    }

    fn lose(&mut self) {
        self.is_whole = false;
        self.neighbours = [None; MAX_DEPTH as usize + 1];
    }

    /// Visits a block and all blocks below it. Returns the highest hash below the block; `None` if
    /// it is not known, or if there is no entry.
    fn visit<T: Facts>(
        &mut self,
        pass: &mut Pass<'_, T>,
        block: FileBlock,
        expected_level: Option<u16>,
    ) -> Option<u32>
    where
        V: LeafVisitor<T>,
    {
        // The btree has no more blocks than the fork (I2).
        if self.visited >= self.budget {
            let check = DaBtreeCheck::Cycle { visited: self.visited };
            if self.is_whole {
                self.problem(pass, block, check.to_string());
            }
            self.lose();
            return None;
        }
        self.visited += 1;
        let Some(read) = self.fork.read(pass, block) else {
            if self.fork.map.find(block).is_none() {
                self.problem(pass, block, format!("block {} is not mapped", block.0));
            }
            self.lose();
            return None;
        };
        let is_node = dabtree::is_node(&read.bytes);
        let address = match self.fork.kind {
            ForkKind::Data => StructureAddress::Data(self.fork.inode.number(), block),
            ForkKind::Attr => StructureAddress::Attr(self.fork.inode.number(), block),
        };
        let node = is_node.then(|| DaNode::decode(&read.bytes, address).ok()).flatten();
        let level = node.map_or(0, |node| node.level());
        // A child of another level could lead back to its parent (I1).
        if expected_level.is_some_and(|expected| expected != level) {
            let found = format!("level {level}, expected {}", expected_level.unwrap_or_default());
            self.problem(pass, block, found);
            self.lose();
            return None;
        }
        self.check_neighbour(pass, &read, level);
        match node {
            Some(node) => {
                for entry in node.entries() {
                    let child = FileBlock(entry.before.get().into());
                    let highest = self.visit(pass, child, Some(level - 1));
                    if let Some(highest) = highest.filter(|highest| *highest != entry.hash.get()) {
                        let found = format!(
                            "hash {:#010x} for child {}, whose highest is {highest:#010x}",
                            entry.hash.get(),
                            child.0
                        );
                        self.problem(pass, block, found);
                    }
                }
                node.entries().last().map(|entry| entry.hash.get())
            }
            None if is_node => {
                self.lose();
                None
            }
            None => self.leaf(pass, &read),
        }
    }

    fn leaf<T: Facts>(&mut self, pass: &mut Pass<'_, T>, leaf: &DaBlock) -> Option<u32>
    where
        V: LeafVisitor<T>,
    {
        let (lowest, highest) = self.visitor.leaf(pass, leaf)?;
        if lowest < self.highest {
            let found = format!(
                "the first hash is {lowest:#010x}, below {:#010x} of the block before",
                self.highest
            );
            self.problem(pass, leaf.block, found);
        }
        self.highest = self.highest.max(highest);
        Some(highest)
    }

    /// Checks the forward pointer of the previous block of the level, and the back pointer of this
    /// block.
    fn check_neighbour<T: Facts>(&mut self, pass: &mut Pass<'_, T>, read: &DaBlock, level: u16) {
        let (forward, back) = (dabtree::forward(&read.bytes), dabtree::back(&read.bytes));
        let slot = self
            .neighbours
            .get_mut(usize::from(level))
            .expect("a node's level is at most the greatest depth");
        let before = slot.replace((read.block, forward));
        let expected = before.map(|(block, _)| block);
        if let Some((block, next)) = before.filter(|(_, next)| *next != Some(read.block)) {
            let next = next.map_or_else(|| "none".to_owned(), |next| next.0.to_string());
            let found = format!("the next block is {next}, expected {}", read.block.0);
            self.problem(pass, block, found);
        }
        if self.is_whole && back != expected {
            let shown = |block: Option<FileBlock>| {
                block.map_or_else(|| "none".to_owned(), |block| block.0.to_string())
            };
            let found =
                format!("the block before is {}, expected {}", shown(back), shown(expected));
            self.problem(pass, read.block, found);
        }
    }
}
