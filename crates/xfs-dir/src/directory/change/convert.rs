//! Conversions between the forms of a directory, to larger and to smaller forms.

use xfs_buffer::{PosixError, Result};
use xfs_format::directory::data::{DATA_HEADER, DATA_MAGIC, entry_length};
use xfs_format::directory::leaf::LEAF1_MAGIC;
use xfs_format::directory::{DataBlock, DirectoryForm, EntryType, ShortForm};
use xfs_format::{BlockKind, dabtree};

use super::find::FoundEntry;
use super::short_form::{Short, ShortEntry};
use super::{DirectoryChange, Form, NewEntry, block, data, leaf};
use crate::store::ForkStore;
use crate::tree::{self, TreePath};

/// Number of bytes in the header of the short form.
const SHORT_HEADER: usize = 6;
/// Number of bytes in the shortest entry of the short form.
const SHORT_ENTRY: usize = 9;

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Adds an entry to a directory in short form. If the inode has no room, converts the directory
    /// to the block form first.
    pub(super) fn add_to_short(&mut self, mut short: Short, entry: &NewEntry<'_>) -> Result<()> {
        let before = short.clone();
        if short.insert(entry, self.block_bytes) {
            let bytes = short.encode();
            if bytes.len() <= self.store.local_room() {
                return self.store.set_local(&bytes);
            }
        }
        let block = self.short_to_block(&before)?;
        self.add_to_block(&block, entry)
    }

    /// Changes the inode that an entry of the short form names. If the new inode number is the
    /// first one in the directory that needs more than 32 bits, all entries become longer.
    pub(super) fn replace_in_short(
        &mut self,
        short: Short,
        entry: &NewEntry<'_>,
    ) -> Result<xfs_format::InodeNumber> {
        let mut after = short.clone();
        let before = if entry.name == b".." {
            std::mem::replace(&mut after.parent, entry.inode)
        } else {
            let index = short.find(entry.name).ok_or(PosixError::NotFound)?;
            let slot = after.entries.get_mut(index).ok_or(PosixError::NotFound)?;
            slot.entry_type = entry.entry_type;
            std::mem::replace(&mut slot.inode, entry.inode)
        };
        let bytes = after.encode();
        if bytes.len() <= self.store.local_room() {
            self.store.set_local(&bytes)?;
        } else {
            self.short_to_block(&short)?;
            self.replace(entry)?;
        }
        Ok(before)
    }

    /// Converts a directory from the short form to the block form, to make room in the inode.
    pub(crate) fn leave_short_form(&mut self) -> Result<()> {
        if let Form::Short(short) = self.form()? {
            self.short_to_block(&short)?;
        }
        Ok(())
    }

    fn short_to_block(&mut self, short: &Short) -> Result<S::Block> {
        self.store.set_empty()?;
        let block = self.store.grow(self.data_at(0), BlockKind::DirectoryData)?;
        let dot =
            |name: &'static [u8], inode| NewEntry { name, inode, entry_type: EntryType::Directory };
        let mut entries = vec![
            (ShortForm::DOT_COOKIE.offset() as usize, dot(b".", self.store.number())),
            (ShortForm::PARENT_COOKIE.offset() as usize, dot(b"..", short.parent)),
        ];
        entries.extend(
            short.entries.iter().map(|entry| (entry.cookie.offset() as usize, entry.as_new())),
        );
        let identity = self.identity(&block);
        self.store.edit(&block, |edit| block::initialise(edit, &identity, &entries));
        self.store.set_size(self.block_bytes as u64);
        Ok(block)
    }

    /// Adds an entry to a directory in block form. If the block has no room, converts the directory
    /// to the leaf form first.
    pub(super) fn add_to_block(&mut self, block: &S::Block, entry: &NewEntry<'_>) -> Result<()> {
        if self.store.edit(block, |edit| block::add(edit, entry)).is_some() {
            return Ok(());
        }
        let leaf = self.block_to_leaf(block)?;
        self.add_to_leaf(&leaf, entry)
    }

    fn block_to_leaf(&mut self, block: &S::Block) -> Result<S::Block> {
        let root = self.tree_shape().root;
        let leaf = self.store.grow(root, BlockKind::DirectoryIndex)?;
        let entries: Vec<_> = self.store.view(block, |bytes| {
            super::index::live(block::BlockLayout::of(bytes).run.entries(bytes)).collect()
        });
        let best = self.store.edit(block, |edit| {
            block::into_data(edit, DATA_MAGIC);
            data::longest_length(edit.bytes())
        });
        let identity = tree::identity(self.store, &leaf);
        self.store.edit(&leaf, |edit| {
            leaf::initialise(edit, LEAF1_MAGIC, &identity);
            leaf::append(edit, &entries);
            leaf::put_lengths(edit, &[best]);
        });
        Ok(leaf)
    }

    /// Converts the leaf form to the node form: the only leaf becomes the root of a btree. Returns
    /// the path to this leaf. `hash` can be any hash, because the only leaf covers all hashes.
    pub(super) fn leaf_to_node(
        &mut self,
        leaf: &S::Block,
        hash: u32,
    ) -> Result<TreePath<S::Block>> {
        let lengths: Vec<u16> = self.store.view(leaf, |bytes| leaf::lengths(bytes).collect());
        self.make_free(&lengths)?;
        self.store.edit(leaf, leaf::into_tree_leaf);
        TreePath::descend(self.store, self.tree_shape(), hash)
    }

    /// Converts the node form to the leaf form if one leaf can hold all entries, and then to
    /// smaller forms if possible.
    pub(super) fn node_to_leaf(&mut self) -> Result<()> {
        let root = self.tree_shape().root;
        let leaf = self.store.read_owned(root, BlockKind::DirectoryIndex)?;
        let is_node = |bytes: &[u8]| dabtree::magic(bytes) == Some(dabtree::NODE_MAGIC);
        if self.store.view(&leaf, is_node) {
            return Ok(());
        }
        let live = self.store.view(&leaf, |bytes| leaf::LeafCounts::of(bytes).live());
        if !leaf::fits_only_leaf(self.block_bytes, live, 1) {
            return Ok(());
        }
        let Some((free, lengths)) = self.only_free()? else { return Ok(()) };
        if !leaf::fits_only_leaf(self.block_bytes, live, lengths.len()) {
            return Ok(());
        }
        self.store.edit(&leaf, |edit| {
            leaf::compact(edit);
            leaf::into_only_leaf(edit, &lengths);
        });
        self.drop_free(&free)?;
        self.leaf_to_block(&leaf)
    }

    /// Converts the leaf form to the block form if the only data block has room for the index, and
    /// then to the short form if possible.
    pub(super) fn leaf_to_block(&mut self, leaf: &S::Block) -> Result<()> {
        let counts = self.store.view(leaf, leaf::LeafCounts::of);
        if counts.lengths != 1 || self.store.size() != self.block_bytes as u64 {
            return Ok(());
        }
        let entries = self.store.view(leaf, leaf::live_entries);
        let block = self.read_data(0)?;
        if !self.verify_data_magic(&block)
            || !self.store.edit(&block, |edit| block::from_data(edit, &entries))
        {
            return Ok(());
        }
        self.store.shrink(self.tree_shape().root, leaf)?;
        self.block_to_short(&block)
    }

    /// Removes an entry from a directory in block form, and converts the directory to the short
    /// form if possible.
    pub(super) fn remove_from_block(
        &mut self,
        block: &S::Block,
        found: &FoundEntry<S::Block>,
    ) -> Result<()> {
        let (hash, cookie) = (found.hash, found.cookie);
        let removed = self.store.edit(block, |edit| block::remove(edit, hash, cookie));
        assert!(removed, "the entry was found by this index");
        self.block_to_short(block)
    }

    /// Converts the block form to the short form if the inode has room for the entries.
    fn block_to_short(&mut self, block: &S::Block) -> Result<()> {
        let live = self.store.view(block, |bytes| block::BlockLayout::of(bytes).live());
        let room = self.store.local_room();
        if SHORT_HEADER + SHORT_ENTRY * live.saturating_sub(2) > room {
            return Ok(());
        }
        let place = self.store.place(self.data_at(0));
        let short = self.store.view(block, |bytes| -> Result<Short> {
            let decoded = DataBlock::decode(bytes, 0, place, DirectoryForm::V5)?;
            let mut short = Short { parent: decoded.parent()?, entries: Vec::with_capacity(live) };
            for entry in decoded.entries() {
                let entry = entry?;
                if entry.cookie > ShortForm::PARENT_COOKIE {
                    short.entries.push(ShortEntry::from(entry));
                }
            }
            Ok(short)
        })?;
        const { assert!(ShortForm::PARENT_COOKIE.offset() as usize == DATA_HEADER + entry_length(1)) };
        let bytes = short.encode();
        if bytes.len() > room {
            return Ok(());
        }
        let at = self.data_at(0);
        self.store.shrink(at, block)?;
        self.store.set_local(&bytes)
    }
}
