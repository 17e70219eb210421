//! Changing a btree.
//!
//! Owns: inserting, updating and removing records, and the changes of blocks that follow: order,
//! splits and joins, the keys of parents, siblings, the height. Does **not** own where blocks come
//! from and where the root is kept ([`BtreeStore`]), nor what records mean.
//!
//! # Invariants
//!
//! - **I1** A block that is not the root is at least half full. A node that is a root in a block
//!   has two children or more. The one exception is a block that is the only child of a root in an
//!   inode: it may hold fewer entries.
//! - **I2** A node holds for each child the child's own keys: the lowest, and in the reverse map
//!   the highest key that any record below the child covers. The highest key need not belong to the
//!   last record.
//! - **I3** An insertion or removal that needs no other leaf writes only the records after the
//!   changed one, the count, and those keys in the parents that change (I2). An update in place
//!   writes only the record.
//! - **I4** Blocks are split, refilled and joined only with siblings below the same parent, so that
//!   one parent holds the keys of both blocks.
//!
//! Changes of more than one leaf are rare, one in some dozens of edits. After such a change the
//! path is rebuilt from the root, not adjusted.
//!
//! # When a crash comes
//!
//! The store makes all changes of an edit in one transaction, so no crash leaves a part of an edit.

mod entries;
mod everywhere;
mod grow;
mod keys;
mod relocate;
mod shrink;

use xfs_buffer::Result;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, Extents, PointerForm};
use xfs_format::{AgBlock, AgNumber, InodeNumber};

use crate::cursor::Seek;
use crate::path::{Direction, Path, PathBlock, corrupt};
use crate::root::{ForkRoot, Root, TopRoot, TreeRoot};
use crate::saved_path::SavedPath;
use crate::source::TreeBlock;
use crate::store::BtreeStore;
use entries::{BlockEntry, EntryLayout, MAX_ENTRY_BYTES};

/// The message of the panic that occurs if the index of a neighbouring record is past the last
/// record of the leaf.
const IN_LEAF: &str = "the index is below the leaf's count of records";

/// An editor that stands on one record of a btree and can change the btree.
///
/// After an error the btree may be half changed. The caller must then give up all changes of the
/// transaction, and drop the editor.
pub struct Editor<F: BtreeFormat, S: BtreeStore> {
    store: S,
    path: Path<F, S::Block>,
    /// Whether the root has changed since it was last passed to the store.
    root_changed: bool,
}

impl<F: BtreeFormat, S: BtreeStore> Editor<F, S> {
    /// Creates an editor of a btree of an allocation group. The editor stands on no record yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the group does not exist, or the root's level is impossible.
    pub fn new(store: S, group: AgNumber, root: BtreeRoot) -> Result<Self> {
        let path = Path::in_group(store.geometry(), group, root)?;
        Ok(Self { store, path, root_changed: false })
    }

