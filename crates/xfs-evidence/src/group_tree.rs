//! The walk over a btree of a group whose blocks may be damaged.
//!
//! Owns: reading one block of a group's btree, and the order in which a walk from a root reaches
//! the blocks. Does **not** own: the records, or the decision which blocks are believed. The
//! visitor of a walk makes this decision: `records.rs` for a salvage, and `xfs-repair` for a
//! rebuild.
//!
//! A walk visits each block at most once, so it ends, and it reads no more blocks than the group
//! has.

use std::collections::BTreeSet;

use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::{
    AgBlock, BlockKind, Check, Corruption, DiskAddr, Group, Structure, StructureAddress,
};

use crate::volume::{Damage, Evidence};

/// A pointer to a block of a group's btree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePointer {
    /// The block.
    pub block: AgBlock,
    /// The level that the parent of the block requires. `None` if it is not known.
    pub level: Option<u32>,
}

/// A block of a group's btree that was read. Its magic number, UUID, address and owner are right.
#[derive(Clone, Debug)]
pub struct TreeBlock {
    /// The pointer that led to the block.
    pub pointer: TreePointer,
    /// The check that the block fails, such as the check of its checksum. `None` if the block is
    /// sound.
    pub failed: Option<Corruption>,
    bytes: Vec<u8>,
    kind: BtreeKind,
    at: DiskAddr,
}

impl TreeBlock {
    /// Returns the decoded block.
    ///
    /// # Panics
    ///
    /// Never panics: the block was decoded when it was read.
    #[must_use]
    pub fn view(&self) -> BtreeBlock<'_> {
        BtreeBlock::decode(&self.bytes, self.kind, self.at).expect("the block was decoded")
    }
}

/// The receiver of the blocks of a walk.
pub trait TreeVisitor {
    /// Receives a block. Returns the level that the children of the block must have if the walk
    /// continues with them, and `None` if it does not.
    fn visit(&mut self, block: &TreeBlock) -> Option<u32>;

    /// Receives a pointer to a block that the walk cannot use, with the damages of the block.
    /// `damages` is empty if the block lies outside of the group or was visited before.
    fn miss(&mut self, pointer: TreePointer, damages: Vec<Damage>);
}

impl Evidence<'_> {
    /// Reads one block of a btree of a group.
    ///
    /// # Errors
    ///
    /// Returns the damages if the block cannot be read or is not a block of this btree.
    pub fn tree_block(
        &self,
        group: &Group<'_>,
        kind: BtreeKind,
        pointer: TreePointer,
    ) -> Result<TreeBlock, Vec<Damage>> {
        let block = pointer.block;
        if !group.contains_block(block) {
            return Err(Vec::new());
        }
        let at = self.geometry().ag_block_disk_addr(group.number(), block);
        let mut bytes = vec![0; self.geometry().block_size as usize];
        self.read_metadata(at, &mut bytes).map_err(|damage| vec![damage])?;
        let mut damages = Vec::new();
        let trust = self.judge(BlockKind::Btree(kind), &bytes, at, &mut damages);
        let owner = match BtreeBlock::decode(&bytes, kind, at) {
            Ok(view) if trust.is_some() => view.owner(),
            _ => return Err(damages),
        };
        let expected = u64::from(group.number().0);
        if let Some(found) = owner.filter(|owner| *owner != expected) {
            let check = Check::ForeignOwner { found, expected };
            let address = StructureAddress::Disk(at);
            damages.push(Corruption::new(Structure::Btree, address, check).into());
            return Err(damages);
        }
        let failed = damages.into_iter().find_map(|damage| match damage {
            Damage::Corrupt(corruption) => Some(corruption),
            _ => None,
        });
        Ok(TreeBlock { pointer, failed, bytes, kind, at })
    }

    /// Passes the blocks of a btree of a group to `visitor`, from the root on, in the order of
    /// keys.
    pub fn walk_tree(
        &self,
        group: &Group<'_>,
        kind: BtreeKind,
        root: TreePointer,
        visitor: &mut impl TreeVisitor,
    ) {
        let mut visited = BTreeSet::new();
        let mut stack = vec![root];
        while let Some(pointer) = stack.pop() {
            if !visited.insert(pointer.block) {
                visitor.miss(pointer, Vec::new());
                continue;
            }
            let block = match self.tree_block(group, kind, pointer) {
                Ok(block) => block,
                Err(damages) => {
                    visitor.miss(pointer, damages);
                    continue;
                }
            };
            let Some(below) = visitor.visit(&block) else { continue };
            let view = block.view();
            let children = (0..view.count()).rev().filter_map(|index| view.pointer(index));
            let children = children.filter_map(|child| u32::try_from(child).ok());
            stack.extend(
                children.map(|child| TreePointer { block: AgBlock(child), level: Some(below) }),
            );
        }
    }
}
