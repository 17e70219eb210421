//! Builder of whole directories: it turns a list of entries into the short form, or into blocks.
//!
//! Owns: the choice of the form, data blocks, hash index and free-space index. Does **not** own:
//! where the blocks lie on disk, or which entries a directory has.
//!
//! ```text
//! fits the inode -> short; fits one block with its index -> block; one leaf is enough -> leaf;
//! else node: data blocks, name hash btree, free-space index
//! ```
//!
//! # Invariants
//!
//! - **I1** The same entries in the same order give the same bytes.
//! - **I2** Entries lie in the order of the list. `.` and `..` come first.

use uuid::Uuid;
use xfs_format::directory::data::{
    BLOCK_MAGIC, BestFreeDisk, BlockTailDisk, DATA_HEADER, DATA_MAGIC, DataHeaderDisk, FREE_TAG,
    entry_length,
};
use xfs_format::directory::free::{FREE_MAGIC, FreeHeaderDisk};
use xfs_format::directory::leaf::{LEAF1_MAGIC, LEAFN_MAGIC, LeafHeaderDisk};
use xfs_format::directory::{
    Cookie, Entry, EntryType, HashEntryDisk, INDEX_OFFSET, MAX_NAME, free_start, index_start,
    name_hash, short_form,
};
use xfs_format::{BlockKind, FileBlock, Geometry, InodeNumber};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::blocks::NewBlock;
use super::dabtree::{self, Branch, TreeIdentity, spread};

/// An entry of a directory that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEntry {
    /// The name: valid, and at most 255 bytes long.
    pub(crate) name: Vec<u8>,
    /// The inode that the entry names.
    pub(crate) child: InodeNumber,
    /// The file type of the inode that the entry names.
    pub(crate) entry_type: EntryType,
}

/// A directory to build. No two of its entries have the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewDirectory<'a> {
    /// The inode number of the directory.
    pub(crate) number: InodeNumber,
    /// The inode number of its parent, or its own if it is the root.
    pub(crate) parent: InodeNumber,
    /// The entries other than `.` and `..`.
    pub(crate) entries: &'a [NewEntry],
}

/// A directory that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryForm {
    /// The bytes of the short form, which lie in the inode.
    Short(Vec<u8>),
    /// The blocks of a directory in block, leaf or node form, and its size in bytes.
    Blocks {
        /// The blocks, in the order of the fork.
        blocks: Vec<NewBlock>,
        /// The size of the directory in bytes, for its inode.
        size: u64,
    },
}

/// Builds a directory whose data fork has `room` bytes in the inode. Returns `None` if the entries
/// need more space than a directory can have.
pub(crate) fn build(
    directory: &NewDirectory<'_>,
    geometry: &Geometry,
    room: usize,
) -> Option<DirectoryForm> {
    if let Some(bytes) = short(directory, geometry, room) {
        return Some(DirectoryForm::Short(bytes));
    }
    let builder =
        Builder { directory, geometry, block_bytes: geometry.directory_block_size() as usize };
    builder.blocks()
}

/// Returns a directory in short form, or `None` if it is too large for that: it must fit in `room`
/// bytes of the inode, and, after a later conversion to block form, in one block.
fn short(directory: &NewDirectory<'_>, geometry: &Geometry, room: usize) -> Option<Vec<u8>> {
    if directory.entries.len() > usize::from(u8::MAX) {
        return None;
    }
    let mut offset = short_form::FIRST_OFFSET;
    let mut entries = Vec::with_capacity(directory.entries.len());
    for entry in directory.entries {
        let cookie = Cookie::from_offset(offset as u64)?;
        let (inode, entry_type) = (entry.child, entry.entry_type);
        entries.push(Entry { name: &entry.name, inode, entry_type, cookie });
        offset += entry_length(entry.name.len());
    }
    // The kernel converts a short form to one block in one step, so it must fit one.
    let index = (entries.len() + 2) * size_of::<HashEntryDisk>() + size_of::<BlockTailDisk>();
    if offset + index > geometry.directory_block_size() as usize || offset > usize::from(u16::MAX) {
        return None;
    }
    let bytes = short_form::encode(directory.parent, entries.into_iter());
    (bytes.len() <= room).then_some(bytes)
}

