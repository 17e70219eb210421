//! A place in a btree.

mod descent;

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, Extents, PointerForm};
use xfs_format::extent::ExtentRoot;
use xfs_format::{
    AgBlock, AgNumber, Check, Corruption, DiskAddr, FsBlock, Group, InodeNumber, Place, Structure,
};

use descent::{Direction, Towards};

use crate::records::{Leaves, Records};

/// Which record to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek<K> {
    /// The last one whose key is not above this.
    #[doc(alias = "XFS_LOOKUP_LE")]
    AtOrBefore(K),
    /// The first one whose key is not below this.
    #[doc(alias = "XFS_LOOKUP_GE")]
    AtOrAfter(K),
}

/// A place in a btree: a record, and the blocks from the root down to it.
///
/// After an error the cursor stands on the block that could not be read or believed. Moving on
/// skips all that is below it, so that a damaged btree can be read as far as it is whole.
pub struct Cursor<'a, F: BtreeFormat> {
    cache: &'a BufferCache,
    /// The group that the btree belongs to; without meaning for a fork's.
    group: Group<'a>,
    /// What its blocks must name as their owner.
    owner: u64,
    /// Levels in blocks: one less than the btree has if its root is in an inode.
    levels: usize,
    top: Top<F::Key>,
    /// The root, or the child of the root in the inode, first; the leaf last. Shorter than
    /// `levels` before the first move and after an error.
    path: Vec<Step<F::Key>>,
    is_started: bool,
}

/// What stands above the highest block: one pointer in a header, or the root in an inode.
#[derive(Debug)]
struct Top<K> {
    children: Vec<(Option<K>, u64)>,
    index: usize,
}

/// One block on the path.
#[derive(Debug)]
struct Step<K> {
    buffer: Buffer,
    /// Its number, in the form of the btree's pointers.
    block: u64,
    at: DiskAddr,
    /// The child that the path goes on to; in a leaf, the record.
    index: usize,
    /// How many children or records there are.
    count: usize,
    /// Keys at and below are under this; `None` at the right edge.
    upper: Option<K>,
}

impl<'a, F: BtreeFormat> Cursor<'a, F> {
    /// A cursor in a btree of an allocation group; it stands nowhere yet.
    ///
    /// # Errors
    ///
    /// There must be such a group.
    pub fn new(cache: &'a BufferCache, group: AgNumber, root: BtreeRoot) -> Result<Self> {
        let outside =
            || Corruption::new(Structure::Btree, Place::Group(group), BtreeCheck::Outside);
        let owner = group.0.into();
        let group = Group::new(cache.geometry(), group).ok_or_else(outside)?;
        let max = F::KIND.max_levels(cache.geometry());
        if root.levels == 0 || root.levels > max {
            let check = BtreeCheck::Level { level: root.levels, max };
            return Err(
                Corruption::new(Structure::Btree, Place::Group(group.number()), check).into()
            );
        }
        let top = Top { children: vec![(None, root.block.0.into())], index: 0 };
        Ok(Self::start(cache, group, owner, root.levels as usize, top))
    }

    fn start(
        cache: &'a BufferCache,
        group: Group<'a>,
        owner: u64,
        levels: usize,
        top: Top<F::Key>,
    ) -> Self {
        let path = Vec::with_capacity(levels);
        Self { cache, group, owner, levels, top, path, is_started: false }
    }

    /// The record that the cursor stands on, if it stands on one.
    ///
    /// # Errors
    ///
    /// A record that cannot be believed.
    pub fn record(&self) -> Result<Option<F::Record>> {
        match self.leaf() {
            Some(leaf) if leaf.index < leaf.count => self.record_at(leaf, leaf.index).map(Some),
            _ => Ok(None),
        }
    }

