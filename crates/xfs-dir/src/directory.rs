//! Reading directories.
//!
//! Owns: lookup of a name, the parent, and iteration. Does **not** own an order of entries other
//! than the order of their cookies, or a cache of names.

mod audit;
mod change;
mod entries;
mod index;
mod operations;

use std::ops::ControlFlow;

use xfs_buffer::{Buffer, BufferCache, PosixError, Result};
use xfs_format::directory::{
    Cookie, DataBlock, DirectoryCheck, Entry, EntryType, INDEX_OFFSET, MAX_NAME, ShortForm,
    index_start,
};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{BlockKind, Corruption, FileBlock, InodeNumber, Structure, StructureAddress};
use xfs_inode::{BlockShape, Fork, Inode, Mapping, RecentBuffers};

use crate::dabtree::verify_owner;

pub use audit::Audit;
pub(crate) use change::DirectoryChange;
pub use change::NewEntry;
pub use entries::{DirectoryEntries, OwnedEntry, Position};
pub use operations::{
    EntryLocation, add_entry, add_entry_at, blocks_to_add, blocks_to_remove,
    blocks_to_remove_quota, directory_is_empty, find_entry, has_room_for_entry, init_directory,
    remove_entry, remove_entry_at, replace_entry, seek_entry,
};

/// The visitor of an iteration. It returns `Continue` to get the next entry, or `Break` to end the
/// iteration.
type EntryVisitor<'v> = dyn FnMut(Result<Entry<'_>>) -> ControlFlow<()> + 'v;

/// A read-only view of a directory inode.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    cache: &'a BufferCache,
    inode: &'a Inode,
    /// The remembered buffers of the inode, if the caller holds its latch.
    recent: Option<&'a RecentBuffers>,
}

impl<'a> Directory<'a> {
    /// Creates a view of the directory `inode`.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NotDirectory`] if the inode is not a directory.
    pub fn new(cache: &'a BufferCache, inode: &'a Inode) -> Result<Self> {
        match inode.file_type() {
            FileType::Directory => Ok(Self { cache, inode, recent: None }),
            _ => Err(PosixError::NotDirectory.into()),
        }
    }

