//! Changing a directory in every form: adding entries, removing them, and changing the inode that
//! an entry names.
//!
//! Owns: the form of a directory and the conversions between forms. Does **not** own link counts,
//! time stamps and parent pointers of the named inodes.
//!
//! ```text
//!             add                     add                 add
//! short ─short_to_block─► block ─block_to_leaf─► leaf ─leaf_to_node─► node
//! short ◄─block_to_short─ block ◄─leaf_to_block─ leaf ◄─node_to_leaf─ node
//!            remove                  remove              remove
//! ```
//!
//! # Invariants
//!
//! - **I1** Everything that can be refused is refused before the first change: a name that exists
//!   or does not exist, a name that is too long.
//! - **I2** An entry keeps its cookie through all forms.
//! - **I3** All blocks of one change are joined to one transaction, so that after a crash the
//!   change is present as a whole or not at all.

mod block;
mod convert;
mod data;
mod find;
mod free;
mod index;
mod leaf;
mod leaf_form;
mod node_form;
mod room;
mod short_form;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::directory::leaf::LEAF1_MAGIC;
use xfs_format::directory::{
    Cookie, DirectoryCheck, EntryType, MAX_NAME, index_start, name_is_sound,
};
use xfs_format::{BlockKind, Corruption, FileBlock, InodeNumber, Structure, dabtree};

use crate::store::{ForkPlacement, ForkStore};
use crate::tree::{TreePath, TreeShape};

use find::FoundEntry;
use short_form::Short;

/// An entry to add to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The number of the inode that the entry names.
    pub inode: InodeNumber,
    /// The file type of the inode that the entry names.
    pub entry_type: EntryType,
}

/// A directory that a transaction changes.
pub(crate) struct DirectoryChange<'s, S: ForkStore> {
    /// The directory's data fork. All blocks of the directory are changed through this store, and
    /// so in one transaction (I3).
    store: &'s mut S,
    /// Number of bytes in a directory block.
    block_bytes: usize,
    /// Number of filesystem blocks in a directory block.
    blocks: u32,
}

/// The form of a directory, with the contents or the block from which the form was recognised.
enum Form<B> {
    Short(Short),
    /// Block form, with the only block.
    Block(B),
    /// Leaf form, with the only leaf of the index.
    Leaf(B),
    /// Node form, with the root of the index.
    Node(B),
}

/// The result of the search for a name in a directory, with the entry if it exists. There is one
/// variant for each form of the directory.
pub(crate) enum EntrySearch<B> {
    /// The decoded directory in short form, and the index of the entry. The index is `None` if the
    /// directory has no entry with the name.
    Short(Short, Option<usize>),
    Block(B, Option<FoundEntry<B>>),
    Leaf(B, Option<FoundEntry<B>>),
    /// The path to the leaf that contains the entry, or to the leaf in which the entry belongs; and
    /// the entry, if it exists.
    Node(TreePath<B>, Option<FoundEntry<B>>),
}

impl<B> EntrySearch<B> {
    /// Returns whether the search has found an entry with the name.
    fn is_taken(&self) -> bool {
        match self {
            Self::Short(_, index) => index.is_some(),
            Self::Block(_, found) | Self::Leaf(_, found) | Self::Node(_, found) => found.is_some(),
        }
    }

    /// Returns the inode number and the file type that the name has in directory `number`; `None`
    /// if the name does not exist.
    pub(crate) fn meaning(
        &self,
        number: InodeNumber,
        name: &[u8],
    ) -> Option<(InodeNumber, EntryType)> {
        match self {
            Self::Short(short, index) => match name {
                b"." => Some((number, EntryType::Directory)),
                b".." => Some((short.parent, EntryType::Directory)),
                _ => index
                    .and_then(|index| short.entries.get(index))
                    .map(|entry| (entry.inode, entry.entry_type)),
            },
            Self::Block(_, found) | Self::Leaf(_, found) | Self::Node(_, found) => {
                found.as_ref().map(|found| (found.inode, found.entry_type))
            }
        }
    }
}

impl<'s, S: ForkStore> DirectoryChange<'s, S> {
    pub(crate) fn new(store: &'s mut S) -> Self {
        let geometry = store.geometry();
        let (block_bytes, blocks) =
            (geometry.directory_block_size() as usize, 1 << geometry.directory_block_log);
        Self { store, block_bytes, blocks }
    }

