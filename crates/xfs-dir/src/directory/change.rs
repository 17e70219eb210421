//! Changing a directory: adding, removing and retargeting entries, in every form.
//!
//! Owns: which form a directory has and when it takes another. Does **not** own: link counts, time
//! stamps and parent pointers of the inodes that entries name.
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
//! - **I1** What can be refused is refused before the first change: a name that exists or does not,
//!   a name that is too long.
//! - **I2** A cookie stays with its entry through all forms.
//! - **I3** The blocks of one change are all joined to one transaction, so that a crash shows all of
//!   it or nothing.

mod block;
mod convert;
mod data;
mod find;
mod free;
mod index;
mod leaf;
mod leaf_form;
mod node_form;
mod short_form;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::directory::leaf::LEAF1_MAGIC;
use xfs_format::directory::{
    Cookie, DirectoryCheck, EntryType, MAX_NAME, index_start, name_is_sound,
};
use xfs_format::{BlockKind, Corruption, FileBlock, InodeNumber, Structure, dabtree};

use crate::store::{Contents, ForkStore};
use crate::tree::{Path, TreeShape};

use short_form::Short;

/// An entry to be put into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode it names.
    pub inode: InodeNumber,
    /// The type of that inode.
    pub entry_type: EntryType,
}

/// A directory that is changed in a transaction.
pub(crate) struct DirectoryChange<'s, S: ForkStore> {
    store: &'s mut S,
    /// Bytes of a directory block.
    block_bytes: usize,
    /// Filesystem blocks in a directory block.
    blocks: u32,
}

/// The form of a directory, with what tells it.
enum Form<B> {
    Short(Short),
    /// The one block.
    Block(B),
    /// The only leaf.
    Leaf(B),
    /// The root of a tree of leaves.
    Node(B),
}

impl<'s, S: ForkStore> DirectoryChange<'s, S> {
    pub(crate) fn new(store: &'s mut S) -> Self {
        let geometry = store.geometry();
        let (block_bytes, blocks) =
            (geometry.directory_block_size() as usize, 1 << geometry.directory_block_log);
        Self { store, block_bytes, blocks }
    }

    /// Makes an empty directory of a new inode.
    pub(crate) fn initialise(&mut self, parent: InodeNumber) -> Result<()> {
        let short = Short { parent, entries: Vec::new() };
        self.store.set_local(&short.encode())
    }

    /// The inode that a name stands for.
    pub(crate) fn find(&mut self, name: &[u8]) -> Result<Option<(InodeNumber, EntryType)>> {
        if name.len() > MAX_NAME {
            return Err(PosixError::NameTooLong.into());
        }
        Ok(match self.form()? {
            Form::Short(short) => match name {
                b"." => Some((self.store.number(), EntryType::Directory)),
                b".." => Some((short.parent, EntryType::Directory)),
                _ => short.find(name).and_then(|index| {
                    short.entries.get(index).map(|entry| (entry.inode, entry.entry_type))
                }),
            },
            Form::Block(block) => {
                let found = self.find_in_block(&block, name)?;
                found.map(|found| (found.inode, found.entry_type))
            }
            Form::Leaf(leaf) => {
                let found = self.find_in_leaf(&leaf, name)?;
                found.map(|found| (found.inode, found.entry_type))
            }
            Form::Node(root) => {
                let (found, _) = self.find_in_tree(root, name)?;
                found.map(|found| (found.inode, found.entry_type))
            }
        })
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &NewEntry<'_>) -> Result<()> {
        verify_new_name(entry.name)?;
        let refuse = |exists: bool| if exists { Err(PosixError::Exists) } else { Ok(()) };
        match self.form()? {
            Form::Short(short) => {
                refuse(short.find(entry.name).is_some())?;
                self.add_to_short(short, entry)
            }
            Form::Block(block) => {
                refuse(self.find_in_block(&block, entry.name)?.is_some())?;
                self.add_to_block(&block, entry)
            }
            Form::Leaf(leaf) => {
                refuse(self.find_in_leaf(&leaf, entry.name)?.is_some())?;
                self.add_to_leaf(&leaf, entry)
            }
            Form::Node(root) => {
                let (found, path) = self.find_in_tree(root, entry.name)?;
                refuse(found.is_some())?;
                self.add_to_tree(path, entry)
            }
        }
    }

