//! Lookup of a name through the hash index, in the leaf form and the node form of a directory.

use xfs_buffer::{Buffer, Result};
use xfs_format::directory::{
    Cookie, DirectoryCheck, EntryType, HashEntryDisk, LeafBlock, NameComparison, index_start,
};
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, InodeNumber};

use super::Directory;
use crate::dabtree::{CycleDetector, Tree};

impl<'a> Directory<'a> {
    pub(super) fn index(&self) -> Tree<'a> {
        Tree {
            cache: self.cache,
            inode: self.inode,
            recent: self.recent,
            fork: ForkKind::Data,
            root: index_start(self.cache.geometry()),
            blocks: self.blocks(),
            block_kind: BlockKind::DirectoryIndex,
        }
    }

    /// Returns how this volume compares names.
    fn names(&self) -> NameComparison {
        self.cache.geometry().directory_form.names
    }

    /// Returns the inode number and the file type of a name; `None` if the name does not exist.
    /// Entries whose names have the same hash may spread over several leaves.
    pub(super) fn find_in_index(&self, name: &[u8]) -> Result<Option<(InodeNumber, EntryType)>> {
        let (tree, hash) = (self.index(), self.names().hash(name));
        let mut leaf = tree.find_leaf(hash)?;
        let mut cycle = CycleDetector::new(leaf.block);
        let mut candidates = HashMatches { directory: self, name, last: None };
        loop {
            let bytes = leaf.buffer.bytes();
            let decoded = LeafBlock::decode(&bytes, tree.place(leaf.block))?;
            for entry in decoded.find(hash) {
                if let Some(found) = candidates.compare(entry)? {
                    return Ok(Some(found));
                }
            }
            let continues = decoded.entries().last().is_none_or(|last| last.hash.get() == hash);
            let Some(next) = decoded.forward().filter(|_| continues) else { return Ok(None) };
            cycle.advance(&tree, next)?;
            drop(bytes);
            leaf = tree.read_sibling(next, hash)?;
        }
    }
}

/// Compares the name that is searched for with the names of all entries that have its hash. Keeps
/// the last data block that was read, because neighbours in the index often share a data block.
struct HashMatches<'d, 'a> {
    directory: &'d Directory<'a>,
    name: &'d [u8],
    last: Option<(u64, Buffer)>,
}

impl HashMatches<'_, '_> {
    fn compare(&mut self, candidate: &HashEntryDisk) -> Result<Option<(InodeNumber, EntryType)>> {
        let cookie = Cookie(candidate.cookie.get());
        if cookie == Cookie::START {
            return Ok(None);
        }
        let index = cookie.offset() / self.directory.block_size();
        let (_, buffer) = match self.last.take().filter(|(last, _)| *last == index) {
            Some(last) => self.last.insert(last),
            None => self.last.insert((index, self.directory.read_data(index)?)),
        };
        let bytes = buffer.bytes();
        let entry = self.directory.decode_data(&bytes, index)?.entry_at(cookie)?;
        let hash = candidate.hash.get();
        let names = self.directory.names();
        if names.hash(entry.name) != hash {
            let check = DirectoryCheck::IndexTarget { hash, offset: cookie.offset() };
            return Err(self.directory.corrupt(self.directory.data_place(index), check).into());
        }
        Ok(names.matches(entry.name, self.name).then_some((entry.inode, entry.entry_type)))
    }
}