    /// Initializes the empty directory of a new inode, whose parent directory is `parent`.
    pub(crate) fn initialise(&mut self, parent: InodeNumber) -> Result<()> {
        let short = Short { parent, entries: Vec::new() };
        self.store.set_local(&short.encode())
    }

    /// Returns the inode number and the file type of a name; `None` if the name does not exist.
    pub(crate) fn find(&mut self, name: &[u8]) -> Result<Option<(InodeNumber, EntryType)>> {
        let search = self.seek(name)?;
        Ok(search.meaning(self.store.number(), name))
    }

    /// Searches for the entry of a name. If the name does not exist, the result says where its
    /// entry belongs. The result is valid until the directory changes.
    pub(crate) fn seek(&mut self, name: &[u8]) -> Result<EntrySearch<S::Block>> {
        if name.len() > MAX_NAME {
            return Err(PosixError::NameTooLong.into());
        }
        Ok(match self.form()? {
            Form::Short(short) => {
                let index = short.find(name);
                EntrySearch::Short(short, index)
            }
            Form::Block(block) => {
                let found = self.find_in_block(&block, name)?;
                EntrySearch::Block(block, found)
            }
            Form::Leaf(leaf) => {
                let found = self.find_in_leaf(&leaf, name)?;
                EntrySearch::Leaf(leaf, found)
            }
            Form::Node(root) => {
                let (found, path) = self.find_in_tree(root, name)?;
                EntrySearch::Node(path, found)
            }
        })
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &NewEntry<'_>) -> Result<()> {
        let search = self.seek(entry.name)?;
        self.add_at(search, entry)
    }

    /// Adds an entry at the place that `search` gives, the result of a search for the entry's name.
    pub(crate) fn add_at(
        &mut self,
        search: EntrySearch<S::Block>,
        entry: &NewEntry<'_>,
    ) -> Result<()> {
        verify_new_name(entry.name)?;
        if search.is_taken() {
            return Err(PosixError::Exists.into());
        }
        match search {
            EntrySearch::Short(short, _) => self.add_to_short(short, entry),
            EntrySearch::Block(block, _) => self.add_to_block(&block, entry),
            EntrySearch::Leaf(leaf, _) => self.add_to_leaf(&leaf, entry),
            EntrySearch::Node(path, _) => self.add_to_tree(path, entry),
        }
    }

