//! Moving a block of a btree to another place on disk.
//!
//! The records, their order and the height stay as they are. The new block takes the place of the
//! old one: in its parent, or in the root's owner, and between its siblings.

use xfs_buffer::Result;
use xfs_format::FsBlock;
use xfs_format::btree::{BtreeBlock, BtreeFormat, BtreeLayout};

use super::Editor;
use super::entries::Neighbours;
use super::grow::Header;
use crate::path::Direction;
use crate::root::TopRoot;
use crate::source::TreeBlock;
use crate::store::BtreeStore;

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Moves the first block for which `is_misplaced` returns `true` to a newly allocated block.
    /// Returns `false` if the btree has no such block. The editor stands on no record afterwards.
    ///
    /// The search goes along the leaves, with all blocks above each of them. It starts at the first
    /// leaf in every call, so that no call depends on an earlier one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first) and of the store.
    pub fn move_block(&mut self, is_misplaced: impl Fn(u64) -> bool) -> Result<bool> {
        self.path.forget();
        self.first()?;
        loop {
            let mut on_path = self.path.steps.iter();
            if let Some(depth) = on_path.position(|step| is_misplaced(step.block)) {
                self.relocate(depth)?;
                return Ok(true);
            }
            if !self.path.shift(&self.store, Direction::Forward)? {
                self.path.forget();
                return Ok(false);
            }
        }
    }

    /// Moves the block at `depth` of the path to a newly allocated block.
    fn relocate(&mut self, depth: usize) -> Result<()> {
        let level = self.level(depth);
        let old = self.path_block(depth).clone();
        let (left, right) = {
            let bytes = old.buffer.bytes();
            let block = BtreeBlock::decode(&bytes, F::KIND, old.at)?;
            (block.left_sibling(), block.right_sibling())
        };
        let new = self.claim(old.block, &Header { level, left, right })?;
        let entries = Neighbours {
            left: &new.buffer,
            left_count: 0,
            right: &old.buffer,
            right_count: old.count,
        };
        self.shape(level).gather(&mut self.store, &entries)?;
        if let Some(left) = left {
            let neighbour = self.read_left_neighbour(left, level, old.block)?;
            self.set_sibling(&neighbour, BtreeLayout::right_sibling_range, Some(new.number))?;
        }
        if let Some(right) = right {
            let neighbour = self.read_right_neighbour(right, level, old.block)?;
            self.set_sibling(&neighbour, BtreeLayout::left_sibling_range, Some(new.number))?;
        }
        self.point_to(depth, new.number)?;
        self.store.free(old.block, &old.buffer)?;
        self.path.forget();
        self.keep_root()
    }

    /// Makes the parent of the block at `depth`, or the owner of the root, point to block `number`
    /// instead.
    fn point_to(&mut self, depth: usize, number: u64) -> Result<()> {
        if let Some(above) = depth.checked_sub(1) {
            let shape = self.shape(self.level(above));
            let parent = self.path_block(above);
            let (buffer, index) = (parent.buffer.clone(), parent.index);
            let pointer = F::KIND.layout().encode_pointer(Some(number));
            return shape.put_pointer(&mut self.store, &buffer, index, &pointer);
        }
        let index = self.path.top.index;
        match &mut self.path.top.root {
            TopRoot::Header(root) => *root = number,
            TopRoot::Inode(root) => {
                let child = root.children.get_mut(index);
                child.expect("the path goes through a child of the root").1 = FsBlock(number);
            }
        }
        self.root_changed = true;
        Ok(())
    }
}
