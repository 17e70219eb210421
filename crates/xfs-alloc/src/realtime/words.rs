//! The words of the bitmap and the counters of the summary, in the blocks of their files.
//!
//! Owns: finding the block of a word, reading it, and joining it to the transaction that changes
//! it. Does **not** own: the lock over both files, which protects readers too.

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::extent::Extent;
use xfs_format::realtime::{
    SPACE_HEADER_BYTES, SPACE_OWNER_BYTES, SPACE_WORD_BYTES, decode_space_word, encode_space_word,
};
use xfs_format::{
    BlockKind, Check, Corruption, DiskAddr, Geometry, InodeNumber, Structure, StructureAddress,
};
use xfs_trans::Transaction;

use super::outside;
use super::runs::{ReadWords, SpaceWords};

/// The block that was read last: the number of the block in its file, and its buffer.
type LastBlock = Option<(u64, Buffer)>;

/// The files with the bitmap and the summary of a section or of a group.
#[derive(Debug)]
pub(super) struct SpaceFiles {
    /// The extents of the bitmap, in the order of their file offsets, without holes.
    pub(super) bitmap: Vec<Extent>,
    /// The extents of the summary, in the order of their file offsets, without holes.
    pub(super) summary: Vec<Extent>,
    /// The inodes of bitmap and summary, if their blocks have headers: those of realtime groups.
    pub(super) owners: Option<[InodeNumber; 2]>,
}

/// One of the two files, with the block of it that was read last.
struct WordFile<'a> {
    extents: &'a [Extent],
    kind: BlockKind,
    /// The inode of the file. `None`: the blocks have no headers, and words in the byte order of
    /// the machine.
    owner: Option<InodeNumber>,
    last: LastBlock,
}

/// The place of a word: the number of the block in its file, and the offset in the block.
#[derive(Clone, Copy)]
struct WordPlace {
    block: u64,
    offset_bytes: usize,
}

impl<'a> WordFile<'a> {
    fn bitmap(files: &'a SpaceFiles) -> Self {
        let owner = files.owners.map(|[bitmap, _]| bitmap);
        let kind = match owner {
            Some(_) => BlockKind::RealtimeGroupBitmap,
            None => BlockKind::RealtimeBitmap,
        };
        Self { extents: &files.bitmap, kind, owner, last: None }
    }

    fn summary(files: &'a SpaceFiles) -> Self {
        let owner = files.owners.map(|[_, summary]| summary);
        let kind = match owner {
            Some(_) => BlockKind::RealtimeGroupSummary,
            None => BlockKind::RealtimeSummary,
        };
        Self { extents: &files.summary, kind, owner, last: None }
    }

    fn place(&self, geometry: &Geometry, index: u64) -> WordPlace {
        let header = if self.owner.is_some() { SPACE_HEADER_BYTES } else { 0 };
        let room = geometry.block_size as usize - header;
        let per_block = (room / SPACE_WORD_BYTES) as u64;
        let offset_bytes = header + (index % per_block) as usize * SPACE_WORD_BYTES;
        WordPlace { block: index / per_block, offset_bytes }
    }

    /// Reads a block of the file, and checks its owner.
    fn read(&self, cache: &BufferCache, block: u64) -> Result<Buffer> {
        let geometry = cache.geometry();
        let at = self.address(geometry, block)?;
        let buffer = cache.read(at, geometry.block_size, self.kind)?;
        let Some(expected) = self.owner else { return Ok(buffer) };
        let found = {
            let bytes = buffer.bytes();
            let owner = bytes.get(SPACE_OWNER_BYTES).and_then(<[u8]>::first_chunk);
            u64::from_be_bytes(*owner.expect("a block holds its header"))
        };
        if found != expected.0 {
            let check = Check::ForeignOwner { found, expected: expected.0 };
            let place = StructureAddress::Disk(at);
            return Err(Corruption::new(Structure::RealtimeMetadata, place, check).into());
        }
        Ok(buffer)
    }

