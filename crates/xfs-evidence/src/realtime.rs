//! The btrees of realtime groups: records, and the blocks that hold them.
//!
//! Owns: the walk from the root in a metadata inode, past damaged blocks, and the comparison of
//! each block with its neighbours and its parent. Does **not** own: which records are right.
//!
//! A block is believed if its checksum, address and owner are right, as in the map of a fork.

use std::collections::HashSet;

use xfs_format::FsBlock;
use xfs_format::btree::BtreeFormat;
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::realtime::{
    KeyOf, RealtimeGroup, RealtimeRefcountTree, RealtimeReverseMapTree, RealtimeTree,
    RealtimeTreeBlock, RealtimeTreeEntries, decode_keys, verify_entries, verify_tree_block,
};
use xfs_format::refcount::Refcount;
use xfs_format::rmap::Rmap;

use crate::inode::InodeEvidence;
use crate::volume::Evidence;

/// The largest number of blocks of one btree that are read.
const MOST_BLOCKS: usize = 1 << 18;
/// The value of `di_metatype` in the inode of a reverse map.
const REVERSE_MAP_METATYPE: u16 = 7;

/// The records of a realtime group's btree, as far as they could be read.
#[derive(Clone, Debug)]
pub struct RealtimeTreeEvidence<R> {
    /// The records of sound leaves, in the order of the btree.
    pub records: Vec<R>,
    /// The blocks of the btree that name the inode as their owner. The root is in the inode and not
    /// among them.
    pub tree_blocks: Vec<FsBlock>,
    /// The blocks to which the btree points and that are damaged.
    pub damaged_blocks: Vec<FsBlock>,
    /// Whether every block could be read and passed its checks, so that all records are known.
    pub is_whole: bool,
    /// Whether also the keys of all nodes equal those of the records below, and all sibling
    /// pointers are right.
    pub is_exact: bool,
}

/// The blocks of a realtime group's btree.
#[derive(Clone, Debug, Default)]
pub struct RealtimeTreeBlocks {
    /// The blocks that name the inode as their owner.
    pub tree_blocks: Vec<FsBlock>,
    /// The blocks to which the btree points and that are damaged.
    pub damaged_blocks: Vec<FsBlock>,
    /// Whether every block could be read and passed its checks, so that all blocks are known.
    pub is_whole: bool,
}

impl<R> RealtimeTreeEvidence<R> {
    const fn empty() -> Self {
        Self {
            records: Vec::new(),
            tree_blocks: Vec::new(),
            damaged_blocks: Vec::new(),
            is_whole: true,
            is_exact: true,
        }
    }

    fn lose(&mut self) {
        (self.is_whole, self.is_exact) = (false, false);
    }

    fn into_blocks(self) -> RealtimeTreeBlocks {
        let Self { tree_blocks, damaged_blocks, is_whole, .. } = self;
        RealtimeTreeBlocks { tree_blocks, damaged_blocks, is_whole }
    }
}

impl Evidence<'_> {
    /// Reads the reverse map of a realtime group, whose root is in `inode`.
    #[must_use]
    pub fn realtime_reverse_map(
        &self,
        inode: &InodeEvidence,
        group: u32,
    ) -> RealtimeTreeEvidence<Rmap> {
        self.realtime_tree::<RealtimeReverseMapTree>(inode, group)
    }

    /// Reads the reference counts of a realtime group, whose root is in `inode`.
    #[must_use]
    pub fn realtime_refcounts(
        &self,
        inode: &InodeEvidence,
        group: u32,
    ) -> RealtimeTreeEvidence<Refcount> {
        self.realtime_tree::<RealtimeRefcountTree>(inode, group)
    }

    /// Returns the blocks of the btree whose root is in a metadata inode. The inode states the kind
    /// of the btree and its realtime group.
    #[must_use]
    pub fn realtime_tree_blocks(&self, inode: &InodeEvidence) -> RealtimeTreeBlocks {
        let Some(core) = inode.any_core() else { return RealtimeTreeBlocks::default() };
        let group = core.project_id;
        match core.metafile_type {
            REVERSE_MAP_METATYPE => self.realtime_reverse_map(inode, group).into_blocks(),
            _ => self.realtime_refcounts(inode, group).into_blocks(),
        }
    }

    fn realtime_tree<T: RealtimeTree>(
        &self,
        inode: &InodeEvidence,
        number: u32,
    ) -> RealtimeTreeEvidence<RecordOf<T>> {
        let found = RealtimeTreeEvidence::empty();
        let mut walk = Walk::<T> {
            evidence: self,
            owner: inode.number.0,
            group: RealtimeGroup {
                geometry: self.geometry(),
                number,
                has_superblock: self.superblock().has_realtime_superblock(),
            },
            neighbours: Vec::new(),
            visited: HashSet::new(),
            last: None,
            found,
        };
        let is_tree =
            inode.any_core().is_some_and(|core| core.data_format == ForkFormat::MetadataBtree);
        let root = RealtimeTreeEntries::of_root::<T>(inode.fork(ForkKind::Data));
        match root {
            Ok(root) if is_tree => {
                walk.neighbours = vec![Neighbour::First; root.level().into()];
                if verify_entries::<T>(&root, &walk.group).is_err() {
                    walk.found.lose();
                }
                walk.entries(&root);
                walk.finish();
            }
            _ => walk.found.lose(),
        }
        walk.found
    }
}