/// A data block under construction.
struct DataBytes {
    bytes: Vec<u8>,
    best_free: u16,
}

struct Builder<'a> {
    directory: &'a NewDirectory<'a>,
    geometry: &'a Geometry,
    block_bytes: usize,
}

impl Builder<'_> {
    fn uuid(&self) -> Uuid {
        self.geometry.meta_uuid
    }

    fn blocks(&self) -> Option<DirectoryForm> {
        let dots = [self.dot(b".", self.directory.number), self.dot(b"..", self.directory.parent)];
        let all: Vec<&NewEntry> = dots.iter().chain(self.directory.entries).collect();
        let records: usize = all.iter().map(|entry| entry_length(entry.name.len())).sum();
        let index_bytes = all.len() * size_of::<HashEntryDisk>() + size_of::<BlockTailDisk>();
        if DATA_HEADER + records + index_bytes <= self.block_bytes {
            return Some(self.block_form(&all, index_bytes));
        }
        let (data, mut index) = self.data_blocks(&all)?;
        index.sort_by_key(|entry| (entry.hash.get(), entry.cookie.get()));
        let size = (data.len() * self.block_bytes) as u64;
        let best: Vec<U16> = data.iter().map(|block| block.best_free.into()).collect();
        let mut blocks: Vec<NewBlock> = data
            .into_iter()
            .enumerate()
            .map(|(number, data)| {
                self.new_block(FileBlock(0), number, BlockKind::DirectoryData, data.bytes)
            })
            .collect();
        match self.single_leaf(&index, &best) {
            Some(leaf) => blocks.push(self.new_block(
                index_start(self.geometry),
                0,
                BlockKind::DirectoryIndex,
                leaf,
            )),
            None => {
                blocks.extend(self.index_tree(&index)?);
                blocks.extend(self.free_index(&best));
            }
        }
        Some(DirectoryForm::Blocks { blocks, size })
    }

    fn dot(&self, name: &[u8], inode: InodeNumber) -> NewEntry {
        NewEntry { name: name.to_vec(), child: inode, entry_type: EntryType::Directory }
    }

    /// Returns a directory block with the contents `bytes`. The fork has three sections: data, hash
    /// index and free-space index. The block has the number `number` in its section. `section` is
    /// the file block at which the section starts.
    fn new_block(
        &self,
        section: FileBlock,
        number: usize,
        kind: BlockKind,
        bytes: Vec<u8>,
    ) -> NewBlock {
        let file_block =
            FileBlock(section.0 + ((number as u64) << self.geometry.directory_block_log));
        NewBlock { file_block, kind, bytes }
    }

    /// Returns the header of a data block, without free records.
    fn data_header(&self, magic: u32) -> DataHeaderDisk {
        let none = BestFreeDisk { offset: 0.into(), length: 0.into() };
        DataHeaderDisk {
            magic: magic.into(),
            crc: [0; 4],
            block: 0.into(),
            lsn: 0.into(),
            uuid: self.uuid().into_bytes(),
            owner: self.directory.number.0.into(),
            best_free: [none; 3],
            pad: 0.into(),
        }
    }

    fn block_form(&self, all: &[&NewEntry], index_bytes: usize) -> DirectoryForm {
        let mut bytes = self.data_header(BLOCK_MAGIC).as_bytes().to_vec();
        let mut index: Vec<HashEntryDisk> = Vec::with_capacity(all.len());
        for entry in all {
            index.push(hash_entry(entry, bytes.len() as u64));
            push_entry(&mut bytes, entry);
        }
        self.close(&mut bytes, self.block_bytes - index_bytes);
        index.sort_by_key(|entry| (entry.hash.get(), entry.cookie.get()));
        bytes.extend(index.as_bytes());
        let count = u32::try_from(index.len()).expect("the index fits one block");
        bytes.extend(BlockTailDisk { count: count.into(), stale: 0.into() }.as_bytes());
        let block = self.new_block(FileBlock(0), 0, BlockKind::DirectoryData, bytes);
        DirectoryForm::Blocks { blocks: vec![block], size: self.block_bytes as u64 }
    }

    /// Fills a data block up to `end` with one free area, and lists the area in the header. Returns
    /// the length of the area, or 0 if the block is full.
    fn close(&self, bytes: &mut Vec<u8>, end: usize) -> u16 {
        let offset = bytes.len();
        let length = end - offset;
        if length == 0 {
            return 0;
        }
        let field =
            |number: usize| U16::new(u16::try_from(number).expect("a block is 64 KiB at most"));
        bytes.extend(U16::new(FREE_TAG).as_bytes());
        bytes.extend(field(length).as_bytes());
        bytes.resize(end - size_of::<U16>(), 0);
        bytes.extend(field(offset).as_bytes());
        let (header, _) = DataHeaderDisk::mut_from_prefix(bytes).expect("the header was written");
        let best = header.best_free.first_mut().expect("the table has three elements");
        *best = BestFreeDisk { offset: field(offset), length: field(length) };
        field(length).get()
    }

    /// Packs the entries into data blocks. Returns the blocks, and the entry of the hash index for
    /// each directory entry. Returns `None` if the data blocks would reach the hash index.
    fn data_blocks(&self, all: &[&NewEntry]) -> Option<(Vec<DataBytes>, Vec<HashEntryDisk>)> {
        let mut blocks = Vec::new();
        let mut index = Vec::with_capacity(all.len());
        let mut bytes = self.data_header(DATA_MAGIC).as_bytes().to_vec();
        for entry in all {
            if bytes.len() + entry_length(entry.name.len()) > self.block_bytes {
                let best_free = self.close(&mut bytes, self.block_bytes);
                let next = self.data_header(DATA_MAGIC).as_bytes().to_vec();
                blocks.push(DataBytes { bytes: std::mem::replace(&mut bytes, next), best_free });
            }
            let start = (blocks.len() * self.block_bytes) as u64;
            if start + self.block_bytes as u64 > INDEX_OFFSET {
                return None;
            }
            index.push(hash_entry(entry, start + bytes.len() as u64));
            push_entry(&mut bytes, entry);
        }
        let best_free = self.close(&mut bytes, self.block_bytes);
        blocks.push(DataBytes { bytes, best_free });
        Some((blocks, index))
    }

    fn tree(&self) -> TreeIdentity {
        TreeIdentity {
            owner: self.directory.number,
            uuid: self.uuid(),
            block_bytes: self.block_bytes,
            kind: BlockKind::DirectoryIndex,
        }
    }

    fn leaf(&self, magic: u16, entries: &[HashEntryDisk]) -> Vec<u8> {
        let count = u16::try_from(entries.len()).expect("the entries of a leaf fit its block");
        let header = LeafHeaderDisk {
            header: self.tree().header(magic),
            count: count.into(),
            stale: 0.into(),
            pad: 0.into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(entries.as_bytes());
        bytes
    }

    /// Returns the only leaf of a directory in leaf form, or `None` if the whole index does not fit
    /// in one leaf. `best` has the length of the longest free area of each data block.
    fn single_leaf(&self, index: &[HashEntryDisk], best: &[U16]) -> Option<Vec<u8>> {
        let tail = size_of_val(best) + size_of::<u32>();
        if size_of::<LeafHeaderDisk>() + size_of_val(index) + tail > self.block_bytes {
            return None;
        }
        let mut bytes = self.leaf(LEAF1_MAGIC, index);
        bytes.resize(self.block_bytes - tail, 0);
        bytes.extend(best.as_bytes());
        let count = u32::try_from(best.len()).expect("the table fits one block");
        bytes.extend(count.to_be_bytes());
        Some(bytes)
    }

    /// Returns the blocks of the name hash btree of a directory in node form. `None` if the btree
    /// does not fit in the range of file offsets that is reserved for it.
    fn index_tree(&self, index: &[HashEntryDisk]) -> Option<Vec<NewBlock>> {
        let capacity =
            (self.block_bytes - size_of::<LeafHeaderDisk>()) / size_of::<HashEntryDisk>();
        let leaves: Vec<Branch> = spread(index, capacity)
            .map(|entries| {
                let mut bytes = self.leaf(LEAFN_MAGIC, entries);
                bytes.resize(self.block_bytes, 0);
                Branch { bytes, last_hash: entries.last().map_or(0, |entry| entry.hash.get()) }
            })
            .collect();
        let (start, log) = (index_start(self.geometry).0, self.geometry.directory_block_log);
        let end = free_start(self.geometry).0;
        let mut places = (0_u64..)
            .map(|number| FileBlock(start + (number << log)))
            .take_while(|block| block.0 < end);
        // An index can fit one leaf of the node form and still be too long for the leaf form, whose
        // leaf also has the free-space table. Such a leaf is the root, as in the kernel.
        dabtree::assemble(leaves, &self.tree(), &mut places)
    }

    /// Returns the blocks of the free-space index. `best` has the length of the longest free area
    /// of each data block.
    fn free_index(&self, best: &[U16]) -> Vec<NewBlock> {
        let capacity = (self.block_bytes - size_of::<FreeHeaderDisk>()) / size_of::<U16>();
        let mut blocks = Vec::new();
        for (number, part) in best.chunks(capacity).enumerate() {
            let field = |value: usize| {
                zerocopy::big_endian::U32::new(u32::try_from(value).expect("a count of blocks"))
            };
            let header = FreeHeaderDisk {
                magic: FREE_MAGIC.into(),
                crc: [0; 4],
                block: 0.into(),
                lsn: 0.into(),
                uuid: self.uuid().into_bytes(),
                owner: self.directory.number.0.into(),
                first: field(number * capacity),
                count: field(part.len()),
                used: field(part.len()),
                pad: 0.into(),
            };
            let mut bytes = header.as_bytes().to_vec();
            bytes.extend(part.as_bytes());
            // Slots of data blocks that do not exist hold ones (NULL_OFFSET).
            bytes.resize(self.block_bytes, 0xff);
            blocks.push(self.new_block(
                free_start(self.geometry),
                number,
                BlockKind::DirectoryFree,
                bytes,
            ));
        }
        blocks
    }
}

fn hash_entry(entry: &NewEntry, offset: u64) -> HashEntryDisk {
    let cookie = Cookie::from_offset(offset).expect("the caller bounds the data section");
    HashEntryDisk { hash: name_hash(&entry.name).into(), cookie: cookie.0.into() }
}

/// Appends an entry to the bytes of a data block.
fn push_entry(bytes: &mut Vec<u8>, entry: &NewEntry) {
    debug_assert!(!entry.name.is_empty() && entry.name.len() <= MAX_NAME, "the name is sound");
    let offset = bytes.len();
    let end = offset + entry_length(entry.name.len());
    bytes.extend(entry.child.0.to_be_bytes());
    bytes.push(u8::try_from(entry.name.len()).expect("a name has at most 255 bytes"));
    bytes.extend(&entry.name);
    bytes.push(entry.entry_type.to_disk());
    bytes.resize(end - size_of::<U16>(), 0);
    let tag = u16::try_from(offset).expect("a block is 64 KiB at most");
    bytes.extend(tag.to_be_bytes());
}

#[cfg(test)]
mod tests;
