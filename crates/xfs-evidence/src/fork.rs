//! The extent map of a fork: the extents are in the inode, or in a btree that may be damaged.
//!
//! Owns: following the map without stopping at damage, the ranges that are missing, and extent
//! records that are left in free inodes. Does **not** own: the contents of the mapped blocks.
//!
//! The walk ignores sibling pointers. A block of the btree is believed if its parent points to it
//! and its header names the inode as the owner, whatever its siblings say.

mod fill;

use std::collections::HashSet;

use xfs_format::btree::{BtreeBlock, BtreeKind};
use xfs_format::extent::{
    EXTENT_BYTES, Extent, ExtentCheck, ExtentRoot, ExtentRules, FILE_BLOCK_LIMIT,
};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::{
    BlockKind, Check, Corruption, FileBlock, FsBlock, InodeNumber, Structure, StructureAddress,
};

use crate::inode::InodeEvidence;
use crate::volume::{Damage, Evidence, Trust};

/// The largest number of extents that one [`ForkEvidence`] holds. The extents of a fork beyond that
/// number are left out and reported as a damage of the kind [`Damage::OverBudget`].
pub const MOST_EXTENTS: usize = 1 << 22;
/// The largest number of blocks of one extent btree that are read.
const MOST_TREE_BLOCKS: u64 = 1 << 18;
/// The largest number of damages that are reported for one fork.
const MOST_DAMAGES: usize = 1 << 10;

/// A range of blocks of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRange {
    /// The first block of the range.
    pub start: FileBlock,
    /// The block after the last one of the range.
    pub end: FileBlock,
}

/// The map of a fork, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct ForkEvidence {
    /// The extents in file order, without overlap. Each comes from the inode or from a leaf that
    /// passed all checks.
    pub extents: Vec<Extent>,
    /// Extents from damaged leaves, and extents that overlap an earlier one. Each of these extents
    /// is valid by itself.
    pub doubtful: Vec<Extent>,
    /// The ranges of the fork whose map could not be read. Any other gap between extents is a hole.
    pub missing: Vec<FileRange>,
    /// The blocks of the fork's btree that have the right magic number and owner.
    pub tree_blocks: Vec<FsBlock>,
    /// The damages that were found while the map was read.
    pub damages: Vec<Damage>,
}

impl ForkEvidence {
    /// Returns whether the whole map was read and no damage was met.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.missing.is_empty() && self.doubtful.is_empty()
    }

    /// Returns the number of filesystem blocks that the fork takes: those of its extents and of its
    /// btree. Doubtful extents are not counted.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        let mapped = self.extents.iter().map(|extent| u64::from(extent.length_blocks));
        mapped.fold(self.tree_blocks.len() as u64, u64::saturating_add)
    }

    /// Returns the extent that maps a block of the fork, or `None` if no extent maps the block.
    /// Doubtful extents are not searched.
    #[must_use]
    pub fn find(&self, block: FileBlock) -> Option<&Extent> {
        let next = self.extents.partition_point(|extent| extent.end() <= block);
        self.extents.get(next).filter(|extent| extent.file_block <= block)
    }

    fn damage(&mut self, damage: impl Into<Damage>) {
        if self.damages.len() < MOST_DAMAGES {
            self.damages.push(damage.into());
        }
    }

    /// Sorts the extents of the inode `owner`, and moves each extent that overlaps an earlier one
    /// to `doubtful`.
    fn settle(&mut self, owner: InodeNumber) {
        self.extents.sort_by_key(|extent| (extent.file_block, extent.start));
        let mut end = FileBlock(0);
        let (kept, overlapping): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.extents).into_iter().partition(|extent| {
                let follows = extent.file_block >= end;
                end = if follows { extent.end() } else { end };
                follows
            });
        self.extents = kept;
        if let Some(first) = overlapping.first() {
            let check = ExtentCheck::Order { file_block: first.file_block, end };
            let address = StructureAddress::Inode(owner);
            self.damage(Corruption::new(Structure::Extent, address, check));
        }
        self.doubtful.extend(overlapping);
        self.missing.sort_unstable();
    }
}

/// The extents of one btree leaf that was found without a pointer to it.
#[derive(Clone, Debug)]
pub struct FoundLeaf {
    /// The inode that the leaf names as its owner.
    pub owner: InodeNumber,
    /// The extents that can be decoded. They are not checked against an inode.
    pub extents: Vec<Extent>,
    /// Whether the leaf passed all checks.
    pub trust: Trust,
}

/// A block of the extent btree that is still to be read, with its expected level and the range of
/// the fork that it should map.
#[derive(Clone, Copy)]
struct Child {
    block: FsBlock,
    level: u32,
    range: FileRange,
}

