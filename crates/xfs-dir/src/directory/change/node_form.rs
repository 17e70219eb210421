//! The node form of a directory: data blocks, a btree of leaves, and the free-space index.

use xfs_buffer::Result;
use xfs_format::directory::leaf::LEAFN_MAGIC;
use xfs_format::directory::name_hash;

use super::find::FoundEntry;
use super::free::FreeSearch;
use super::{DirectoryChange, NewEntry, data, leaf};
use crate::store::ForkStore;
use crate::tree::{self, Side, TreePath};

/// The fill level of a leaf, in percent of the entries that fit, below which the leaf is joined
/// with a neighbour.
const SPARSE_PERCENT: usize = 37;
/// The highest fill level, in percent, of a leaf that results from joining two leaves. It is below
/// 100, so that the next insertion does not split the leaf again.
const JOINED_PERCENT: usize = 75;

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Adds an entry to a directory in node form. The path leads to the leaf of the index in which
    /// the entry belongs.
    pub(super) fn add_to_tree(
        &mut self,
        path: TreePath<S::Block>,
        entry: &NewEntry<'_>,
    ) -> Result<()> {
        let (index, offset) = match self.find_free(data::length_of(entry.name))? {
            FreeSearch::Block(index, free) => {
                let data = self.read_data(index)?;
                let (offset, best) = self.put_in_data(&data, index, entry)?;
                self.set_free_in(&free, index, best);
                (index, offset)
            }
            FreeSearch::New(index) => {
                let data = self.grow_data(index)?;
                self.ensure_free(index)?;
                let (offset, best) = self.put_in_data(&data, index, entry)?;
                self.set_free(index, best)?;
                (index, offset)
            }
        };
        let cookie = self.cookie(index, offset)?;
        self.insert_in_tree(path, name_hash(entry.name), cookie.0)
    }

    fn insert_in_tree(
        &mut self,
        mut path: TreePath<S::Block>,
        hash: u32,
        cookie: u32,
    ) -> Result<()> {
        let counts = self.store.view(&path.leaf, leaf::LeafCounts::of);
        if !counts.has_room(0) {
            self.split_leaf(&mut path, hash)?;
        }
        let block = path.leaf.clone();
        let cookie = xfs_format::directory::Cookie(cookie);
        self.store.edit(&block, |edit| leaf::insert(edit, hash, cookie));
        path.fix_hashes(self.store);
        Ok(())
    }

    /// Splits a full leaf, which must have no stale entries. The path then leads to the leaf in
    /// which `hash` belongs.
    fn split_leaf(&mut self, path: &mut TreePath<S::Block>, hash: u32) -> Result<()> {
        let (right_at, right) = path.grow_right(self.store)?;
        let identity = tree::identity(self.store, &right);
        let upper = self.store.edit(&path.leaf.clone(), leaf::take_upper_half);
        self.store.edit(&right, |edit| {
            leaf::initialise(edit, LEAFN_MAGIC, &identity);
            leaf::append(edit, &upper);
        });
        path.insert_right(self.store, right_at, &right)?;
        if upper.first().is_some_and(|(first, _)| *first < hash) {
            path.go_right(right_at, right);
        }
        Ok(())
    }

    /// Removes an entry from a directory in node form, and converts the directory to a smaller form
    /// if possible. The path leads to the leaf of the index that has the entry.
    pub(super) fn remove_from_tree(
        &mut self,
        path: TreePath<S::Block>,
        found: &FoundEntry<S::Block>,
    ) -> Result<()> {
        let index = found.cookie.offset() / self.block_bytes as u64;
        let best = self.free_entry(found);
        let goes = index != 0 && self.is_all_free(&found.data);
        if goes {
            self.shrink_data(index, &found.data)?;
            self.clear_free(index)?;
        } else {
            self.set_free(index, best)?;
        }
        let block = path.leaf.clone();
        let removed = self.store.edit(&block, |edit| leaf::remove(edit, found.hash, found.cookie));
        assert!(removed, "the entry was found by this index");
        self.join_leaf(path)?;
        self.node_to_leaf()
    }

    /// Joins a leaf that has few entries with a neighbour, or removes an empty leaf.
    fn join_leaf(&mut self, path: TreePath<S::Block>) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let live = self.store.view(&path.leaf, |bytes| leaf::LeafCounts::of(bytes).live());
        let capacity = leaf::capacity(self.block_bytes);
        if live * 100 >= capacity * SPARSE_PERCENT {
            return Ok(());
        }
        if live == 0 {
            return path.remove_leaf(self.store);
        }
        for side in [Side::Left, Side::Right] {
            let Some(neighbour) = path.neighbour(self.store, side)? else { continue };
            let other =
                self.store.view(&neighbour.leaf, |bytes| leaf::LeafCounts::of(bytes).live());
            if (live + other) * 100 > capacity * JOINED_PERCENT {
                continue;
            }
            let entries = self.store.view(&path.leaf, leaf::live_entries);
            let block = neighbour.leaf.clone();
            self.store.edit(&block, |edit| {
                leaf::compact(edit);
                match side {
                    Side::Left => leaf::append(edit, &entries),
                    Side::Right => leaf::prepend(edit, &entries),
                }
            });
            neighbour.fix_hashes(self.store);
            return path.remove_leaf(self.store);
        }
        Ok(())
    }
}
