//! The step from a block to its child and from a leaf to its neighbour, with the checks that relate
//! these blocks.

use core::ops::Range;

use xfs_buffer::Result;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat};
use xfs_format::{Check, Corruption, DiskAddr, Geometry, Group};

use super::{Path, PathBlock, corrupt, record_of};
use crate::source::{Source, TreeBlock};

/// The entry that a descent chooses in each block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Towards<K> {
    /// The first child in a node, and the first record in a leaf.
    First,
    /// The last child in a node, and the last record in a leaf.
    Last,
    /// The last child or record whose key is at most this key. If all keys are above this key, the
    /// first child or record.
    Key(K),
}

/// The direction of a move along the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A child block, with the properties that its parent block says it must have.
#[derive(Debug)]
pub(crate) struct Child<K> {
    block: u64,
    /// The lower limit: no key of the child is below this key. `None` if there is no limit.
    lower: Option<K>,
    /// The upper limit: all keys of the child are below this key. `None` if there is no limit.
    upper: Option<K>,
    left: Sibling,
    right: Sibling,
}

/// The sibling that a block must have on its left or right side, according to the blocks above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sibling {
    /// The block has no sibling on this side: it is at the edge of the btree.
    Edge,
    /// The sibling is the block of the neighbouring child pointer in the same parent.
    Block(u64),
    /// The sibling is below another parent: the sibling of this block's parent on the same side.
    Beyond,
}

impl Sibling {
    fn verify(self, side: &'static str, found: Option<u64>) -> Result<(), BtreeCheck> {
        let expected = match self {
            Self::Edge => u64::MAX,
            Self::Block(block) => block,
            Self::Beyond if found.is_some() => return Ok(()),
            Self::Beyond => return Err(BtreeCheck::SiblingMissing { side }),
        };
        let found = found.unwrap_or(u64::MAX);
        if found == expected {
            Ok(())
        } else {
            Err(BtreeCheck::SiblingOnPath { side, found, expected })
        }
    }
}

impl<F: BtreeFormat, B: TreeBlock> Path<F, B> {
    /// Continues the path, which already has `depth` blocks, down to a leaf. In each block,
    /// `towards` selects the entry.
    pub(super) fn descend(
        &mut self,
        source: &impl Source<Block = B>,
        depth: usize,
        towards: Towards<F::Key>,
    ) -> Result<()> {
        for depth in depth..self.levels {
            let parent = depth.checked_sub(1).and_then(|above| self.steps.get(above));
            let index = match (parent, towards) {
                (Some(parent), _) => parent.index,
                (None, Towards::First) => 0,
                (None, Towards::Last) => self.top.count().saturating_sub(1),
                (None, Towards::Key(key)) => self.top.towards::<F>(key),
            };
            self.enter(source, depth, index, towards)?;
        }
        Ok(())
    }

