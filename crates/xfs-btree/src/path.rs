//! The path from the root of a btree to one record.
//!
//! Owns: the blocks on the path, the moves from record to record, and every check that relates one
//! block to another. Does **not** own where blocks come from: each call that may read a block is
//! given the [`Source`].

mod descent;

use xfs_buffer::Result;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, PointerForm};
use xfs_format::{
    AgBlock, AgNumber, Check, Corruption, DiskAddr, FsBlock, Geometry, Group, InodeNumber,
    Structure, StructureAddress,
};

use crate::cursor::Seek;
use crate::root::{ForkRoot, INODE_ROOT, Top, TopRoot, TreeRoot};
use crate::source::{Source, TreeBlock};
use descent::not_above_near;
pub(crate) use descent::{Direction, Towards};

/// The path to a record: the blocks from the root down to the leaf of the record, and an index in
/// each block.
///
/// After an error the path ends at the block that could not be read or failed its checks. The next
/// move skips everything below that block.
pub(crate) struct Path<F: BtreeFormat, B> {
    /// The group that the btree belongs to. A fork's btree does not use this field.
    group: AgNumber,
    /// The owner that the blocks of the btree must name.
    pub(crate) owner: u64,
    /// Number of levels of the btree that are stored in blocks. A root in an inode is not counted.
    pub(crate) levels: usize,
    pub(crate) top: Top,
    /// The blocks on the path. The first block is the root, or the child of the root if the root is
    /// in an inode. The last block is the leaf. The list has fewer than `levels` blocks before the
    /// first move and after an error.
    pub(crate) steps: Vec<PathBlock<F::Key, B>>,
    is_started: bool,
}

/// One block on the path.
#[derive(Clone, Debug)]
pub(crate) struct PathBlock<K, B> {
    pub(crate) buffer: B,
    /// The block number, relative to the group, or to the volume for a fork's btree.
    pub(crate) block: u64,
    pub(crate) at: DiskAddr,
    /// The index of the child that the path continues to; in a leaf, the index of the record.
    pub(crate) index: usize,
    /// Number of children in a node, or of records in a leaf.
    pub(crate) count: usize,
    /// The upper limit: all keys in the block, and in the blocks below it, are less than this key.
    /// `None` at the right edge of the btree, where there is no limit.
    pub(crate) upper: Option<K>,
}

impl<F: BtreeFormat, B: TreeBlock> Path<F, B> {
    /// Creates a path in a btree of an allocation group. The path has no blocks yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the group does not exist, or the root's level is impossible.
    pub(crate) fn in_group(
        geometry: &Geometry,
        group: AgNumber,
        root: BtreeRoot,
    ) -> Result<Self, Corruption> {
        let corrupt =
            |check| Corruption::new(Structure::Btree, StructureAddress::Group(group), check);
        Group::new(geometry, group).ok_or_else(|| corrupt(BtreeCheck::Outside))?;
        let max = F::KIND.max_levels(geometry);
        if root.levels == 0 || root.levels > max {
            return Err(corrupt(BtreeCheck::Level { level: root.levels, max }));
        }
        let top = Top::new(TopRoot::Header(root.block.0.into()));
        Ok(Self::start(group, group.0.into(), root.levels as usize, top))
    }

    /// Creates a path in the btree of a fork of `inode`. The path has no blocks yet.
    pub(crate) fn in_inode(inode: InodeNumber, root: ForkRoot) -> Self {
        let levels = root.level.into();
        Self::start(AgNumber(0), inode.0, levels, Top::new(TopRoot::Inode(root)))
    }

    /// Creates a path in a btree of a realtime group, which `owner` owns. It has no blocks yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the root's level is impossible.
    pub(crate) fn in_tree(
        geometry: &Geometry,
        owner: InodeNumber,
        root: TreeRoot,
    ) -> Result<Self, Corruption> {
        let max = F::KIND.max_levels(geometry);
        if root.levels == 0 || root.levels > max {
            let check = BtreeCheck::Level { level: root.levels, max };
            return Err(Corruption::new(Structure::Btree, StructureAddress::Inode(owner), check));
        }
        let top = Top::new(TopRoot::Header(root.block));
        Ok(Self::start(AgNumber(0), owner.0, root.levels as usize, top))
    }

