//! The keys that a parent holds for its children.

use xfs_buffer::Result;
use xfs_format::FileBlock;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat};

use super::Editor;
use super::entries::{BlockEntry, MAX_ENTRY_BYTES, NodeKey};
use crate::path::{PathBlock, corrupt};
use crate::root::TopRoot;
use crate::source::TreeBlock;
use crate::store::BtreeStore;

/// The message of the panic that occurs if a walk upwards asks for the parent of a root that is in
/// a block. Such a root has no parent.
const NO_PARENT: &str = "a root in a block has no parent";
/// The message of the panic that occurs if the index of a child is not below the number of the
/// root's children.
const IS_CHILD: &str = "the index is that of a child of the root";

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Returns the keys that a parent must hold for a block (I2: a node holds each child's own
    /// keys). These keys are the lowest key below the block and, in kinds of btree with high keys,
    /// the highest key.
    pub(super) fn node_key(&self, step: &PathBlock<F::Key, S::Block>) -> Result<NodeKey> {
        let bytes = step.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, step.at)?;
        let mut key = [0; MAX_ENTRY_BYTES];
        let (low, high) = halves::<F>(&mut key);
        if !block.is_leaf() {
            let empty = || corrupt(step.at, BtreeCheck::EmptyLeaf);
            copy(low, block.key(0).ok_or_else(empty)?);
            if F::KIND.layout().has_high_keys {
                let highs = (0..block.count()).map(|index| {
                    let high =
                        block.high_key(index).expect("a node holds its children's keys (I2)");
                    (F::decode_key(high).expect("the block has room for the key"), high)
                });
                // I2: the highest key of any child, not that of the last one.
                let highest = highs.max_by_key(|(decoded, _)| *decoded);
                copy(high, highest.expect("the node has a first child").1);
            }
            return Ok(key);
        }
        let group = self.path.group(self.store.geometry());
        let decode =
            |record| F::decode_record(record, &group).map_err(|check| corrupt(step.at, check));
        let none = || corrupt(step.at, BtreeCheck::EmptyLeaf);
        let lowest = decode(block.record(0).ok_or_else(none)?)?;
        let mut highest = lowest;
        if F::KIND.layout().has_high_keys {
            for record in block.records().skip(1) {
                let record = decode(record)?;
                if F::high_key(&record) > F::high_key(&highest) {
                    highest = record;
                }
            }
            let mut of_highest = [0; MAX_ENTRY_BYTES];
            let room = of_highest.split_at_mut(F::KIND.layout().node_key_bytes()).0;
            F::encode_key(&highest, room);
            copy(high, halves::<F>(&mut of_highest).1);
        }
        let mut of_lowest = [0; MAX_ENTRY_BYTES];
        let room = of_lowest.split_at_mut(F::KIND.layout().node_key_bytes()).0;
        F::encode_key(&lowest, room);
        copy(low, halves::<F>(&mut of_lowest).0);
        Ok(key)
    }

    /// Returns the index of the block at `depth` in its parent, and the number of the parent's
    /// children. Returns `None` for a root in a block.
    pub(super) fn parent(&self, depth: usize) -> Option<(usize, usize)> {
        match (depth.checked_sub(1), &self.path.top.root) {
            (Some(above), _) => {
                let parent = self.path_block(above);
                Some((parent.index, parent.count))
            }
            (None, TopRoot::Inode(root)) => Some((self.path.top.index, root.children.len())),
            (None, TopRoot::Header(_)) => None,
        }
    }

    /// Returns the keys that the parent of the block at `depth` holds for child `index` of that
    /// parent.
    fn parent_key(&self, depth: usize, index: usize) -> Result<NodeKey> {
        let mut key = [0; MAX_ENTRY_BYTES];
        let Some(above) = depth.checked_sub(1) else {
            let TopRoot::Inode(root) = &self.path.top.root else { unreachable!("{NO_PARENT}") };
            let (file_block, _) = root.children.get(index).expect(IS_CHILD);
            copy(&mut key, &file_block.0.to_be_bytes());
            return Ok(key);
        };
        let parent = self.path_block(above);
        let bytes = parent.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, parent.at)?;
        let (low, high) = halves::<F>(&mut key);
        let missing = || corrupt(parent.at, BtreeCheck::Pointer { index, pointer: u64::MAX });
        copy(low, block.key(index).ok_or_else(missing)?);
        if !high.is_empty() {
            copy(high, block.high_key(index).ok_or_else(missing)?);
        }
        Ok(key)
    }

    /// Sets the keys that the parent of the block at `depth` holds for child `index` of that
    /// parent. Returns `true` if they have changed.
    pub(super) fn set_parent_key(
        &mut self,
        depth: usize,
        index: usize,
        key: &NodeKey,
    ) -> Result<bool> {
        if self.parent_key(depth, index)? == *key {
            return Ok(false);
        }
        let Some(above) = depth.checked_sub(1) else {
            let TopRoot::Inode(root) = &mut self.path.top.root else { unreachable!("{NO_PARENT}") };
            root.children.get_mut(index).expect(IS_CHILD).0 = file_block_of(key);
            self.root_changed = true;
            return Ok(true);
        };
        let shape = self.shape(self.level(above));
        let buffer = self.path_block(above).buffer.clone();
        shape.put_key(&mut self.store, &buffer, index, key)?;
        Ok(true)
    }

    /// Recomputes the keys that the parent holds for the block at `depth`. If they change, does the
    /// same for the parent, and so on upwards.
    pub(super) fn refresh_keys(&mut self, depth: usize) -> Result<()> {
        for depth in (0..=depth).rev() {
            let Some((index, _)) = self.parent(depth) else { break };
            let key = self.node_key(self.path_block(depth))?;
            if !self.set_parent_key(depth, index, &key)? {
                break;
            }
        }
        Ok(())
    }

    /// Updates the keys that the blocks above hold for entry `index` of the block at `depth`. The
    /// entry is new or has a new key. No other entry of the block has to be read, because the
    /// highest key can only rise.
    pub(super) fn raise_keys(
        &mut self,
        depth: usize,
        index: usize,
        entry: &BlockEntry,
    ) -> Result<()> {
        let has_high_keys = F::KIND.layout().has_high_keys;
        let mut is_first = index == 0;
        for depth in (0..=depth).rev() {
            if !is_first && !has_high_keys {
                break;
            }
            let Some((index, _)) = self.parent(depth) else { break };
            let mut key = self.parent_key(depth, index)?;
            let mut of_entry = entry.key;
            let (low, high) = halves::<F>(&mut key);
            let (entry_low, entry_high) = halves::<F>(&mut of_entry);
            if is_first {
                copy(low, entry_low);
            }
            if has_high_keys && F::decode_key(entry_high) > F::decode_key(high) {
                copy(high, entry_high);
            }
            if !self.set_parent_key(depth, index, &key)? {
                break;
            }
            is_first &= index == 0;
        }
        Ok(())
    }

    /// Returns whether the parent of the leaf at `depth` holds no key above `high`.
    pub(super) fn is_highest(&self, depth: usize, high: F::Key) -> Result<bool> {
        let Some((index, _)) = self.parent(depth) else { return Ok(false) };
        let mut key = self.parent_key(depth, index)?;
        let (_, parent_high) = halves::<F>(&mut key);
        Ok(F::decode_key(parent_high) <= Some(high))
    }
}

/// Returns the file block that a key of an extent btree holds.
pub(super) fn file_block_of(key: &NodeKey) -> FileBlock {
    let raw = key.first_chunk().expect("a node key is longer than a file block");
    FileBlock(u64::from_be_bytes(*raw))
}

/// Splits the keys of a child into the low and the high key. The high key is empty in kinds of
/// btree that have none.
fn halves<F: BtreeFormat>(key: &mut NodeKey) -> (&mut [u8], &mut [u8]) {
    let layout = F::KIND.layout();
    let (keys, _) = key.split_at_mut(layout.node_key_bytes());
    keys.split_at_mut(layout.key_bytes)
}

/// Copies `from` to the front of `into`, which must be at least as long.
fn copy(into: &mut [u8], from: &[u8]) {
    assert!(from.len() <= into.len(), "a key fits its field");
    for (byte, new) in into.iter_mut().zip(from) {
        *byte = *new;
    }
}