    /// Moves to the next or previous leaf. Returns `false`, and changes nothing, if there is no
    /// such leaf.
    pub(crate) fn shift(
        &mut self,
        source: &impl Source<Block = B>,
        direction: Direction,
    ) -> Result<bool> {
        // After an error the path ends above the block that failed: continue with that block's
        // neighbour.
        let deepest = self.steps.len().min(self.levels - 1);
        for depth in (0..=deepest).rev() {
            let (index, count) = match depth.checked_sub(1) {
                Some(above) => match self.steps.get(above) {
                    Some(parent) => (parent.index, parent.count),
                    None => continue,
                },
                None => (self.top.index, self.top.count()),
            };
            let neighbour = match direction {
                Direction::Forward => Some(index + 1).filter(|next| *next < count),
                Direction::Backward => index.checked_sub(1),
            };
            let Some(neighbour) = neighbour else { continue };
            let towards = match direction {
                Direction::Forward => Towards::First,
                Direction::Backward => Towards::Last,
            };
            let left_behind = self.steps.split_off(depth);
            self.enter(source, depth, neighbour, towards)?;
            self.descend(source, depth + 1, towards)?;
            self.verify_joints(source.geometry(), depth, &left_behind, direction)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads child `index` of the block above `depth`, and puts this child on the path at `depth`.
    fn enter(
        &mut self,
        source: &impl Source<Block = B>,
        depth: usize,
        index: usize,
        towards: Towards<F::Key>,
    ) -> Result<()> {
        self.steps.truncate(depth);
        match self.steps.last_mut() {
            Some(parent) => parent.index = index,
            None => self.top.index = index,
        }
        let child = self.child(depth, index)?;
        let step = self.read_child(source, depth, &child, towards)?;
        self.steps.push(step);
        Ok(())
    }

    /// Returns child `index` of the block above `depth`, with the properties that the child must
    /// have.
    pub(crate) fn child(&self, depth: usize, index: usize) -> Result<Child<F::Key>> {
        let Some(parent) = depth.checked_sub(1).and_then(|above| self.steps.get(above)) else {
            return Ok(self.top_child(index));
        };
        let bytes = parent.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, parent.at)?;
        let key = |index| block.key(index).and_then(F::decode_key);
        let missing = || corrupt(parent.at, BtreeCheck::Pointer { index, pointer: u64::MAX });
        let before = index.checked_sub(1);
        let edge = |sibling: Option<u64>| sibling.map_or(Sibling::Edge, |_| Sibling::Beyond);
        Ok(Child {
            block: block.pointer(index).ok_or_else(missing)?,
            lower: key(index),
            upper: key(index + 1).or(parent.upper),
            left: match before.and_then(|before| block.pointer(before)) {
                Some(left) => Sibling::Block(left),
                None => edge(block.left_sibling()),
            },
            right: match block.pointer(index + 1) {
                Some(right) => Sibling::Block(right),
                None => edge(block.right_sibling()),
            },
        })
    }

    fn top_child(&self, index: usize) -> Child<F::Key> {
        let sibling = |index: Option<usize>| {
            index.and_then(|index| self.top.block(index)).map_or(Sibling::Edge, Sibling::Block)
        };
        Child {
            block: self.top.block(index).unwrap_or(u64::MAX),
            lower: self.top.key::<F>(index),
            upper: self.top.key::<F>(index + 1),
            left: sibling(index.checked_sub(1)),
            right: sibling(Some(index + 1)),
        }
    }

    /// Reads a child and checks that it has the properties that follow from its parent: its level
    /// must be one lower (I1), and its keys must lie within the parent's limits (I2).
    pub(crate) fn read_child(
        &self,
        source: &impl Source<Block = B>,
        depth: usize,
        child: &Child<F::Key>,
        towards: Towards<F::Key>,
    ) -> Result<PathBlock<F::Key, B>> {
        let geometry = source.geometry();
        let outside = || corrupt(DiskAddr::NULL, BtreeCheck::Outside);
        let at = self.disk_addr(geometry, child.block).ok_or_else(outside)?;
        let buffer = source.read_block(at, F::KIND)?;
        let bytes = buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, at)?;
        let expected = self.levels - 1 - depth;
        let found = block.level();
        if found as usize != expected {
            let expected = u32::try_from(expected).unwrap_or(u32::MAX);
            return Err(corrupt(at, BtreeCheck::LevelOnPath { found, expected }).into());
        }
        self.verify_owner(&block, at)?;
        child.left.verify("left", block.left_sibling()).map_err(|check| corrupt(at, check))?;
        child.right.verify("right", block.right_sibling()).map_err(|check| corrupt(at, check))?;
        let has_parent = depth != 0 || child.lower.is_some();
        if block.count() == 0 && has_parent {
            return Err(corrupt(at, BtreeCheck::EmptyLeaf).into());
        }
        let index = self.choose(geometry, &block, towards, child);
        let index = index.map_err(|check| corrupt(at, check))?;
        let (count, upper) = (block.count(), child.upper);
        drop(bytes);
        Ok(PathBlock { buffer, block: child.block, at, index, count, upper })
    }

    fn verify_owner(&self, block: &BtreeBlock<'_>, at: DiskAddr) -> Result<(), Corruption> {
        match block.owner() {
            Some(found) if found != self.owner => {
                Err(corrupt(at, Check::ForeignOwner { found, expected: self.owner }))
            }
            _ => Ok(()),
        }
    }