type RecordOf<T> = <<T as RealtimeTree>::Format as BtreeFormat>::Record;

/// The block of one level that the walk has visited last, for the check of sibling pointers.
#[derive(Clone, Copy)]
enum Neighbour {
    First,
    Block { block: FsBlock, right: Option<FsBlock> },
    Unknown,
}

/// The lowest and the highest key of the records below a block.
type Keys<T> = Option<(KeyOf<T>, KeyOf<T>)>;

/// A walk over a btree.
struct Walk<'w, T: RealtimeTree> {
    evidence: &'w Evidence<'w>,
    owner: u64,
    group: RealtimeGroup<'w>,
    /// For each level, from the leaves up, the block that was visited last.
    neighbours: Vec<Neighbour>,
    visited: HashSet<FsBlock>,
    last: Option<RecordOf<T>>,
    found: RealtimeTreeEvidence<RecordOf<T>>,
}

impl<T: RealtimeTree> Walk<'_, T> {
    /// Reads the records of a leaf, or the blocks below a node. Returns the lowest and the highest
    /// key of these records.
    fn entries(&mut self, entries: &RealtimeTreeEntries<'_>) -> Keys<T> {
        let mut all: Keys<T> = None;
        let mut widen = |keys: Keys<T>| {
            all = match (all, keys) {
                (Some((low, high)), Some((_, next))) => Some((low, high.max(next))),
                (None, keys) | (keys, None) => keys,
            };
        };
        for bytes in entries.records() {
            let Ok(record) = T::decode(bytes, &self.group) else {
                self.found.lose();
                continue;
            };
            if self.last.is_some_and(|last| !T::Format::may_follow(&record, &last)) {
                self.found.lose();
            }
            self.last = Some(record);
            widen(Some((T::Format::key(&record), T::Format::high_key(&record))));
            self.found.records.push(record);
        }
        for (keys, block) in entries.children() {
            let (low, high) = decode_keys::<T>(keys);
            let below = self.block(block, entries.level() - 1);
            let is_right = below.is_none_or(|(first, last)| {
                low == Some(first) && (!T::HAS_HIGH_KEYS || high == Some(last))
            });
            self.found.is_exact &= is_right;
            widen(below);
        }
        all
    }

    fn block(&mut self, block: FsBlock, level: u16) -> Keys<T> {
        if self.visited.len() >= MOST_BLOCKS || !self.visited.insert(block) {
            self.found.lose();
            return None;
        }
        let keys = self.read(block, level);
        if keys.is_none() {
            self.found.lose();
            self.found.damaged_blocks.push(block);
            if let Some(neighbour) = self.neighbours.get_mut(usize::from(level)) {
                *neighbour = Neighbour::Unknown;
            }
        }
        keys.flatten()
    }

    /// Reads one block. Returns `None` if it cannot be believed.
    fn read(&mut self, block: FsBlock, level: u16) -> Option<Keys<T>> {
        let (bytes, at) = self.evidence.read_block(block).ok()?;
        let context = self.evidence.context();
        verify_tree_block::<T>(&bytes, at, &self.group, &context).ok()?;
        let view = RealtimeTreeBlock::decode::<T>(&bytes, at).ok()?;
        if view.owner != self.owner || view.entries.level() != level {
            return None;
        }
        self.found.tree_blocks.push(block);
        let neighbour = self.neighbours.get_mut(usize::from(level))?;
        self.found.is_exact &= match *neighbour {
            Neighbour::First => view.left.is_none(),
            Neighbour::Block { block: left, right } => {
                view.left == Some(left) && right == Some(block)
            }
            Neighbour::Unknown => true,
        };
        *neighbour = Neighbour::Block { block, right: view.right };
        Some(self.entries(&view.entries))
    }

    /// Checks that the last block of each level has no right sibling.
    fn finish(&mut self) {
        let is_last =
            |neighbour: &Neighbour| !matches!(neighbour, Neighbour::Block { right: Some(_), .. });
        self.found.is_exact &= self.neighbours.iter().all(is_last);
    }
}