    /// Removes the entry of a name. Returns the inode number and the file type that the entry had.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        let search = self.seek(name)?;
        self.remove_at(name, search)
    }

    /// Removes the entry that a search has found. Returns the inode number and the file type that
    /// the entry had.
    pub(crate) fn remove_at(
        &mut self,
        name: &[u8],
        search: EntrySearch<S::Block>,
    ) -> Result<(InodeNumber, EntryType)> {
        verify_new_name(name)?;
        let missing = || PosixError::NotFound;
        let found = match search {
            EntrySearch::Short(mut short, index) => {
                let entry = short.entries.remove(index.ok_or_else(missing)?);
                self.store.set_local(&short.encode())?;
                return Ok((entry.inode, entry.entry_type));
            }
            EntrySearch::Block(block, found) => {
                let found = found.ok_or_else(missing)?;
                self.remove_from_block(&block, &found)?;
                found
            }
            EntrySearch::Leaf(leaf, found) => {
                let found = found.ok_or_else(missing)?;
                self.remove_from_leaf(&leaf, &found)?;
                found
            }
            EntrySearch::Node(path, found) => {
                let found = found.ok_or_else(missing)?;
                self.remove_from_tree(path, &found)?;
                found
            }
        };
        Ok((found.inode, found.entry_type))
    }

    /// Changes the inode that an entry names; returns the old inode number. The name `..` is
    /// allowed, `.` is not.
    pub(crate) fn replace(&mut self, entry: &NewEntry<'_>) -> Result<InodeNumber> {
        if entry.name != b".." {
            verify_new_name(entry.name)?;
        }
        let found = match self.seek(entry.name)? {
            EntrySearch::Short(short, _) => return self.replace_in_short(short, entry),
            EntrySearch::Block(_, found)
            | EntrySearch::Leaf(_, found)
            | EntrySearch::Node(_, found) => found,
        };
        let found = found.ok_or(PosixError::NotFound)?;
        let offset = found.cookie.offset() as usize % self.block_bytes;
        let entry_type = if entry.name == b".." { EntryType::Directory } else { entry.entry_type };
        let inode = entry.inode;
        self.store.edit(&found.data, |edit| data::retarget(edit, offset, inode, entry_type));
        Ok(found.inode)
    }

    /// Returns whether the directory has no entries except `.` and `..`.
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        Ok(match self.form()? {
            Form::Short(short) => short.entries.is_empty(),
            Form::Block(block) => {
                self.store.view(&block, |bytes| block::BlockLayout::of(bytes).live()) == 2
            }
            Form::Leaf(leaf) => {
                self.store.view(&leaf, |bytes| leaf::LeafCounts::of(bytes).live()) == 2
            }
            Form::Node(root) => self.is_empty_tree(root)?,
        })
    }

    /// Returns whether a directory in node form has no entries except `.` and `..`. ferroxfs
    /// converts an empty directory to a smaller form at once, but another implementation may leave
    /// it in node form.
    fn is_empty_tree(&mut self, root: S::Block) -> Result<bool> {
        let mut path = TreePath::descend_from(self.store, self.tree_shape(), root, 0)?;
        let mut live = 0;
        loop {
            live += self.store.view(&path.leaf, |bytes| leaf::LeafCounts::of(bytes).live());
            if live > 2 || !path.advance(self.store)? {
                return Ok(live == 2);
            }
        }
    }

    fn form(&mut self) -> Result<Form<S::Block>> {
        let root = self.tree_shape().root;
        if let Some(block) = self.store.known(root, BlockKind::DirectoryIndex) {
            self.store.check_owner(&block, root, BlockKind::DirectoryIndex)?;
            return Ok(self.index_form(block));
        }
        let place = self.store.inode_place();
        let corrupt = |check| Corruption::new(Structure::Directory, place, check);
        match self.store.contents()? {
            ForkPlacement::Inline(bytes) => {
                Short::decode(&bytes, place, self.store.geometry()).map(Form::Short)
            }
            ForkPlacement::Blocks if self.ends_at()?.0 <= u64::from(self.blocks) => {
                Ok(Form::Block(self.read_data(0)?))
            }
            ForkPlacement::Blocks => {
                let block = self.store.read_owned(root, BlockKind::DirectoryIndex)?;
                Ok(self.index_form(block))
            }
            ForkPlacement::Absent | ForkPlacement::NoBlocks => {
                Err(corrupt(DirectoryCheck::Form).into())
            }
        }
    }

    /// Returns the form of a directory with an index, whose first block is `block`.
    fn index_form(&self, block: S::Block) -> Form<S::Block> {
        match self.store.view(&block, dabtree::magic) {
            Some(LEAF1_MAGIC) => Form::Leaf(block),
            _ => Form::Node(block),
        }
    }

    /// Returns the file block after the last block of the fork.
    fn ends_at(&mut self) -> Result<FileBlock> {
        self.store.last_before(FileBlock(u64::MAX))
    }

    fn tree_shape(&self) -> TreeShape {
        TreeShape { root: index_start(self.store.geometry()), kind: BlockKind::DirectoryIndex }
    }

    fn data_at(&self, index: u64) -> FileBlock {
        FileBlock(index * u64::from(self.blocks))
    }

    /// Reads the data block with index `index`.
    fn read_data(&mut self, index: u64) -> Result<S::Block> {
        self.store.read_owned(self.data_at(index), BlockKind::DirectoryData)
    }

    /// Returns the header fields that identify a data block or a block of the free-space index.
    fn identity(&self, block: &S::Block) -> data::BlockIdentity {
        data::BlockIdentity {
            address: self.store.address(block),
            owner: self.store.number(),
            uuid: self.store.geometry().meta_uuid.into_bytes(),
        }
    }

    /// Returns the error for a corruption of the block at file block `at`.
    #[cold]
    fn corrupt(&self, at: FileBlock, check: DirectoryCheck) -> Error {
        Corruption::new(Structure::Directory, self.store.place(at), check).into()
    }

    /// Returns the cookie of the entry at byte `offset` of data block `index`.
    fn cookie(&self, index: u64, offset: usize) -> Result<Cookie> {
        let bytes = index * self.block_bytes as u64 + offset as u64;
        Cookie::from_offset(bytes).ok_or_else(|| PosixError::NoSpace.into())
    }
}

fn verify_new_name(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME {
        return Err(PosixError::NameTooLong.into());
    }
    if name.is_empty() || !name_is_sound(name) {
        return Err(PosixError::InvalidArgument.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