    fn start(group: AgNumber, owner: u64, levels: usize, top: Top) -> Self {
        let steps = Vec::with_capacity(levels);
        Self { group, owner, levels, top, steps, is_started: false }
    }

    /// Returns the record at the end of the path; `None` if there is no record.
    pub(crate) fn record(&self, geometry: &Geometry) -> Result<Option<F::Record>> {
        match self.leaf() {
            Some(leaf) if leaf.index < leaf.count => {
                self.record_at(geometry, leaf, leaf.index).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn first(&mut self, source: &impl Source<Block = B>) -> Result<Option<F::Record>> {
        self.restart();
        self.descend(source, 0, Towards::First)?;
        self.record(source.geometry())
    }

    pub(crate) fn last(&mut self, source: &impl Source<Block = B>) -> Result<Option<F::Record>> {
        self.restart();
        self.descend(source, 0, Towards::Last)?;
        self.record(source.geometry())
    }

    pub(crate) fn seek(
        &mut self,
        source: &impl Source<Block = B>,
        seek: Seek<F::Key>,
    ) -> Result<Option<F::Record>> {
        let (Seek::AtOrBefore(key) | Seek::AtOrAfter(key)) = seek;
        // The path ends on the last record whose key is at most `key`, or else on the first record
        // of the leaf.
        let decode = |record: &[u8], group: &Group<'_>| F::decode_record(record, group);
        let found = match self.move_in_leaf(source.geometry(), key, decode)? {
            Some(record) => Some(record),
            None => {
                self.restart();
                self.descend(source, 0, Towards::Key(key))?;
                self.record(source.geometry())?
            }
        };
        let order = found.map(|record| F::key(&record).cmp(&key));
        match (seek, order) {
            (Seek::AtOrBefore(_), Some(order)) if order.is_gt() => self.retreat(source),
            (Seek::AtOrAfter(_), Some(order)) if order.is_lt() => self.advance(source),
            _ => Ok(found),
        }
    }

    /// Moves to the last record whose key is at most `key`, or to the first record if all keys are
    /// above `key`. If the path leads to the right leaf already, reads no block above the leaf.
    pub(crate) fn go_towards(
        &mut self,
        source: &impl Source<Block = B>,
        key: F::Key,
    ) -> Result<()> {
        if self.move_in_leaf(source.geometry(), key, |_, _| Ok(()))?.is_some() {
            return Ok(());
        }
        self.restart();
        self.descend(source, 0, Towards::Key(key))
    }

    /// Moves, within the current leaf, to the record where a descent towards `key` would end.
    /// Returns the result of `look` for that record. Returns `None`, without a move, if `key` may
    /// belong in another leaf.
    fn move_in_leaf<R>(
        &mut self,
        geometry: &Geometry,
        key: F::Key,
        look: impl FnOnce(&[u8], &Group<'_>) -> Result<R, Check>,
    ) -> Result<Option<R>> {
        let Some(leaf) = self.leaf() else { return Ok(None) };
        if leaf.count == 0 || leaf.upper.is_some_and(|upper| upper <= key) {
            return Ok(None);
        }
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let group = self.group(geometry);
        let key_at = |index| Self::entry_key(&group, &block, index);
        let before = not_above_near(block.count(), leaf.index, key, key_at);
        let before = before.map_err(|check| corrupt(leaf.at, check))?;
        if before == 0 && block.left_sibling().is_some() {
            return Ok(None);
        }
        let index = before.saturating_sub(1);
        let record = record_of(&block, index);
        let seen = record.and_then(|record| look(record, &group));
        let seen = seen.map_err(|check| corrupt(leaf.at, check))?;
        drop(bytes);
        self.leaf_mut().expect("the leaf was read above").index = index;
        Ok(Some(seen))
    }

    /// Drops the blocks of the path, which may no longer belong to the btree. The next move starts
    /// at the root.
    pub(crate) fn forget(&mut self) {
        self.steps.clear();
    }

    /// Returns whether this is a path in the btree of `group` with the root `root`.
    pub(crate) fn is_in(&self, group: AgNumber, root: BtreeRoot) -> bool {
        let TopRoot::Header(block) = &self.top.root else { return false };
        let is_root = *block == u64::from(root.block.0) && self.levels == root.levels as usize;
        is_root && self.group == group
    }

    pub(crate) fn advance(&mut self, source: &impl Source<Block = B>) -> Result<Option<F::Record>> {
        if !self.is_started {
            return self.first(source);
        }
        if let Some(leaf) = self.leaf_mut()
            && leaf.index + 1 < leaf.count
        {
            leaf.index += 1;
            return self.record(source.geometry());
        }
        let moved = self.shift(source, Direction::Forward)?;
        if moved { self.record(source.geometry()) } else { Ok(None) }
    }

    pub(crate) fn retreat(&mut self, source: &impl Source<Block = B>) -> Result<Option<F::Record>> {
        if !self.is_started {
            return self.last(source);
        }
        if let Some(leaf) = self.leaf_mut()
            && let Some(index) = leaf.index.checked_sub(1)
        {
            leaf.index = index;
            return self.record(source.geometry());
        }
        let moved = self.shift(source, Direction::Backward)?;
        if moved { self.record(source.geometry()) } else { Ok(None) }
    }

    /// Returns whether the path has been moved since it was created.
    pub(crate) const fn is_started(&self) -> bool {
        self.is_started
    }

    /// Decodes the records of the current leaf, from the path's record on, and stores them in
    /// `into`.
    pub(crate) fn read_leaf(&self, geometry: &Geometry, into: &mut Vec<F::Record>) -> Result<()> {
        let Some(leaf) = self.leaf() else { return Ok(()) };
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let group = self.group(geometry);
        for record in block.records().skip(leaf.index) {
            let record = F::decode_record(record, &group);
            into.push(record.map_err(|check| corrupt(leaf.at, check))?);
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.steps.clear();
        self.top.index = 0;
        self.is_started = true;
    }

    pub(crate) fn leaf(&self) -> Option<&PathBlock<F::Key, B>> {
        self.steps.get(self.levels.checked_sub(1)?)
    }

    pub(crate) fn leaf_mut(&mut self) -> Option<&mut PathBlock<F::Key, B>> {
        self.steps.get_mut(self.levels.checked_sub(1)?)
    }

    pub(crate) fn record_at(
        &self,
        geometry: &Geometry,
        leaf: &PathBlock<F::Key, B>,
        index: usize,
    ) -> Result<F::Record> {
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let record = record_of(&block, index);
        let record = record.and_then(|record| F::decode_record(record, &self.group(geometry)));
        record.map_err(|check| corrupt(leaf.at, check).into())
    }

    pub(crate) fn group<'a>(&self, geometry: &'a Geometry) -> Group<'a> {
        Group::new(geometry, self.group).expect("a path is created for an existing group only")
    }

    /// Returns the address of a block of the btree, or `None` if the block lies outside the volume.
    pub(crate) fn disk_addr(&self, geometry: &Geometry, block: u64) -> Option<DiskAddr> {
        match F::KIND.layout().form {
            PointerForm::Short => {
                let block = AgBlock(u32::try_from(block).ok()?);
                let is_inside = self.group(geometry).contains_block(block);
                is_inside.then(|| geometry.ag_block_disk_addr(self.group, block))
            }
            PointerForm::Long if block == INODE_ROOT => Some(DiskAddr::NULL),
            PointerForm::Long => geometry.block_disk_addr(FsBlock(block)),
        }
    }
}

/// Returns the bytes of record `index` of a leaf. An index past the last record is an error and not
/// a panic, because a damaged block may have no records.
#[inline]
fn record_of<'a>(block: &BtreeBlock<'a>, index: usize) -> Result<&'a [u8], Check> {
    block.record(index).ok_or_else(|| BtreeCheck::Order { index }.into())
}

#[cold]
pub(crate) fn corrupt(at: DiskAddr, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Btree, StructureAddress::Disk(at), check)
}