impl Evidence<'_> {
    /// Reads the map of a fork. The map of a fork in any other format than extents or btree is
    /// empty.
    ///
    /// The inode may be doubtful; then the extents in the inode are as doubtful as the inode.
    #[must_use]
    pub fn extents(&self, inode: &InodeEvidence, kind: ForkKind) -> ForkEvidence {
        let mut found = ForkEvidence::default();
        let Some(core) = inode.any_core() else { return found };
        let rules = ExtentRules::of(core, kind, self.geometry());
        let fork = inode.fork(kind);
        match core.fork_format(kind) {
            Some(ForkFormat::Extents) => {
                inline_extents(inode, kind, &rules, &mut found);
            }
            Some(ForkFormat::Btree) => self.tree_extents(inode, fork, &rules, &mut found),
            _ => {}
        }
        found.settle(inode.number);
        let count = found.extents.len() as u64;
        let expected = core.fork_extents(kind);
        let has_map =
            matches!(core.fork_format(kind), Some(ForkFormat::Extents | ForkFormat::Btree));
        if has_map && found.is_whole() && count != expected {
            let address = StructureAddress::Inode(inode.number);
            let check = ExtentCheck::Count { found: count, expected };
            found.damage(Corruption::new(Structure::Extent, address, check));
        }
        found
    }

    fn tree_extents(
        &self,
        inode: &InodeEvidence,
        fork: &[u8],
        rules: &ExtentRules<'_>,
        found: &mut ForkEvidence,
    ) {
        let all = FileRange { start: FileBlock(0), end: FileBlock(FILE_BLOCK_LIMIT) };
        let root = match ExtentRoot::decode(fork) {
            Ok(root) => root,
            Err(check) => {
                let address = StructureAddress::Inode(inode.number);
                found.damage(Corruption::new(Structure::Extent, address, check));
                found.missing.push(all);
                return;
            }
        };
        let level = u32::from(root.level()).saturating_sub(1);
        let children: Vec<_> = root.iter().collect();
        let mut stack = children_of(&children, level, all);
        let mut visited = HashSet::new();
        while let Some(child) = stack.pop() {
            let is_over =
                visited.len() as u64 >= MOST_TREE_BLOCKS || found.extents.len() >= MOST_EXTENTS;
            // E3: a budget that is used up is a damage.
            if is_over {
                found.missing.push(child.range);
                found.missing.extend(stack.iter().map(|child| child.range));
                return found.damage(Damage::OverBudget { budget: visited.len() as u64 });
            }
            if !visited.insert(child.block) {
                found.missing.push(child.range);
                continue;
            }
            stack.extend(self.extent_block(inode.number, child, rules, found));
        }
    }

    /// Reads one block of an extent btree. Returns the children of a node, the last one first.
    /// Returns no children for a leaf, but adds its extents to `found`.
    fn extent_block(
        &self,
        owner: InodeNumber,
        child: Child,
        rules: &ExtentRules<'_>,
        found: &mut ForkEvidence,
    ) -> Vec<Child> {
        let (bytes, at) = match self.read_block(child.block) {
            Ok(read) => read,
            Err(damage) => {
                found.damage(damage);
                found.missing.push(child.range);
                return Vec::new();
            }
        };
        let trust = self.judge(BlockKind::Btree(BtreeKind::Extent), &bytes, at, &mut found.damages);
        let block = BtreeBlock::decode(&bytes, BtreeKind::Extent, at).ok();
        let (Some(trust), Some(block)) = (trust, block) else {
            found.missing.push(child.range);
            return Vec::new();
        };
        if let Some(other) = block.owner().filter(|found| *found != owner.0) {
            let check = Check::ForeignOwner { found: other, expected: owner.0 };
            let address = StructureAddress::Disk(at);
            found.damage(Corruption::new(Structure::Btree, address, check));
            found.missing.push(child.range);
            return Vec::new();
        }
        found.tree_blocks.push(child.block);
        if block.is_leaf() {
            found.take_leaf(&block, trust, child.range, rules);
            return Vec::new();
        }
        // A level that does not fall would let the walk go round; the set of visited blocks ends
        // it, but the pointers of such a block are not believed.
        if block.level() > child.level {
            found.missing.push(child.range);
            return Vec::new();
        }
        let children: Vec<_> = (0..block.count())
            .filter_map(|index| {
                let key: [u8; 8] = block.key(index)?.try_into().ok()?;
                Some((FileBlock(u64::from_be_bytes(key)), FsBlock(block.pointer(index)?)))
            })
            .collect();
        children_of(&children, block.level().saturating_sub(1), child.range)
    }

    /// Reads a leaf of an extent btree at a block that a sweep of the device or the reverse map has
    /// found. Returns `None` if the block is not such a leaf.
    #[must_use]
    pub fn extent_leaf(&self, block: FsBlock) -> Option<FoundLeaf> {
        let (bytes, at) = self.read_block(block).ok()?;
        let kind = BlockKind::Btree(BtreeKind::Extent);
        let trust = self.judge(kind, &bytes, at, &mut Vec::new())?;
        let block = BtreeBlock::decode(&bytes, BtreeKind::Extent, at).ok()?;
        let extents = block.records().filter_map(Extent::decode_bytes).collect();
        let owner = InodeNumber(block.owner()?);
        block.is_leaf().then_some(FoundLeaf { owner, extents, trust })
    }

    /// Returns the extents that are left in the fork of an inode whose extent counts are lost, such
    /// as a free inode. Takes records from the start of the fork as long as each is valid by itself
    /// and follows the record before it in the file.
    ///
    /// If the fork holds the root of a btree, the extents come from those leaves of the btree that
    /// still name the inode as their owner.
    #[must_use]
    pub fn remains(&self, inode: &InodeEvidence, kind: ForkKind) -> ForkEvidence {
        let mut found = ForkEvidence::default();
        let Some(core) = inode.any_core() else { return found };
        let mut as_file = core.clone();
        as_file.mode = xfs_format::inode::FileType::Regular.mode_bits();
        let rules = ExtentRules::of(&as_file, kind, self.geometry());
        let fork = inode.fork(kind);
        let mut end = FileBlock(0);
        for extent in fork.chunks_exact(EXTENT_BYTES).filter_map(Extent::decode_bytes) {
            if extent.verify(&rules).is_err() || extent.file_block < end {
                break;
            }
            end = extent.end();
            found.extents.push(extent);
        }
        let is_root = |root: &ExtentRoot<'_>| {
            found.extents.is_empty() && root.verify(self.geometry()).is_ok()
        };
        if ExtentRoot::decode(fork).is_ok_and(|root| is_root(&root)) {
            self.tree_extents(inode, fork, &rules, &mut found);
        }
        found.settle(inode.number);
        found
    }
}

