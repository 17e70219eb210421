//! The records of a group's btrees, as far as they can be read.
//!
//! Owns: following one btree from its root without stopping at damage, and the records of leaves
//! that were found without a pointer. Does **not** own: the meaning of records.

use std::collections::HashSet;

use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeBlock, BtreeFormat, BtreeKind};
use xfs_format::{
    AgBlock, AgNumber, BlockKind, Check, Corruption, DiskAddr, Group, Structure, StructureAddress,
};

use crate::volume::{Damage, Evidence, Trust};

/// The largest number of damages that are reported for one btree.
const MOST_DAMAGES: usize = 1 << 10;

/// The outcome of reading the records of a btree.
#[derive(Clone, Debug, Default)]
pub struct GroupRecords {
    /// Whether the whole btree was read and passed all checks.
    pub is_whole: bool,
    /// The blocks of the btree that were read, from the root.
    pub blocks: Vec<AgBlock>,
    /// The damages that were found while the btree was read.
    pub damages: Vec<Damage>,
}

impl GroupRecords {
    fn damage(&mut self, damage: impl Into<Damage>) {
        self.is_whole = false;
        if self.damages.len() < MOST_DAMAGES {
            self.damages.push(damage.into());
        }
    }
}

impl Evidence<'_> {
    /// Reads the AGF of a group.
    ///
    /// # Errors
    ///
    /// Returns the damage that prevents it.
    pub fn agf(&self, group: AgNumber) -> Result<Agf, Damage> {
        let (bytes, at) = self.header(group, 1)?;
        self.sound_header(BlockKind::Agf, &bytes, at)?;
        Ok(Agf::decode(&bytes, at, self.geometry())?)
    }

    /// Reads the AGI of a group.
    ///
    /// # Errors
    ///
    /// Returns the damage that prevents it.
    pub fn agi(&self, group: AgNumber) -> Result<Agi, Damage> {
        let (bytes, at) = self.header(group, 2)?;
        self.sound_header(BlockKind::Agi, &bytes, at)?;
        Ok(Agi::decode(&bytes, at, self.geometry())?)
    }

    fn header(&self, group: AgNumber, index: u32) -> Result<(Vec<u8>, DiskAddr), Damage> {
        let at = self.geometry().header_disk_addr(group, index);
        let mut bytes = vec![0; self.geometry().sector_size as usize];
        self.read_metadata(at, &mut bytes)?;
        Ok((bytes, at))
    }

    fn sound_header(&self, kind: BlockKind, bytes: &[u8], at: DiskAddr) -> Result<(), Damage> {
        Ok(kind.verify(bytes, at, &self.context())?)
    }

    /// Passes to `on_record` the records of one btree of a group, in the order of the btree. The
    /// root is taken from the group's header, which must be sound.
    ///
    /// Records of leaves that fail a check are passed as [`Trust::Doubtful`], as far as each of
    /// them can be decoded.
    pub fn group_records<F: BtreeFormat>(
        &self,
        group: AgNumber,
        mut on_record: impl FnMut(&F::Record, Trust),
    ) -> GroupRecords {
        let mut found = GroupRecords { is_whole: true, ..GroupRecords::default() };
        let Some(group) = Group::new(self.geometry(), group) else {
            found.is_whole = false;
            return found;
        };
        let root = match self.root_of(group.number(), F::KIND) {
            Ok(Some(root)) => root,
            Ok(None) => return found,
            Err(damage) => {
                found.damage(damage);
                return found;
            }
        };
        let mut visited = HashSet::new();
        let mut stack = vec![(root, None)];
        while let Some((block, level)) = stack.pop() {
            if !visited.insert(block) || !group.contains_block(block) {
                found.is_whole = false;
                continue;
            }
            let read = self.btree_block::<F>(&group, (block, level), &mut found, &mut on_record);
            stack.extend(read);
        }
        found
    }

    fn root_of(&self, group: AgNumber, kind: BtreeKind) -> Result<Option<AgBlock>, Damage> {
        let of_agf = |pick: fn(&Agf) -> Option<AgBlock>| self.agf(group).map(|agf| pick(&agf));
        match kind {
            BtreeKind::FreeSpaceByBlock => of_agf(|agf| Some(agf.free_space_by_block.block)),
            BtreeKind::FreeSpaceBySize => of_agf(|agf| Some(agf.free_space_by_size.block)),
            BtreeKind::ReverseMap => of_agf(|agf| agf.reverse_map.map(|root| root.block)),
            BtreeKind::Refcount => of_agf(|agf| agf.refcount.map(|root| root.block)),
            BtreeKind::Inode => self.agi(group).map(|agi| Some(agi.inode_btree.block)),
            BtreeKind::FreeInode => {
                self.agi(group).map(|agi| agi.free_inode_btree.map(|root| root.block))
            }
            BtreeKind::Extent => Ok(None),
        }
    }

    /// Reads one block of a btree. Returns the children of a node with their level, last first.
    /// Passes the records of a leaf to `on_record`, and returns no children.
    fn btree_block<F: BtreeFormat>(
        &self,
        group: &Group<'_>,
        pointer: Pointer,
        found: &mut GroupRecords,
        on_record: &mut impl FnMut(&F::Record, Trust),
    ) -> Vec<Pointer> {
        let (block, expected) = pointer;
        let at = self.geometry().ag_block_disk_addr(group.number(), block);
        let mut bytes = vec![0; self.geometry().block_size as usize];
        if let Err(damage) = self.read_metadata(at, &mut bytes) {
            found.damage(damage);
            return Vec::new();
        }
        let mut damages = Vec::new();
        let trust = self.judge(BlockKind::Btree(F::KIND), &bytes, at, &mut damages);
        damages.into_iter().for_each(|damage| found.damage(damage));
        let decoded = BtreeBlock::decode(&bytes, F::KIND, at).ok();
        let (Some(trust), Some(node)) = (trust, decoded) else { return Vec::new() };
        let owner = u64::from(group.number().0);
        if let Some(other) = node.owner().filter(|found| *found != owner) {
            let check = Check::ForeignOwner { found: other, expected: owner };
            found.damage(Corruption::new(Structure::Btree, StructureAddress::Disk(at), check));
            return Vec::new();
        }
        found.blocks.push(block);
        if node.is_leaf() {
            pass_records::<F>(&node, group, trust, on_record);
            return Vec::new();
        }
        if expected.is_some_and(|expected| node.level() > expected) {
            found.is_whole = false;
            return Vec::new();
        }
        let below = node.level().saturating_sub(1);
        let children = (0..node.count()).rev().filter_map(|index| node.pointer(index));
        children
            .filter_map(|child| Some((AgBlock(u32::try_from(child).ok()?), Some(below))))
            .collect()
    }

    /// Passes to `on_record` the records of a leaf that a sweep of the device has found. Returns
    /// `false` if `block` is not such a leaf.
    ///
    /// A leaf that the btree has freed keeps its checksum, so the records may be stale. The caller
    /// decides whether to use them.
    pub fn leaf_records<F: BtreeFormat>(
        &self,
        group: AgNumber,
        block: AgBlock,
        mut on_record: impl FnMut(&F::Record, Trust),
    ) -> bool {
        let Some(group) = Group::new(self.geometry(), group) else { return false };
        let at = self.geometry().ag_block_disk_addr(group.number(), block);
        let mut bytes = vec![0; self.geometry().block_size as usize];
        if !group.contains_block(block) || self.read_metadata(at, &mut bytes).is_err() {
            return false;
        }
        let trust = self.judge(BlockKind::Btree(F::KIND), &bytes, at, &mut Vec::new());
        let decoded = BtreeBlock::decode(&bytes, F::KIND, at).ok();
        match (trust, decoded) {
            (Some(trust), Some(leaf)) if leaf.is_leaf() => {
                pass_records::<F>(&leaf, &group, trust, &mut on_record);
                true
            }
            _ => false,
        }
    }
}

/// A block of a btree, and the level that its parent requires. The level is `None` for the root.
type Pointer = (AgBlock, Option<u32>);

fn pass_records<F: BtreeFormat>(
    leaf: &BtreeBlock<'_>,
    group: &Group<'_>,
    trust: Trust,
    on_record: &mut impl FnMut(&F::Record, Trust),
) {
    for record in leaf.records().filter_map(|bytes| F::decode_record(bytes, group).ok()) {
        on_record(&record, trust);
    }
}
