//! The bytes of a file in memory, of which only written blocks take space.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::digest::{SECTOR_BYTES, SparseDigest};

/// The bytes of a file. Cloning is cheap: blocks are shared until one clone changes them.
#[derive(Debug, Clone)]
pub struct Bytes {
    block_bytes: u64,
    size: u64,
    /// The blocks that were written, by their index in the file. Every block has `block_bytes`
    /// bytes. The bytes past the size of the file are zero.
    blocks: BTreeMap<u64, Arc<Vec<u8>>>,
}

impl Bytes {
    /// Creates an empty file on a volume with blocks of this size.
    pub fn new(block_bytes: u64) -> Self {
        Self { block_bytes, size: 0, blocks: BTreeMap::new() }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the bytes of a range. The range is cut off at the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = offset.saturating_add(length).min(self.size);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        self.pieces(offset, bytes.len(), |block, within, range| {
            let source = self.blocks.get(&block).and_then(|block| block.get(within));
            if let (Some(source), Some(part)) = (source, bytes.get_mut(range)) {
                part.copy_from_slice(source);
            }
        });
        bytes
    }

    /// Writes bytes at an offset. The file grows if the bytes extend past its end.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.put(offset, bytes);
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    /// Truncates or extends the file.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            let kept = size.div_ceil(self.block_bytes);
            self.blocks.split_off(&kept);
            self.zero_within(size, kept * self.block_bytes);
        }
        self.size = size;
    }

    /// Sets the bytes of a range to zero. The range is cut off at the end of the file.
    pub fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let (first, last) = (offset.div_ceil(self.block_bytes), end / self.block_bytes);
        if first <= last {
            let mut rest = self.blocks.split_off(&first);
            self.blocks.append(&mut rest.split_off(&last));
            self.zero_within(offset, first * self.block_bytes);
            self.zero_within(last * self.block_bytes, end);
        } else {
            self.zero_within(offset, end);
        }
    }

    /// Removes whole blocks. All blocks after them move to lower offsets.
    pub fn collapse(&mut self, offset: u64, length: u64) {
        let (first, count) = (offset / self.block_bytes, length / self.block_bytes);
        let mut rest = self.blocks.split_off(&first);
        let moved = rest.split_off(&(first + count));
        self.blocks.extend(moved.into_iter().map(|(index, block)| (index - count, block)));
        self.size -= length;
    }

    /// Inserts whole blocks of zeros. All blocks from `offset` on move to higher offsets.
    pub fn insert(&mut self, offset: u64, length: u64) {
        let (first, count) = (offset / self.block_bytes, length / self.block_bytes);
        let moved = self.blocks.split_off(&first);
        self.blocks.extend(moved.into_iter().map(|(index, block)| (index + count, block)));
        self.size += length;
    }

    /// Returns a part of the file as a file of its own. `offset` must be a block boundary.
    pub fn part(&self, offset: u64, length: u64) -> Self {
        let mut part = self.clone();
        part.resize(offset.saturating_add(length).min(self.size));
        part.collapse(0, offset.min(part.size));
        part
    }

    /// Writes a part of another file at `offset`, a block boundary. The rest of the part's last
    /// block becomes zeros.
    pub fn paste(&mut self, offset: u64, part: &Self) {
        self.zero(offset, part.size.next_multiple_of(self.block_bytes));
        let first = offset / self.block_bytes;
        let blocks = part.blocks.iter().map(|(index, block)| (first + index, block.clone()));
        self.blocks.extend(blocks);
        self.size = self.size.max(offset + part.size);
    }

    /// Returns a digest of the contents. Files with the same bytes have the same digest, wherever
    /// their holes are.
    pub fn digest(&self) -> SparseDigest {
        let mut digest = SparseDigest::default();
        for (index, block) in &self.blocks {
            let start = index * self.block_bytes;
            let length = self.size.saturating_sub(start).min(self.block_bytes) as usize;
            digest.update(start, block.get(..length).unwrap_or_default());
        }
        digest
    }

    /// Returns the sectors that contain a byte other than zero, each with its offset.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().flat_map(|(index, block)| {
            let start = index * self.block_bytes;
            let sectors = block.chunks(SECTOR_BYTES).zip((start..).step_by(SECTOR_BYTES));
            let held = sectors.filter(|(sector, _)| sector.iter().any(|byte| *byte != 0));
            held.map(|(sector, offset)| (offset, sector))
        })
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut pieces = Vec::new();
        self.pieces(offset, bytes.len(), |block, within, range| {
            pieces.push((block, within, range))
        });
        for (index, within, range) in pieces {
            let empty = || Arc::new(vec![0; self.block_bytes as usize]);
            let block = Arc::make_mut(self.blocks.entry(index).or_insert_with(empty));
            if let (Some(part), Some(source)) = (block.get_mut(within), bytes.get(range)) {
                part.copy_from_slice(source);
            }
        }
    }

    /// Zeros the bytes from `start` to `end`, which must be in one block. Does nothing if the block
    /// was not written.
    fn zero_within(&mut self, start: u64, end: u64) {
        let index = start / self.block_bytes;
        let within = (start % self.block_bytes) as usize;
        let length = end.saturating_sub(start) as usize;
        if length > 0
            && let Some(block) = self.blocks.get_mut(&index)
        {
            let block = Arc::make_mut(block);
            block.iter_mut().skip(within).take(length).for_each(|byte| *byte = 0);
        }
    }

    /// Splits the range of `length` bytes from `offset` on at block boundaries. Calls `take` for
    /// each part with three arguments: the index of the block, the part's range within the block,
    /// and its range within `0..length`.
    fn pieces(
        &self,
        offset: u64,
        length: usize,
        mut take: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let within = (at % self.block_bytes) as usize;
            let count = (self.block_bytes as usize - within).min(length - done);
            take(at / self.block_bytes, within..within + count, done..done + count);
            done += count;
        }
    }
}

#[cfg(test)]
mod tests;