impl ForkEvidence {
    /// Adds to `missing` the blocks of an extent that fails a check.
    fn lose(&mut self, extent: &Extent) {
        if extent.length_blocks != 0 && extent.end().0 <= FILE_BLOCK_LIMIT {
            self.missing.push(FileRange { start: extent.file_block, end: extent.end() });
        }
    }

    fn take_leaf(
        &mut self,
        block: &BtreeBlock<'_>,
        trust: Trust,
        range: FileRange,
        rules: &ExtentRules<'_>,
    ) {
        // Evidence is gathered on v5 volumes only, whose blocks name their owner.
        let Some(owner) = block.owner() else { return self.missing.push(range) };
        if trust == Trust::Doubtful {
            self.missing.push(range);
        }
        for extent in block.records().filter_map(Extent::decode_bytes) {
            match (extent.verify(rules), trust) {
                (Ok(()), Trust::Sound) => self.extents.push(extent),
                (Ok(()), Trust::Doubtful) => self.doubtful.push(extent),
                (Err(_), Trust::Doubtful) => {}
                (Err(check), Trust::Sound) => {
                    let address = StructureAddress::Inode(InodeNumber(owner));
                    self.damage(Corruption::new(Structure::Extent, address, check));
                    self.lose(&extent);
                }
            }
        }
    }
}

/// Adds to the map the extents that are stored in the inode itself. Adds the file blocks of an
/// extent that fails a check to the missing ranges.
fn inline_extents(
    inode: &InodeEvidence,
    kind: ForkKind,
    rules: &ExtentRules<'_>,
    found: &mut ForkEvidence,
) {
    let address = StructureAddress::Inode(inode.number);
    let fork = inode.fork(kind);
    let count = inode.any_core().map_or(0, |core| core.fork_extents(kind));
    let records = fork.chunks_exact(EXTENT_BYTES);
    let room = records.len();
    if count > room as u64 {
        let check = ExtentCheck::Room { count, room: fork.len() };
        found.damage(Corruption::new(Structure::Extent, address, check));
    }
    let count = usize::try_from(count).map_or(room, |count| count.min(room));
    for extent in records.take(count).filter_map(Extent::decode_bytes) {
        match extent.verify(rules) {
            Ok(()) => found.extents.push(extent),
            Err(check) => {
                found.damage(Corruption::new(Structure::Extent, address, check));
                found.lose(&extent);
            }
        }
    }
}

/// Converts the entries of a node or root to pointers, each with the range of the fork that it
/// maps. The pointer of the last entry comes first, so that a stack returns them in order.
fn children_of(entries: &[(FileBlock, FsBlock)], level: u32, range: FileRange) -> Vec<Child> {
    let ends = entries.iter().skip(1).map(|(key, _)| *key).chain([range.end]);
    let children = entries.iter().zip(ends).map(|((key, block), end)| Child {
        block: *block,
        level,
        range: FileRange { start: *key, end },
    });
    let mut children: Vec<_> = children.collect();
    // The first child of a subtree covers the range from the start of the subtree.
    if let Some(first) = children.first_mut() {
        first.range.start = first.range.start.min(range.start);
    }
    children.reverse();
    children
}

#[cfg(test)]
mod tests;