    /// Creates a view as [`new`](Self::new) does, which finds its blocks through the remembered
    /// buffers of the inode. The caller holds the inode's latch, shared or exclusive, as long as
    /// the view exists.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub fn of_latched(
        cache: &'a BufferCache,
        inode: &'a Inode,
        recent: &'a RecentBuffers,
    ) -> Result<Self> {
        Ok(Self { recent: Some(recent), ..Self::new(cache, inode)? })
    }

    /// Returns the inode number of `name`, and the file type if the entry holds it. The names `.`
    /// and `..` can be looked up, too.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NotFound`], [`PosixError::NameTooLong`], the device's error, or the
    /// check that failed.
    #[doc(alias = "xfs_dir_lookup")]
    pub fn lookup(&self, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        if name.len() > MAX_NAME {
            return Err(PosixError::NameTooLong.into());
        }
        let found = match self.inode.fork(ForkKind::Data) {
            Fork::Local(bytes) => self.find_in_short_form(bytes, name)?,
            _ if self.is_block_form()? => {
                let buffer = self.read_data(0)?;
                let bytes = buffer.bytes();
                let entry = self.decode_data(&bytes, 0)?.find(name)?;
                entry.map(|entry| (entry.inode, entry.entry_type))
            }
            _ => self.find_in_index(name)?,
        };
        found.ok_or_else(|| PosixError::NotFound.into())
    }

    /// Returns the inode number of the parent directory. The root directory is its own parent.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check that failed.
    pub fn parent(&self) -> Result<InodeNumber> {
        if let Fork::Local(bytes) = self.inode.fork(ForkKind::Data) {
            return Ok(self.decode_short_form(bytes)?.parent());
        }
        let buffer = self.read_data(0)?;
        let bytes = buffer.bytes();
        Ok(self.decode_data(&bytes, 0)?.parent()?)
    }

    fn find_in_short_form(
        &self,
        bytes: &[u8],
        name: &[u8],
    ) -> Result<Option<(InodeNumber, EntryType)>> {
        let form = self.decode_short_form(bytes)?;
        Ok(match name {
            b"." => Some((self.inode.number(), EntryType::Directory)),
            b".." => Some((form.parent(), EntryType::Directory)),
            _ => form.find(name)?.map(|entry| (entry.inode, entry.entry_type)),
        })
    }

    /// Returns whether the directory is in block form: one block, which also contains the index.
    fn is_block_form(&self) -> Result<bool> {
        let map = self.inode.extent_map(self.cache, ForkKind::Data)?;
        Ok(!map.is_empty() && map.end().0 <= u64::from(self.blocks()))
    }

    /// Returns the number of filesystem blocks in a directory block.
    fn blocks(&self) -> u32 {
        1 << self.cache.geometry().directory_block_log
    }

    fn block_size(&self) -> u64 {
        self.cache.geometry().directory_block_size().into()
    }

    /// Returns the first file block of directory block `index`.
    fn file_block(&self, index: u64) -> FileBlock {
        FileBlock(index.saturating_mul(self.blocks().into()))
    }

    /// Returns the index of the first data block at or after `index` that is mapped; `None` if
    /// there is no such block.
    fn next_data_block(&self, index: u64) -> Result<Option<u64>> {
        let map = self.inode.extent_map(self.cache, ForkKind::Data)?;
        let start = self.file_block(index);
        let end = index_start(self.cache.geometry());
        let extent = map.mappings_from(start).find_map(|mapping| match mapping {
            Mapping::Extent(extent) => Some(extent),
            Mapping::Hole { .. } => None,
        });
        let block = extent.map(|extent| extent.file_block.max(start)).filter(|block| *block < end);
        Ok(block.map(|block| block.0 / u64::from(self.blocks())))
    }

    /// Reads the data block with index `index`.
    fn read_data(&self, index: u64) -> Result<Buffer> {
        let shape = BlockShape { length_blocks: self.blocks(), kind: BlockKind::DirectoryData };
        let at = self.file_block(index);
        match self.recent {
            Some(recent) => recent.read(self.inode, self.cache, at, shape),
            None => self.inode.read_fork_block(self.cache, ForkKind::Data, at, shape),
        }
    }

    /// Decodes a data block, and checks that the block belongs to this directory and fits the
    /// directory's form.
    fn decode_data<'b>(&self, bytes: &'b [u8], index: u64) -> Result<DataBlock<'b>> {
        let place = self.data_place(index);
        let start = index.saturating_mul(self.block_size());
        let form = self.cache.geometry().directory_form;
        let block = DataBlock::decode(bytes, start, place, form)?;
        let owner = match block.owner() {
            // A block of a v4 volume names its directory only by the entry `.` of the first block.
            None if index == 0 => Some(block.self_inode()?),
            owner => owner,
        };
        verify_owner(owner, self.inode, Structure::Directory, place)?;
        if block.is_block_form() != self.is_block_form()? {
            return Err(self.corrupt(place, DirectoryCheck::Form).into());
        }
        Ok(block)
    }

    /// Decodes the short form in `bytes`, the data fork.
    fn decode_short_form<'b>(&self, bytes: &'b [u8]) -> Result<ShortForm<'b>> {
        let form = self.cache.geometry().directory_form;
        Ok(ShortForm::decode(bytes, self.inode_place(), form)?)
    }

    /// Checks the size of the directory inode against its data blocks.
    fn verify_size(&self) -> Result<()> {
        let map = self.inode.extent_map(self.cache, ForkKind::Data)?;
        let (size, block_size) = (self.inode.core().size, self.block_size());
        let index = index_start(self.cache.geometry());
        let end = map.last_before(index).map_or(0, |extent| extent.end().0);
        let end_bytes = self.cache.geometry().blocks_to_bytes(end);
        let is_right = size != 0
            && size.is_multiple_of(block_size)
            && size <= INDEX_OFFSET
            && end_bytes == Some(size);
        if is_right {
            return Ok(());
        }
        let check = DirectoryCheck::Size { size, end };
        Err(self.corrupt(self.inode_place(), check).into())
    }

    fn inode_place(&self) -> StructureAddress {
        StructureAddress::Inode(self.inode.number())
    }

    fn data_place(&self, index: u64) -> StructureAddress {
        StructureAddress::Data(self.inode.number(), self.file_block(index))
    }

    fn corrupt(&self, place: StructureAddress, check: DirectoryCheck) -> Corruption {
        Corruption::new(Structure::Directory, place, check)
    }

    /// Passes every entry from cookie `from` on to `visit`, in the order of cookies, including `.`
    /// and `..`, until the visitor breaks. Copies nothing. For a block that cannot be read, the
    /// visitor gets one error, and then the entries of the following blocks.
    ///
    /// The visitor runs while the block is latched for reading: it must not wait for a writer of
    /// the block.
    pub fn visit(
        &self,
        from: Cookie,
        visit: &mut dyn FnMut(Result<Entry<'_>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut next = self.first_step(from);
        while let Some(step) = next {
            next = self.visit_step(step, from, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns an iterator over the entries from cookie `from` on. Unlike [`visit`](Self::visit),
    /// the iterator copies the entries. It holds the copies of one block at a time.
    #[must_use]
    pub fn entries_from(&self, from: Cookie) -> DirectoryEntries<'a> {
        DirectoryEntries::new(*self, from)
    }
}

#[cfg(test)]
mod tests;
