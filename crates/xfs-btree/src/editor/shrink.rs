//! Removing entries: refilling a block from a sibling, joining it with a sibling, lowering the
//! root.

use xfs_buffer::Result;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, BtreeLayout};
use xfs_format::{FileBlock, FsBlock};

use super::Editor;
use super::entries::Division;
use crate::path::{PathBlock, Towards, corrupt};
use crate::root::TopRoot;
use crate::source::TreeBlock;
use crate::store::BtreeStore;

/// The result of rebalancing a block that had too few entries.
enum Rebalanced {
    /// The block has enough entries now, or no minimum applies to it, because it is a root or the
    /// only child of a root in an inode (I1).
    Enough,
    /// The block and its sibling were joined and one of them was freed. The parent has one child
    /// less.
    Joined,
}

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Removes `record`, to which the path leads. Returns `true` if the path may be out of date
    /// after that, so that it must be rebuilt from the root.
    pub(super) fn remove_record(&mut self, record: &F::Record) -> Result<bool> {
        let leaf = self.path.levels - 1;
        let index = self.path_block(leaf).index;
        let changes_high =
            F::KIND.layout().has_high_keys && self.is_highest(leaf, F::high_key(record))?;
        let parent = self.parent(leaf);
        if self.path_block(leaf).count == 1 && parent.is_some() {
            return Err(corrupt(self.path_block(leaf).at, BtreeCheck::EmptyLeaf).into());
        }
        self.close(leaf, index)?;
        let count = self.path_block(leaf).count;
        let may_be_few = parent.is_none_or(|(_, siblings)| siblings == 1);
        if count >= self.shape(0).min || may_be_few {
            if index == 0 || changes_high {
                self.refresh_keys(leaf)?;
            }
            return Ok(false);
        }
        let mut depth = leaf;
        // Each round moves up one level.
        while let Rebalanced::Joined = self.rebalance(depth)? {
            let Some(above) = depth.checked_sub(1) else { break };
            depth = above;
        }
        Ok(true)
    }

    /// Removes entry `index` from the block at `depth`. Does not rebalance and does not update the
    /// blocks above.
    fn close(&mut self, depth: usize, index: usize) -> Result<()> {
        let shape = self.shape(self.level(depth));
        let step = self.path_block_mut(depth);
        let (buffer, count) = (step.buffer.clone(), step.count);
        step.count -= 1;
        shape.close_entry(&mut self.store, &buffer, index, count)
    }

    /// Restores I1 for the block at `depth`, which has lost an entry: a block that is not the root
    /// is at least half full.
    fn rebalance(&mut self, depth: usize) -> Result<Rebalanced> {
        // I4: the siblings are children of one parent.
        let Some((own, siblings)) = self.parent(depth) else {
            self.lower_root()?;
            return Ok(Rebalanced::Enough);
        };
        let shape = self.shape(self.level(depth));
        // I1: the block is still half full, or is an only child.
        if self.path_block(depth).count >= shape.min || siblings == 1 {
            self.refresh_keys(depth)?;
            if depth == 0 {
                self.pull_up()?;
            }
            return Ok(Rebalanced::Enough);
        }
        // I4: `own` and `sibling` are children of one parent.
        let sibling = own.checked_sub(1).unwrap_or(own + 1);
        // Reading the sibling checks its keys against the parent's. The parent's key for a block
        // that has lost its first entry must be correct before that.
        self.refresh_keys(depth)?;
        let other = self.sibling(depth, sibling)?;
        let step = self.path_block(depth).clone();
        let pair = if sibling < own { [other, step] } else { [step, other] };
        let total = pair[0].count + pair[1].count;
        let left = own.min(sibling);
        if total > shape.max {
            let division = Division { extra: None, left_count: total.div_ceil(2) };
            self.redistribute(depth, left, &pair, division)?;
            return Ok(Rebalanced::Enough);
        }
        self.join(depth, left, &pair)?;
        Ok(Rebalanced::Joined)
    }

    /// Moves the entries of two neighbours into the left one, which is child `index` of its parent,
    /// and frees the right one.
    fn join(
        &mut self,
        depth: usize,
        index: usize,
        [left, right]: &[PathBlock<F::Key, S::Block>; 2],
    ) -> Result<()> {
        let level = self.level(depth);
        let beyond = {
            let bytes = right.buffer.bytes();
            BtreeBlock::decode(&bytes, F::KIND, right.at)?.right_sibling()
        };
        let shape = self.shape(level);
        let pair = super::entries::Neighbours {
            left: &left.buffer,
            left_count: left.count,
            right: &right.buffer,
            right_count: right.count,
        };
        shape.gather(&mut self.store, &pair)?;
        self.set_sibling(&left.buffer, BtreeLayout::right_sibling_range, beyond)?;
        if let Some(beyond) = beyond {
            let neighbour = self.read_right_neighbour(beyond, level, right.block)?;
            self.set_sibling(&neighbour, BtreeLayout::left_sibling_range, Some(left.block))?;
        }
        self.store.free(right.block, &right.buffer)?;
        let mut joined = left.clone();
        joined.count += right.count;
        let key = self.node_key(&joined)?;
        self.set_parent_key(depth, index, &key)?;
        match depth.checked_sub(1) {
            Some(above) => self.close(above, index + 1),
            None => {
                let TopRoot::Inode(root) = &mut self.path.top.root else {
                    unreachable!("a root in a block has no neighbour to be joined with")
                };
                root.children.remove(index + 1);
                self.root_changed = true;
                self.pull_up()
            }
        }
    }

    /// Makes the only child of the root the new root, if the root is in a block and has just one
    /// child.
    fn lower_root(&mut self) -> Result<()> {
        let root = self.path_block(0).clone();
        if self.path.levels == 1 || root.count != 1 {
            return Ok(());
        }
        let child = {
            let bytes = root.buffer.bytes();
            let missing = BtreeCheck::Pointer { index: 0, pointer: u64::MAX };
            let child = BtreeBlock::decode(&bytes, F::KIND, root.at)?.pointer(0);
            child.ok_or_else(|| corrupt(root.at, missing))?
        };
        self.store.free(root.block, &root.buffer)?;
        self.path.top.root = TopRoot::Header(child);
        self.path.steps.remove(0);
        self.path.levels -= 1;
        self.root_changed = true;
        Ok(())
    }

    /// Moves the children of a node into the root in the inode, if the node is the only child of
    /// the root and its children fit. Repeats this as long as it is possible.
    fn pull_up(&mut self) -> Result<()> {
        loop {
            let TopRoot::Inode(root) = &self.path.top.root else { return Ok(()) };
            if root.children.len() != 1 || root.level == 1 {
                return Ok(());
            }
            let capacity = root.capacity;
            let child = self.path.child(0, 0)?;
            let child = self.path.read_child(&self.store, 0, &child, Towards::First)?;
            if child.count > capacity {
                return Ok(());
            }
            let children = self.children_of(&child)?;
            self.store.free(child.block, &child.buffer)?;
            if let TopRoot::Inode(root) = &mut self.path.top.root {
                root.children = children;
                root.level -= 1;
                self.root_changed = true;
            }
            self.path.levels -= 1;
        }
    }

    fn children_of(&self, node: &PathBlock<F::Key, S::Block>) -> Result<Vec<(FileBlock, FsBlock)>> {
        let bytes = node.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, node.at)?;
        let children = (0..block.count()).map(|index| {
            let key = block.key(index)?.first_chunk()?;
            Some((FileBlock(u64::from_be_bytes(*key)), FsBlock(block.pointer(index)?)))
        });
        let none = || {
            let index = block.count();
            corrupt(node.at, BtreeCheck::Pointer { index, pointer: u64::MAX })
        };
        Ok(children.collect::<Option<_>>().ok_or_else(none)?)
    }
}