    /// Goes to the first record of the btree.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn first(&mut self) -> Result<Option<F::Record>> {
        self.restart();
        self.descend(0, Towards::First)?;
        self.record()
    }

    /// Goes to the last record of the btree.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn last(&mut self) -> Result<Option<F::Record>> {
        self.restart();
        self.descend(0, Towards::Last)?;
        self.record()
    }

    /// Goes to the record asked for and returns it; `None` if there is none on that side. Then the
    /// cursor stands on the first record, or on the last, if the btree has any.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn seek(&mut self, seek: Seek<F::Key>) -> Result<Option<F::Record>> {
        let (Seek::AtOrBefore(key) | Seek::AtOrAfter(key)) = seek;
        self.restart();
        self.descend(0, Towards::Key(key))?;
        // The descent ends on the last record that is not above the key, or else on the first one
        // of the leaf.
        let found = self.record()?;
        let order = found.map(|record| F::key(&record).cmp(&key));
        match (seek, order) {
            (Seek::AtOrBefore(_), Some(order)) if order.is_gt() => self.retreat(),
            (Seek::AtOrAfter(_), Some(order)) if order.is_lt() => self.advance(),
            _ => Ok(found),
        }
    }

    /// Goes to the next record and returns it; `None` at the end, where the cursor stays. A cursor
    /// that stands nowhere yet goes to the first.
    ///
    /// # Errors
    ///
    /// The device's error, or a block that cannot be believed.
    pub fn advance(&mut self) -> Result<Option<F::Record>> {
        if !self.is_started {
            return self.first();
        }
        if let Some(leaf) = self.leaf_mut()
            && leaf.index + 1 < leaf.count
        {
            leaf.index += 1;
            return self.record();
        }
        if self.shift(Direction::Forward)? { self.record() } else { Ok(None) }
    }

    /// Goes to the record before and returns it; `None` at the start, where the cursor stays. A
    /// cursor that stands nowhere yet goes to the last.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn retreat(&mut self) -> Result<Option<F::Record>> {
        if !self.is_started {
            return self.last();
        }
        if let Some(leaf) = self.leaf_mut()
            && let Some(index) = leaf.index.checked_sub(1)
        {
            leaf.index = index;
            return self.record();
        }
        if self.shift(Direction::Backward)? { self.record() } else { Ok(None) }
    }

    /// The records from where the cursor stands, or all of them if it stands nowhere yet.
    #[must_use]
    pub fn records(self) -> Records<'a, F> {
        Records::new(self)
    }

    /// The same, one leaf at a time.
    #[must_use]
    pub fn leaves(self) -> Leaves<'a, F> {
        Leaves::new(self)
    }

    /// Goes to the first leaf, if the cursor stands nowhere yet, or to the next one. `false` at the
    /// end.
    pub(crate) fn next_leaf(&mut self) -> Result<bool> {
        if self.is_started {
            return self.shift(Direction::Forward);
        }
        self.first().map(|record| record.is_some())
    }

    /// Whether the cursor has been moved at all.
    pub(crate) const fn is_started(&self) -> bool {
        self.is_started
    }

    /// Decodes the records of the leaf from the one that the cursor stands on.
    pub(crate) fn read_leaf(&self, into: &mut Vec<F::Record>) -> Result<()> {
        let Some(leaf) = self.leaf() else { return Ok(()) };
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        for record in block.records().skip(leaf.index) {
            let record = F::decode_record(record, &self.group);
            into.push(record.map_err(|check| corrupt(leaf.at, check))?);
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.path.clear();
        self.top.index = 0;
        self.is_started = true;
    }

    fn leaf(&self) -> Option<&Step<F::Key>> {
        self.path.get(self.levels.checked_sub(1)?)
    }

    fn leaf_mut(&mut self) -> Option<&mut Step<F::Key>> {
        self.path.get_mut(self.levels.checked_sub(1)?)
    }

    fn record_at(&self, leaf: &Step<F::Key>, index: usize) -> Result<F::Record> {
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let record = block.record(index).unwrap_or_default();
        F::decode_record(record, &self.group).map_err(|check| corrupt(leaf.at, check).into())
    }
}

impl<'a> Cursor<'a, Extents> {
    /// A cursor in the extents of a fork of `inode`, whose root stands in the inode.
    ///
    /// # Errors
    ///
    /// The root must be one that [`ExtentRoot::verify`] passes.
    pub fn in_fork(
        cache: &'a BufferCache,
        inode: InodeNumber,
        root: &ExtentRoot<'_>,
    ) -> Result<Self> {
        let corrupt = |check: Check| Corruption::new(Structure::Inode, Place::Inode(inode), check);
        root.verify(cache.geometry()).map_err(|check| corrupt(check.into()))?;
        let children = root.iter().map(|(key, pointer)| (Some(key), pointer.0)).collect();
        let top = Top { children, index: 0 };
        let group = Group::new(cache.geometry(), AgNumber(0));
        let group = group.ok_or_else(|| corrupt(BtreeCheck::Outside.into()))?;
        Ok(Self::start(cache, group, inode.0, root.level().into(), top))
    }
}

#[cold]
fn corrupt(at: DiskAddr, check: impl Into<Check>) -> Corruption {
    Corruption::new(Structure::Btree, Place::Disk(at), check)
}

/// Where a block of the btree lies, or `None` if there is no such block.
fn disk_addr(group: &Group<'_>, form: PointerForm, block: u64) -> Option<DiskAddr> {
    let geometry = group.geometry();
    match form {
        PointerForm::Short => {
            let block = AgBlock(u32::try_from(block).ok()?);
            group.contains_block(block).then(|| geometry.ag_block_disk_addr(group.number(), block))
        }
        PointerForm::Long => geometry.block_disk_addr(FsBlock(block)),
    }
}

#[cfg(test)]
mod tests;
