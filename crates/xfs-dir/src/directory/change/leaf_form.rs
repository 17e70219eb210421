//! The leaf form of a directory: data blocks, and one leaf. The leaf also holds the length of each
//! data block's longest free record.

use std::mem::offset_of;

use xfs_buffer::Result;
use xfs_format::BlockKind;
use xfs_format::directory::data::{DATA_MAGIC, DataHeaderDisk};
use xfs_format::directory::{DirectoryCheck, NULL_OFFSET, name_hash};

use super::find::FoundEntry;
use super::free::fits;
use super::{DirectoryChange, NewEntry, data, leaf};
use crate::store::ForkStore;

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Adds an entry to a directory in leaf form. If the leaf is full, converts the directory to
    /// the node form first.
    pub(super) fn add_to_leaf(&mut self, leaf: &S::Block, entry: &NewEntry<'_>) -> Result<()> {
        let length = data::length_of(entry.name);
        let (room, hole, known) = self.store.view(leaf, |bytes| {
            let room = leaf::lengths(bytes).position(|best| fits(best, length));
            let hole = leaf::lengths(bytes).position(|best| best == NULL_OFFSET);
            (room, hole, leaf::LeafCounts::of(bytes).lengths)
        });
        let more = usize::from(room.or(hole).is_none());
        let counts = self.store.view(leaf, leaf::LeafCounts::of);
        if !counts.has_room(more) {
            if !counts.has_room_compacted(more) {
                let path = self.leaf_to_node(leaf, name_hash(entry.name))?;
                return self.add_to_tree(path, entry);
            }
            self.store.edit(leaf, leaf::compact);
        }
        let index = room.or(hole).unwrap_or(known);
        let data = match room {
            Some(index) => self.read_data(index as u64)?,
            None => self.grow_data(index as u64)?,
        };
        let (offset, best) = self.put_in_data(&data, index as u64, entry)?;
        let cookie = self.cookie(index as u64, offset)?;
        self.store.edit(leaf, |edit| {
            if index == known {
                leaf::add_length(edit, best);
            } else {
                leaf::set_length(edit, index, best);
            }
            leaf::insert(edit, name_hash(entry.name), cookie);
        });
        Ok(())
    }

    /// Creates data block `index`, which has only one free record. Increases the size of the
    /// directory to include the block.
    pub(super) fn grow_data(&mut self, index: u64) -> Result<S::Block> {
        // The last offset of the block must have a cookie.
        self.cookie(index, self.block_bytes - 1)?;
        let at = self.data_at(index);
        if self.store.first_unused(at, self.blocks)? != at {
            return Err(self.corrupt(at, DirectoryCheck::FreeUnknown { index }));
        }
        let data = self.store.grow(at, BlockKind::DirectoryData)?;
        let (identity, end) = (self.identity(&data), self.block_bytes);
        self.store.edit(&data, |edit| data::initialise(edit, DATA_MAGIC, &identity, end));
        let size = (index + 1) * self.block_bytes as u64;
        if self.store.size() < size {
            self.store.set_size(size);
        }
        Ok(data)
    }

    /// Writes an entry to a data block that has room for the entry according to the index. Returns
    /// the offset of the entry in the block, and the length of the longest free record after the
    /// write. Returns an error if the block has no room: the index is then corrupt.
    pub(super) fn put_in_data(
        &mut self,
        data: &S::Block,
        index: u64,
        entry: &NewEntry<'_>,
    ) -> Result<(usize, u16)> {
        let free = self.store.view(data, data::longest);
        if free.len() < data::length_of(entry.name) {
            // The index was wrong. It came from disk, so this is corruption.
            let (offset, length) = (free.start, free.len() as u16);
            let check = DirectoryCheck::FreeNotListed { offset, length };
            return Err(self.corrupt(self.data_at(index), check));
        }
        let (offset, end) = (free.start, self.block_bytes);
        let best = self.store.edit(data, |edit| {
            data::put_entry(edit, free, entry, end);
            data::longest_length(edit.bytes())
        });
        Ok((offset, best))
    }

    /// Removes an entry from a directory in leaf form, and converts the directory to a smaller form
    /// if possible.
    pub(super) fn remove_from_leaf(
        &mut self,
        leaf: &S::Block,
        found: &FoundEntry<S::Block>,
    ) -> Result<()> {
        let index = found.cookie.offset() / self.block_bytes as u64;
        let known = self.store.view(leaf, |bytes| leaf::LeafCounts::of(bytes).lengths);
        if index as usize >= known {
            let check = DirectoryCheck::FreeMissing { index };
            return Err(self.corrupt(self.tree_shape().root, check));
        }
        let best = self.free_entry(found);
        let removed = self.store.edit(leaf, |edit| leaf::remove(edit, found.hash, found.cookie));
        assert!(removed, "the entry was found by this index");
        // The first data block holds `.` and `..`, so it is never all free.
        let goes = index != 0 && self.is_all_free(&found.data);
        let best = if goes { NULL_OFFSET } else { best };
        self.store.edit(leaf, |edit| leaf::set_length(edit, index as usize, best));
        if goes {
            self.shrink_data(index, &found.data)?;
            self.store.edit(leaf, leaf::trim_lengths);
        }
        self.leaf_to_block(leaf)
    }

    /// Frees the record of an entry; returns the length of the longest free record that its data
    /// block then has.
    pub(super) fn free_entry(&mut self, found: &FoundEntry<S::Block>) -> u16 {
        let offset = found.cookie.offset() as usize % self.block_bytes;
        let end = self.block_bytes;
        self.store.edit(&found.data, |edit| {
            let record = data::entry_range(edit.bytes(), offset);
            data::free(edit, record, end);
            data::longest_length(edit.bytes())
        })
    }

    pub(super) fn is_all_free(&self, block: &S::Block) -> bool {
        self.store.view(block, |bytes| data::is_all_free(bytes, self.block_bytes))
    }

    /// Frees data block `index`. If it was the last block, reduces the size of the directory to end
    /// with the previous data block.
    pub(super) fn shrink_data(&mut self, index: u64, block: &S::Block) -> Result<()> {
        self.store.shrink(self.data_at(index), block)?;
        if self.store.size() == (index + 1) * self.block_bytes as u64 {
            let end = self.store.last_before(self.tree_shape().root)?;
            self.store.set_size(end.0 * u64::from(self.store.geometry().block_size));
        }
        Ok(())
    }

    /// Returns whether a data block has the magic number that data blocks have in the leaf form and
    /// the node form.
    pub(super) fn verify_data_magic(&self, block: &S::Block) -> bool {
        let at = offset_of!(DataHeaderDisk, magic);
        self.store.view(block, |bytes| crate::edit::u32_at(bytes, at)) == DATA_MAGIC
    }
}
