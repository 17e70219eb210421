//! Finding an entry that is to be changed: its cookie, and the block that contains it.

use xfs_buffer::Result;
use xfs_format::directory::{
    Cookie, DataBlock, DirectoryCheck, DirectoryForm, EntryType, LeafBlock, name_hash,
};
use xfs_format::{InodeNumber, StructureAddress};

use super::DirectoryChange;
use crate::store::ForkStore;
use crate::tree::TreePath;

/// A directory entry that a search has found.
pub(crate) struct FoundEntry<B> {
    pub(super) hash: u32,
    pub(super) cookie: Cookie,
    pub(super) inode: InodeNumber,
    pub(super) entry_type: EntryType,
    /// The data block that contains the entry.
    pub(super) data: B,
}

/// The result of a search in the node form: the entry, or `None` if it does not exist, and the path
/// to the leaf of the index that contains the entry or in which the entry belongs.
pub(super) type EntryInTree<B> = (Option<FoundEntry<B>>, TreePath<B>);

/// The entries of a leaf with one hash: candidates for the name that is searched for.
struct Candidates {
    /// The cookie of the first candidate, which is nearly always the only one. This cookie is
    /// stored here, outside of a list, so that the common case allocates no memory.
    first: Option<Cookie>,
    others: Vec<Cookie>,
    /// Whether the next leaf may contain more entries with this hash.
    continues: bool,
}

impl Candidates {
    fn cookies(&self) -> impl Iterator<Item = Cookie> {
        self.first.iter().chain(&self.others).copied()
    }
}

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Finds the entry of a name in a directory in block form; returns `None` if there is no such
    /// entry.
    pub(super) fn find_in_block(
        &mut self,
        block: &S::Block,
        name: &[u8],
    ) -> Result<Option<FoundEntry<S::Block>>> {
        let place = self.store.place(self.data_at(0));
        let found = self.store.view(block, |bytes| -> Result<_> {
            let decoded = DataBlock::decode(bytes, 0, place, DirectoryForm::V5)?;
            if !decoded.is_block_form() {
                return Err(self.corrupt(self.data_at(0), DirectoryCheck::Form));
            }
            let entry = decoded.find(name)?;
            Ok(entry.map(|entry| (entry.cookie, entry.inode, entry.entry_type)))
        })?;
        let hash = name_hash(name);
        Ok(found.map(|(cookie, inode, entry_type)| FoundEntry {
            hash,
            cookie,
            inode,
            entry_type,
            data: block.clone(),
        }))
    }

    /// Finds the entry of a name in a directory in leaf form; returns `None` if there is no such
    /// entry.
    pub(super) fn find_in_leaf(
        &mut self,
        leaf: &S::Block,
        name: &[u8],
    ) -> Result<Option<FoundEntry<S::Block>>> {
        let hash = name_hash(name);
        let candidates = self.candidates(leaf, self.store.inode_place(), hash)?;
        self.find_among(candidates.cookies(), hash, name)
    }

    /// Returns the cookies of those entries of a leaf that have this hash.
    fn candidates(
        &self,
        leaf: &S::Block,
        place: StructureAddress,
        hash: u32,
    ) -> Result<Candidates> {
        self.store.view(leaf, |bytes| -> Result<_> {
            let leaf = LeafBlock::decode(bytes, place)?;
            let mut cookies = leaf
                .find(hash)
                .map(|entry| Cookie(entry.cookie.get()))
                .filter(|cookie| *cookie != Cookie::START);
            let (first, others) = (cookies.next(), cookies.collect());
            let continues = leaf.entries().last().is_none_or(|last| last.hash.get() == hash);
            Ok(Candidates { first, others, continues })
        })
    }

    fn find_among(
        &mut self,
        cookies: impl Iterator<Item = Cookie>,
        hash: u32,
        name: &[u8],
    ) -> Result<Option<FoundEntry<S::Block>>> {
        for cookie in cookies {
            if let Some(found) = self.find_at(hash, cookie, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the entry at `cookie` if that entry has this name; otherwise returns `None`.
    fn find_at(
        &mut self,
        hash: u32,
        cookie: Cookie,
        name: &[u8],
    ) -> Result<Option<FoundEntry<S::Block>>> {
        let index = cookie.offset() / self.block_bytes as u64;
        let data = self.read_data(index)?;
        let place = self.store.place(self.data_at(index));
        let start = index * self.block_bytes as u64;
        let found = self.store.view(&data, |bytes| -> Result<_> {
            let block = DataBlock::decode(bytes, start, place, DirectoryForm::V5)?;
            if block.is_block_form() {
                return Err(self.corrupt(self.data_at(index), DirectoryCheck::Form));
            }
            let entry = block.entry_at(cookie)?;
            if name_hash(entry.name) != hash {
                let check = DirectoryCheck::IndexTarget { hash, offset: cookie.offset() };
                return Err(self.corrupt(self.data_at(index), check));
            }
            Ok((entry.name == name).then_some((entry.inode, entry.entry_type)))
        })?;
        Ok(found.map(|(inode, entry_type)| FoundEntry { hash, cookie, inode, entry_type, data }))
    }

    /// Finds the entry of a name in a directory in node form, and the path to its leaf in the
    /// index. If the entry does not exist, the path leads to the leaf in which it belongs.
    ///
    /// Entries whose names have the same hash may spread over several leaves.
    pub(super) fn find_in_tree(
        &mut self,
        root: S::Block,
        name: &[u8],
    ) -> Result<EntryInTree<S::Block>> {
        let hash = name_hash(name);
        let mut path = TreePath::descend_from(self.store, self.tree_shape(), root, hash)?;
        let mut has_moved = false;
        loop {
            let candidates = self.candidates(&path.leaf, self.store.place(path.at), hash)?;
            let found = self.find_among(candidates.cookies(), hash, name)?;
            if found.is_some() {
                return Ok((found, path));
            }
            if !candidates.continues || !path.advance(self.store)? {
                break;
            }
            has_moved = true;
        }
        if has_moved {
            path = TreePath::descend(self.store, self.tree_shape(), hash)?;
        }
        Ok((None, path))
    }
}