    /// Creates an editor that continues from `saved`, the saved path of another editor of the same
    /// btree. No other editor may have changed the btree since. Without a saved path, or if the
    /// root has changed since, the new editor stands on no record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub fn resume(
        store: S,
        group: AgNumber,
        root: BtreeRoot,
        saved: Option<SavedPath<F, S::Block>>,
    ) -> Result<Self> {
        match saved {
            Some(SavedPath(path)) if path.is_in(group, root) => {
                Ok(Self { store, path, root_changed: false })
            }
            _ => Self::new(store, group, root),
        }
    }

    /// Returns the store, and the path to the editor's record, saved so that another editor can
    /// continue from it. The editor must not have returned an error.
    pub fn leave(self) -> (S, SavedPath<F, S::Block>) {
        (self.store, SavedPath(self.path))
    }

    /// Creates an editor of a btree of a realtime group, which the inode `owner` owns. It stands on
    /// no record yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the root's level is impossible.
    pub fn in_tree(store: S, owner: InodeNumber, root: TreeRoot) -> Result<Self> {
        let path = Path::in_tree(store.geometry(), owner, root)?;
        Ok(Self { store, path, root_changed: false })
    }

    /// Returns the record that the editor stands on; `None` if there is no record.
    ///
    /// # Errors
    ///
    /// Returns an error if the record is corrupt.
    pub fn record(&self) -> Result<Option<F::Record>> {
        self.path.record(self.store.geometry())
    }

    /// Moves to the first record of the btree and returns it; `None` if the btree is empty.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or a corruption if a block is damaged.
    pub fn first(&mut self) -> Result<Option<F::Record>> {
        self.path.first(&self.store)
    }

    /// Moves to the last record of the btree and returns it; `None` if the btree is empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first).
    pub fn last(&mut self) -> Result<Option<F::Record>> {
        self.path.last(&self.store)
    }

    /// Moves to the record that `seek` asks for, as [`Cursor::seek`](crate::Cursor::seek) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first).
    pub fn seek(&mut self, seek: Seek<F::Key>) -> Result<Option<F::Record>> {
        self.path.seek(&self.store, seek)
    }

    /// Moves to the record with exactly this key. Returns `None` if there is no such record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first).
    pub fn find(&mut self, key: F::Key) -> Result<Option<F::Record>> {
        let found = self.seek(Seek::AtOrBefore(key))?;
        Ok(found.filter(|record| F::key(record) == key))
    }

    /// Moves to the next record, as [`Cursor::advance`](crate::Cursor::advance) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first).
    pub fn advance(&mut self) -> Result<Option<F::Record>> {
        self.path.advance(&self.store)
    }

    /// Moves to the previous record, as [`Cursor::retreat`](crate::Cursor::retreat) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first).
    pub fn retreat(&mut self) -> Result<Option<F::Record>> {
        self.path.retreat(&self.store)
    }

    /// Inserts a record where its key belongs, and moves to the record. The insertion is fast if
    /// the editor already stands in the leaf where the record belongs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first) and of the store. Returns a corruption, and
    /// changes nothing, if the btree has a record with this key or if the record overlaps a
    /// neighbour.
    pub fn insert(&mut self, record: F::Record) -> Result<()> {
        let key = F::key(&record);
        let index = self.position_of(key)?;
        self.verify_neighbours(&record, index.checked_sub(1), index)?;
        let entry = BlockEntry::of_record::<F>(&record, self.store.geometry());
        let leaf = self.path.levels - 1;
        if self.insert_entry(leaf, index, entry)? {
            self.path.forget();
            self.path.go_towards(&self.store, key)?;
        } else {
            self.path_block_mut(leaf).index = index;
        }
        self.keep_root()
    }

    /// Replaces the record that the editor stands on with `record`. The key may change as long as
    /// it stays between the keys of the neighbours.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`insert`](Self::insert).
    ///
    /// # Panics
    ///
    /// Panics if the editor stands on no record: the caller must have read the record before.
    pub fn update(&mut self, record: F::Record) -> Result<()> {
        let leaf = self.path.levels - 1;
        let (index, count) = (self.path_block(leaf).index, self.path_block(leaf).count);
        assert!(index < count, "an editor stands on the record that it changes");
        if !self.stays_in_place(&record, index)? {
            self.verify_neighbours(&record, index.checked_sub(1), index + 1)?;
        } else if !F::KIND.layout().has_high_keys {
            // The parents hold nothing of the record except its key.
            return self.put_record(&record, index);
        }
        // Only a high key depends on more of a record than its key.
        let old = match F::KIND.layout().has_high_keys {
            true => self.record()?,
            false => None,
        };
        self.put_record(&record, index)?;
        let entry = BlockEntry::of_record::<F>(&record, self.store.geometry());
        let old_high = old.map(|old| F::high_key(&old));
        let lowered = old_high.filter(|old| F::high_key(&record) < *old);
        let lowers = lowered.map(|old| self.is_highest(leaf, old)).transpose()?;
        if lowers == Some(true) {
            self.refresh_keys(leaf)?;
        } else {
            self.raise_keys(leaf, index, &entry)?;
        }
        self.keep_root()
    }

    /// Replaces the record `old` by `new`, which has the same key, if the editor stands on `old`.
    /// Returns `false`, and changes nothing, if it does not. Unlike [`update`](Self::update), reads
    /// no key: only for btrees whose nodes hold nothing of a record except its key.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    pub fn replace(&mut self, old: &F::Record, new: &F::Record) -> Result<bool> {
        const { assert!(F::KEY_TELLS_ALL && !F::KIND.layout().has_high_keys) }
        debug_assert!(F::key(old) == F::key(new), "a replaced record keeps its key");
        let Some(leaf) = self.path.leaf().filter(|leaf| leaf.index < leaf.count) else {
            return Ok(false);
        };
        let layout = F::KIND.layout();
        let mut room = [0; MAX_ENTRY_BYTES];
        let (encoded, _) = room.split_at_mut(layout.record_bytes);
        F::encode_record(old, self.store.geometry(), encoded);
        let start = layout.header_bytes() + leaf.index * layout.record_bytes;
        if leaf.buffer.bytes().get(start..start + layout.record_bytes) != Some(&*encoded) {
            return Ok(false);
        }
        self.put_record(new, leaf.index).map(|()| true)
    }

    /// Returns whether replacing record `index` of the leaf by `record` changes no key in the nodes
    /// above the leaf. No key changes if the old and the new record have the same key, and the key
    /// determines the range that a record covers.
    fn stays_in_place(&self, record: &F::Record, index: usize) -> Result<bool> {
        if !F::KEY_TELLS_ALL {
            return Ok(false);
        }
        let leaf = self.path_block(self.path.levels - 1);
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let group = self.path.group(self.store.geometry());
        let old = Path::<F, S::Block>::entry_key(&group, &block, index);
        Ok(old.map_err(|check| corrupt(leaf.at, check))? == F::key(record))
    }

    /// Writes a record at `index` of the leaf.
    fn put_record(&mut self, record: &F::Record, index: usize) -> Result<()> {
        let layout = F::KIND.layout();
        let mut room = [0; MAX_ENTRY_BYTES];
        let (encoded, _) = room.split_at_mut(layout.record_bytes);
        F::encode_record(record, self.store.geometry(), encoded);
        let start = layout.header_bytes() + index * layout.record_bytes;
        let Some(leaf) = self.path.leaf() else {
            unreachable!("an editor that writes has descended to a leaf")
        };
        let range = start..start + layout.record_bytes;
        self.store.change(&leaf.buffer, range, |bytes| bytes.copy_from_slice(encoded))
    }

    /// Removes the record that the editor stands on, returns it, and moves to the next record. If
    /// the removed record was the last one of the btree, the editor stands on no record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`first`](Self::first) and of the store.
    ///
    /// # Panics
    ///
    /// Panics if the editor stands on no record, as [`update`](Self::update) does.
    pub fn remove(&mut self) -> Result<F::Record> {
        let record = self.record()?.expect("an editor stands on the record that it takes out");
        let leaf = self.path.levels - 1;
        let is_last = self.path_block(leaf).index + 1 == self.path_block(leaf).count;
        let restructured = self.remove_record(&record)?;
        if restructured {
            self.path.forget();
            self.seek_after(F::key(&record))?;
        } else if is_last && self.path_block(leaf).count != 0 {
            // The path stands after its leaf; if there is no other leaf it stays there.
            self.path.shift(&self.store, Direction::Forward)?;
        }
        self.keep_root()?;
        Ok(record)
    }

    /// Returns the store of the btree's blocks, for reading.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store of the btree's blocks, for changes. A caller that changes this btree
    /// through the store must drop the editor.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Drops the editor and returns the store of the btree's blocks.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Returns the root of a fork's btree, which lies in the inode; `None` for a btree of a group.
    pub const fn fork_root(&self) -> Option<&ForkRoot> {
        match &self.path.top.root {
            TopRoot::Inode(root) => Some(root),
            TopRoot::Header(_) => None,
        }
    }

    /// Moves to the first record whose key is above `key`, or after the last record.
    fn seek_after(&mut self, key: F::Key) -> Result<()> {
        if self.seek(Seek::AtOrAfter(key))?.is_none()
            && let Some(leaf) = self.path.leaf_mut()
        {
            leaf.index = leaf.count;
        }
        Ok(())
    }

    /// Moves to the leaf where a record with key `key` belongs. Returns the index at which the
    /// record belongs in that leaf.
    fn position_of(&mut self, key: F::Key) -> Result<usize> {
        self.path.go_towards(&self.store, key)?;
        let leaf = self.path_block(self.path.levels - 1);
        if leaf.count == 0 {
            return Ok(0);
        }
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let group = self.path.group(self.store.geometry());
        let found = Path::<F, S::Block>::entry_key(&group, &block, leaf.index);
        let is_after = found.map_err(|check| corrupt(leaf.at, check))? <= key;
        Ok(leaf.index + usize::from(is_after))
    }

    /// Checks that `record` may lie between its two neighbours in the leaf, the records at the
    /// indexes `before` and `after`. A neighbour that does not exist is not checked.
    fn verify_neighbours(
        &self,
        record: &F::Record,
        before: Option<usize>,
        after: usize,
    ) -> Result<()> {
        let leaf = self.path_block(self.path.levels - 1);
        let bytes = leaf.buffer.bytes();
        let block = BtreeBlock::decode(&bytes, F::KIND, leaf.at)?;
        let group = self.path.group(self.store.geometry());
        let at = |index| {
            let record = F::decode_record(block.record(index).expect(IN_LEAF), &group);
            record.map_err(|check| corrupt(leaf.at, check))
        };
        let index = before.map_or(0, |before| before + 1);
        let out_of_order = || Err(corrupt(leaf.at, BtreeCheck::Order { index }).into());
        if let Some(before) = before
            && !F::may_follow(record, &at(before)?)
        {
            return out_of_order();
        }
        let is_after = leaf.upper.is_some_and(|upper| F::key(record) >= upper);
        if is_after || (after < leaf.count && !F::may_follow(&at(after)?, record)) {
            return out_of_order();
        }
        Ok(())
    }

    /// Passes the root to the store if the root has changed.
    fn keep_root(&mut self) -> Result<()> {
        if !self.root_changed {
            return Ok(());
        }
        self.root_changed = false;
        match &self.path.top.root {
            TopRoot::Header(block) if F::KIND.layout().form == PointerForm::Long => {
                let levels = u32::try_from(self.path.levels).expect("the levels of a btree fit");
                self.store.set_root(Root::Tree(TreeRoot { block: *block, levels }))
            }
            TopRoot::Header(block) => {
                let block = u32::try_from(*block).expect("a block of a group has 32 bits");
                let levels = u32::try_from(self.path.levels).expect("the levels of a btree fit");
                let root = BtreeRoot { block: AgBlock(block), levels };
                self.store.set_root(Root::Block(root))
            }
            TopRoot::Inode(root) => self.store.set_root(Root::Fork(root)),
        }
    }

    /// Returns the block at `depth` on the path. The path must be complete: it reaches down to a
    /// leaf.
    #[expect(clippy::indexing_slicing, reason = "an editor that writes has descended to a leaf")]
    fn path_block(&self, depth: usize) -> &PathBlock<F::Key, S::Block> {
        &self.path.steps[depth]
    }

    #[expect(clippy::indexing_slicing, reason = "an editor that writes has descended to a leaf")]
    fn path_block_mut(&mut self, depth: usize) -> &mut PathBlock<F::Key, S::Block> {
        &mut self.path.steps[depth]
    }

    /// Returns the level of the block at `depth`: its distance from the leaves.
    fn level(&self, depth: usize) -> u32 {
        u32::try_from(self.path.levels - 1 - depth).expect("the levels of a btree fit")
    }

    fn shape(&self, level: u32) -> EntryLayout {
        EntryLayout::new(F::KIND.layout(), level, self.store.geometry().block_size)
    }
}

impl<S: BtreeStore> Editor<Extents, S> {
    /// Creates an editor of the extent btree of a fork of `inode`. The btree's root lies in the
    /// inode.
    ///
    /// The last record of the btree cannot be removed: as soon as the remaining extents fit into
    /// the inode, the fork stores them there as a list and has no btree any more.
    ///
    /// # Errors
    ///
    /// Returns no error at present, because the root was checked when it was decoded.
    pub fn in_fork(store: S, inode: InodeNumber, root: ForkRoot) -> Result<Self> {
        Ok(Self { store, path: Path::in_inode(inode, root), root_changed: false })
    }
}

#[cfg(test)]
mod tests;
