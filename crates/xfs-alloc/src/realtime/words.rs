//! The words of the bitmap and the counters of the summary, in the blocks of their files.
//!
//! Owns: finding the block of a word, reading it, and joining it to the transaction that changes
//! it. Does **not** own: the lock over both files, which protects readers too.

use xfs_buffer::{Buffer, BufferCache, Result};
use xfs_format::extent::Extent;
use xfs_format::realtime::{SPACE_WORD_BYTES, decode_space_word, encode_space_word};
use xfs_format::{BlockKind, DiskAddr, Geometry};
use xfs_trans::Transaction;

use super::runs::{ReadWords, SpaceWords};
use super::{RealtimeFiles, outside};

/// The block that was read last: the number of the block in its file, and its buffer.
type LastBlock = Option<(u64, Buffer)>;

/// One of the two files, with the block of it that was read last.
struct WordFile<'a> {
    extents: &'a [Extent],
    kind: BlockKind,
    last: LastBlock,
}

/// The place of a word: the number of the block in its file, and the offset in the block.
#[derive(Clone, Copy)]
struct WordPlace {
    block: u64,
    offset_bytes: usize,
}

impl WordPlace {
    fn of(geometry: &Geometry, index: u64) -> Self {
        let per_block = u64::from(geometry.block_size) / SPACE_WORD_BYTES as u64;
        let offset_bytes = (index % per_block) as usize * SPACE_WORD_BYTES;
        Self { block: index / per_block, offset_bytes }
    }
}

impl<'a> WordFile<'a> {
    const fn new(extents: &'a [Extent], kind: BlockKind) -> Self {
        Self { extents, kind, last: None }
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
        let geometry = cache.geometry();
        let place = WordPlace::of(geometry, index);
        let buffer = match self.last.take().filter(|(block, _)| *block == place.block) {
            Some((_, buffer)) => buffer,
            None => {
                let at = self.address(geometry, place.block)?;
                cache.read(at, geometry.block_size, self.kind)?
            }
        };
        let word = {
            let bytes = buffer.bytes();
            let word = bytes.get(place.offset_bytes..).and_then(|rest| rest.first_chunk());
            decode_space_word(*word.expect("a word lies inside its block"))
        };
        self.last = Some((place.block, buffer));
        Ok(word)
    }

    fn set_word(&self, tx: &mut Transaction<'_>, index: u64, word: u32) -> Result<()> {
        let place = WordPlace::of(tx.geometry(), index);
        let at = self.address(tx.geometry(), place.block)?;
        let buffer = tx.read(at, tx.geometry().block_size, self.kind)?;
        let range = place.offset_bytes..place.offset_bytes + SPACE_WORD_BYTES;
        tx.change(&buffer, range, |bytes| bytes.copy_from_slice(&encode_space_word(word)));
        Ok(())
    }
}

/// Both files, for reading.
pub(super) struct CachedWords<'a> {
    cache: &'a BufferCache,
    bitmap: WordFile<'a>,
    summary: WordFile<'a>,
}

impl<'a> CachedWords<'a> {
    pub(super) fn new(cache: &'a BufferCache, files: &'a RealtimeFiles) -> Self {
        Self {
            cache,
            bitmap: WordFile::new(&files.bitmap, BlockKind::RealtimeBitmap),
            summary: WordFile::new(&files.summary, BlockKind::RealtimeSummary),
        }
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

/// Both files, for a transaction that holds their lock. Blocks are read without latching them; a
/// block is joined when it is changed.
pub(super) struct JoinedWords<'a, 'journal> {
    tx: &'a mut Transaction<'journal>,
    bitmap: WordFile<'a>,
    summary: WordFile<'a>,
}

impl<'a, 'journal> JoinedWords<'a, 'journal> {
    pub(super) fn new(tx: &'a mut Transaction<'journal>, files: &'a RealtimeFiles) -> Self {
        let bitmap = WordFile::new(&files.bitmap, BlockKind::RealtimeBitmap);
        let summary = WordFile::new(&files.summary, BlockKind::RealtimeSummary);
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