    /// Returns the address of a block of the file.
    fn address(&self, geometry: &Geometry, block: u64) -> Result<DiskAddr> {
        let after = self.extents.partition_point(|extent| extent.file_block.0 <= block);
        let extent = after.checked_sub(1).and_then(|index| self.extents.get(index));
        let start = extent.and_then(|extent| {
            let within = block - extent.file_block.0;
            (within < extent.length_blocks.into()).then_some(())?;
            geometry.block_disk_addr(extent.start.checked_add(within)?)
        });
        start.ok_or_else(|| outside(block))
    }

    fn word(&mut self, cache: &BufferCache, index: u64) -> Result<u32> {
        let place = self.place(cache.geometry(), index);
        let buffer = match self.last.take().filter(|(block, _)| *block == place.block) {
            Some((_, buffer)) => buffer,
            None => self.read(cache, place.block)?,
        };
        let word = {
            let bytes = buffer.bytes();
            let word = bytes.get(place.offset_bytes..).and_then(|rest| rest.first_chunk());
            let word = *word.expect("a word lies inside its block");
            match self.owner {
                Some(_) => u32::from_be_bytes(word),
                None => decode_space_word(word),
            }
        };
        self.last = Some((place.block, buffer));
        Ok(word)
    }

    fn set_word(&self, tx: &mut Transaction<'_>, index: u64, word: u32) -> Result<()> {
        let place = self.place(tx.geometry(), index);
        let at = self.address(tx.geometry(), place.block)?;
        let buffer = tx.read(at, tx.geometry().block_size, self.kind)?;
        let range = place.offset_bytes..place.offset_bytes + SPACE_WORD_BYTES;
        let word = match self.owner {
            Some(_) => word.to_be_bytes(),
            None => encode_space_word(word),
        };
        tx.change(&buffer, range, |bytes| bytes.copy_from_slice(&word));
        Ok(())
    }
}

/// The bitmap and the summary, for reading.
pub(super) struct CachedWords<'a> {
    cache: &'a BufferCache,
    bitmap: WordFile<'a>,
    summary: WordFile<'a>,
}

impl<'a> CachedWords<'a> {
    pub(super) fn new(cache: &'a BufferCache, files: &'a SpaceFiles) -> Self {
        Self { cache, bitmap: WordFile::bitmap(files), summary: WordFile::summary(files) }
    }
}

impl ReadWords for CachedWords<'_> {
    fn bitmap_word(&mut self, index: u64) -> Result<u32> {
        self.bitmap.word(self.cache, index)
    }

    fn counter(&mut self, index: u64) -> Result<u32> {
        self.summary.word(self.cache, index)
    }
}

/// The bitmap and the summary, for a transaction that holds their lock. Blocks are read without
/// latching them; a block is joined when it is changed.
pub(super) struct JoinedWords<'a, 'journal> {
    tx: &'a mut Transaction<'journal>,
    bitmap: WordFile<'a>,
    summary: WordFile<'a>,
}

impl<'a, 'journal> JoinedWords<'a, 'journal> {
    pub(super) fn new(tx: &'a mut Transaction<'journal>, files: &'a SpaceFiles) -> Self {
        let (bitmap, summary) = (WordFile::bitmap(files), WordFile::summary(files));
        Self { tx, bitmap, summary }
    }
}

impl ReadWords for JoinedWords<'_, '_> {
    fn bitmap_word(&mut self, index: u64) -> Result<u32> {
        self.bitmap.word(self.tx.cache(), index)
    }

    fn counter(&mut self, index: u64) -> Result<u32> {
        self.summary.word(self.tx.cache(), index)
    }
}

impl SpaceWords for JoinedWords<'_, '_> {
    fn set_bitmap_word(&mut self, index: u64, word: u32) -> Result<()> {
        self.bitmap.set_word(self.tx, index, word)
    }

    fn set_counter(&mut self, index: u64, counter: u32) -> Result<()> {
        self.summary.set_word(self.tx, index, counter)
    }
}