    /// Checks the outermost keys of the block against the keys of its parent, and chooses the entry
    /// of the block at which the descent continues.
    fn choose(
        &self,
        geometry: &Geometry,
        block: &BtreeBlock<'_>,
        towards: Towards<F::Key>,
        child: &Child<F::Key>,
    ) -> Result<usize, Check> {
        let Some(last) = block.count().checked_sub(1) else { return Ok(0) };
        let group = self.group(geometry);
        let key = |index| Self::entry_key(&group, block, index);
        let lowest = key(0)?;
        if child.lower.is_some_and(|lower| lowest < lower) {
            return Err(BtreeCheck::OutsideParent { index: 0 }.into());
        }
        let highest = key(last)?;
        if child.upper.is_some_and(|upper| highest >= upper) {
            return Err(BtreeCheck::OutsideParent { index: last }.into());
        }
        let target = match towards {
            Towards::First => return Ok(0),
            Towards::Last => return Ok(last),
            Towards::Key(target) => target,
        };
        Ok(not_above(block.count(), target, key)?.saturating_sub(1))
    }

    /// Returns the key of entry `index`: the key of a record, or the lowest key below a child.
    pub(crate) fn entry_key(
        group: &Group<'_>,
        block: &BtreeBlock<'_>,
        index: usize,
    ) -> Result<F::Key, Check> {
        if block.is_leaf() {
            return F::decode_record_key(record_of(block, index)?, group);
        }
        let key = block.key(index).and_then(F::decode_key);
        key.ok_or_else(|| Check::from(BtreeCheck::Order { index }))
    }

    /// Checks a move to a neighbouring leaf. On each level below `depth`, the block on the path and
    /// the block that the path has left (in `left_behind`) must name each other as siblings. The
    /// last record of one leaf and the first record of the next one must be in order.
    fn verify_joints(
        &self,
        geometry: &Geometry,
        depth: usize,
        left_behind: &[PathBlock<F::Key, B>],
        direction: Direction,
    ) -> Result<()> {
        let entered = self.steps.get(depth..).expect("a move enters blocks below `depth`");
        for (old, new) in left_behind.iter().zip(entered) {
            let (left, right) = match direction {
                Direction::Forward => (old, new),
                Direction::Backward => (new, old),
            };
            let names = |step: &PathBlock<F::Key, B>| -> Result<(Option<u64>, Option<u64>)> {
                let bytes = step.buffer.bytes();
                let block = BtreeBlock::decode(&bytes, F::KIND, step.at)?;
                Ok((block.left_sibling(), block.right_sibling()))
            };
            let check = Sibling::Block(right.block).verify("right", names(left)?.1);
            check.map_err(|check| corrupt(left.at, check))?;
            let check = Sibling::Block(left.block).verify("left", names(right)?.0);
            check.map_err(|check| corrupt(right.at, check))?;
        }
        let whole = self.levels - depth;
        let (Some(old), Some(new)) = (left_behind.get(whole - 1), entered.get(whole - 1)) else {
            return Ok(());
        };
        let (left, right) = match direction {
            Direction::Forward => (old, new),
            Direction::Backward => (new, old),
        };
        let before = self.record_at(geometry, left, left.count.saturating_sub(1))?;
        let after = self.record_at(geometry, right, 0)?;
        if !F::may_follow(&after, &before) {
            return Err(corrupt(right.at, BtreeCheck::Order { index: 0 }).into());
        }
        Ok(())
    }
}

/// Returns the number of entries whose key is at most `target`. There are `count` entries, in
/// ascending order, and `key` returns the key of the entry with the given index.
fn not_above<K: Ord, E>(
    count: usize,
    target: K,
    key: impl Fn(usize) -> Result<K, E>,
) -> Result<usize, E> {
    not_above_within(0..count, target, key)
}

/// Computes [`not_above`], starting at a guess. If the entry at `guess` is the last one that is not
/// above `target`, reads only that entry and the next one.
pub(super) fn not_above_near<K: Ord + Copy, E>(
    count: usize,
    guess: usize,
    target: K,
    key: impl Fn(usize) -> Result<K, E>,
) -> Result<usize, E> {
    if guess >= count {
        return not_above_within(0..count, target, key);
    }
    if key(guess)? > target {
        return not_above_within(0..guess, target, key);
    }
    let after = guess + 1;
    if after == count || key(after)? > target {
        return Ok(after);
    }
    not_above_within(after + 1..count, target, key)
}

/// Computes [`not_above`] within `range`. All entries before `range` are known to be at most
/// `target`, and all entries after it to be above.
fn not_above_within<K: Ord, E>(
    range: Range<usize>,
    target: K,
    key: impl Fn(usize) -> Result<K, E>,
) -> Result<usize, E> {
    // The result lies in `low..=high`.
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low.midpoint(high);
        if key(middle)? <= target { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

#[cfg(test)]
mod tests;