    /// Removes an entry; returns what it named.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        verify_new_name(name)?;
        let missing = || PosixError::NotFound;
        match self.form()? {
            Form::Short(mut short) => {
                let entry = short.entries.remove(short.find(name).ok_or_else(missing)?);
                self.store.set_local(&short.encode())?;
                Ok((entry.inode, entry.entry_type))
            }
            Form::Block(block) => {
                let found = self.find_in_block(&block, name)?.ok_or_else(missing)?;
                self.remove_from_block(&block, &found)?;
                Ok((found.inode, found.entry_type))
            }
            Form::Leaf(leaf) => {
                let found = self.find_in_leaf(&leaf, name)?.ok_or_else(missing)?;
                self.remove_from_leaf(&leaf, &found)?;
                Ok((found.inode, found.entry_type))
            }
            Form::Node(root) => {
                let (found, path) = self.find_in_tree(root, name)?;
                let found = found.ok_or_else(missing)?;
                self.remove_from_tree(path, &found)?;
                Ok((found.inode, found.entry_type))
            }
        }
    }

    /// Makes an entry name another inode; returns which it named. `..` may be named, `.` not.
    pub(crate) fn replace(&mut self, entry: &NewEntry<'_>) -> Result<InodeNumber> {
        if entry.name != b".." {
            verify_new_name(entry.name)?;
        }
        let missing = || PosixError::NotFound;
        let found = match self.form()? {
            Form::Short(short) => return self.replace_in_short(short, entry),
            Form::Block(block) => self.find_in_block(&block, entry.name)?,
            Form::Leaf(leaf) => self.find_in_leaf(&leaf, entry.name)?,
            Form::Node(root) => self.find_in_tree(root, entry.name)?.0,
        };
        let found = found.ok_or_else(missing)?;
        let offset = found.cookie.offset() as usize % self.block_bytes;
        let entry_type = if entry.name == b".." { EntryType::Directory } else { entry.entry_type };
        let inode = entry.inode;
        self.store.edit(&found.data, |edit| data::retarget(edit, offset, inode, entry_type));
        Ok(found.inode)
    }

    /// Whether there is no entry but `.` and `..`.
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        Ok(match self.form()? {
            Form::Short(short) => short.entries.is_empty(),
            Form::Block(block) => {
                self.store.view(&block, |bytes| block::Layout::of(bytes).live()) == 2
            }
            Form::Leaf(leaf) => self.store.view(&leaf, |bytes| leaf::Counts::of(bytes).live()) == 2,
            Form::Node(root) => self.is_empty_tree(root)?,
        })
    }

    /// Ours shrinks as soon as it can; where another has left a tree, two entries may be all of it.
    fn is_empty_tree(&mut self, root: S::Block) -> Result<bool> {
        let mut path = Path::descend_from(self.store, self.tree_shape(), root, 0)?;
        let mut live = 0;
        loop {
            live += self.store.view(&path.leaf, |bytes| leaf::Counts::of(bytes).live());
            if live > 2 || !path.advance(self.store)? {
                return Ok(live == 2);
            }
        }
    }

    fn form(&mut self) -> Result<Form<S::Block>> {
        let place = self.store.inode_place();
        let corrupt = |check| Corruption::new(Structure::Directory, place, check);
        match self.store.contents()? {
            Contents::Inline(bytes) => {
                Short::decode(&bytes, place, self.store.geometry()).map(Form::Short)
            }
            Contents::Blocks if self.ends_at()?.0 <= u64::from(self.blocks) => {
                Ok(Form::Block(self.read_data(0)?))
            }
            Contents::Blocks => {
                let root = self.tree_shape().root;
                let block = self.store.read_owned(root, BlockKind::DirectoryIndex)?;
                match self.store.view(&block, dabtree::magic) {
                    Some(LEAF1_MAGIC) => Ok(Form::Leaf(block)),
                    _ => Ok(Form::Node(block)),
                }
            }
            Contents::Absent | Contents::NoBlocks => Err(corrupt(DirectoryCheck::Form).into()),
        }
    }

    /// Where the last block of the fork ends.
    fn ends_at(&mut self) -> Result<FileBlock> {
        self.store.last_before(FileBlock(u64::MAX))
    }

    fn tree_shape(&self) -> TreeShape {
        TreeShape { root: index_start(self.store.geometry()), kind: BlockKind::DirectoryIndex }
    }

    fn data_at(&self, index: u64) -> FileBlock {
        FileBlock(index * u64::from(self.blocks))
    }

    /// Data block `index`.
    fn read_data(&mut self, index: u64) -> Result<S::Block> {
        self.store.read_owned(self.data_at(index), BlockKind::DirectoryData)
    }

    /// What a data block or a block of the free index says about itself.
    fn identity(&self, block: &S::Block) -> data::Identity {
        data::Identity {
            address: self.store.address(block),
            owner: self.store.number(),
            uuid: self.store.geometry().meta_uuid.into_bytes(),
        }
    }

    /// A finding about the block at `at`.
    #[cold]
    fn corrupt(&self, at: FileBlock, check: DirectoryCheck) -> Error {
        Corruption::new(Structure::Directory, self.store.place(at), check).into()
    }

    /// The cookie of byte `offset` of data block `index`.
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
