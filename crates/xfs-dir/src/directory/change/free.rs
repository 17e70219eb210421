//! The free-space index of a directory in node form: for each data block, the length of its longest
//! free record.
//!
//! Owns: the blocks of the free-space index and their counts. Does **not** own the data blocks.

use std::mem::offset_of;

use xfs_buffer::Result;
use xfs_format::directory::free::{FREE_MAGIC, FreeHeaderDisk};
use xfs_format::directory::{DirectoryCheck, FreeBlock, NULL_OFFSET, free_start};
use xfs_format::{BlockKind, FileBlock};
use zerocopy::big_endian::U16;

use super::{DirectoryChange, data};
use crate::edit::{BlockEdit, u16_at, u32_at};
use crate::store::ForkStore;

const BASE: usize = size_of::<FreeHeaderDisk>();
const LENGTH: usize = size_of::<U16>();
const FIRST: usize = offset_of!(FreeHeaderDisk, first);
const COUNT: usize = offset_of!(FreeHeaderDisk, count);
const USED: usize = offset_of!(FreeHeaderDisk, used);

/// The place in the free-space index that describes one data block: a block of the index, and a
/// position in this block. The length of the data block's longest free record is stored there.
#[derive(Clone, Copy, Debug)]
struct FreeSlot {
    at: FileBlock,
    index: usize,
    /// The index of the first data block for which this block of the free-space index stores a
    /// length.
    first: u64,
}

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Returns the number of lengths that fit in a block of the free-space index.
    fn free_capacity(&self) -> u64 {
        ((self.block_bytes - BASE) / LENGTH) as u64
    }

    fn free_block_at(&self, number: u64) -> FileBlock {
        let start = free_start(self.store.geometry());
        FileBlock(start.0 + number * u64::from(self.blocks))
    }

    /// Returns the number of blocks that the free-space index spans, including blocks that are not
    /// allocated.
    fn free_blocks(&mut self) -> Result<u64> {
        let end = self.store.last_before(FileBlock(u64::MAX))?;
        let start = free_start(self.store.geometry());
        Ok(end.0.saturating_sub(start.0) / u64::from(self.blocks))
    }

    /// Reads block `number` of the free-space index; returns `None` if the block is not allocated.
    fn read_free(&mut self, number: u64) -> Result<Option<S::Block>> {
        let at = self.free_block_at(number);
        if self.store.first_unused(at, 1)? == at {
            return Ok(None);
        }
        self.store.read_owned(at, BlockKind::DirectoryFree).map(Some)
    }

    fn slot(&self, data_block: u64) -> FreeSlot {
        let (number, index) =
            (data_block / self.free_capacity(), data_block % self.free_capacity());
        let first = number * self.free_capacity();
        FreeSlot { at: self.free_block_at(number), index: index as usize, first }
    }

    /// Finds a data block with a free record of at least `length` bytes. If there is none, returns
    /// the lowest index at which a new data block can be added.
    pub(super) fn find_free(&mut self, length: usize) -> Result<FreeSearch<S::Block>> {
        let blocks = self.free_blocks()?;
        if let Some(found) = self.find_free_at_end(blocks, length)? {
            return Ok(found);
        }
        let mut hole = None;
        for number in 0..blocks {
            let first = number * self.free_capacity();
            let Some(block) = self.read_free(number)? else {
                hole = hole.or(Some(first));
                continue;
            };
            let place = self.store.place(self.free_block_at(number));
            let (found, gap) = self.store.view(&block, |bytes| -> Result<_> {
                let lengths = FreeBlock::decode(bytes, place)?.best_free();
                let found = lengths.iter().position(|best| fits(best.get(), length));
                let gap = lengths.iter().position(|best| best.get() == NULL_OFFSET);
                let is_full = BASE + LENGTH * lengths.len() == bytes.len();
                Ok((found, gap.or((!is_full).then_some(lengths.len()))))
            })?;
            if let Some(index) = found {
                return Ok(FreeSearch::Block(first + index as u64, block));
            }
            hole = hole.or(gap.map(|index| first + index as u64));
        }
        Ok(FreeSearch::New(hole.unwrap_or(blocks * self.free_capacity())))
    }

    /// Looks for a free record of `length` bytes in the last data block only. A growing directory
    /// usually has room there, and then no search from the first block on is needed. Returns `None`
    /// if the last data block has no room.
    fn find_free_at_end(
        &mut self,
        blocks: u64,
        length: usize,
    ) -> Result<Option<FreeSearch<S::Block>>> {
        let Some(last) = blocks.checked_sub(1) else { return Ok(None) };
        let block = self.store.read_owned(self.free_block_at(last), BlockKind::DirectoryFree)?;
        let index = self.store.view(&block, |bytes| {
            let index = u32_at(bytes, COUNT).checked_sub(1)?;
            fits(u16_at(bytes, BASE + LENGTH * index as usize), length).then_some(index)
        });
        let first = last * self.free_capacity();
        Ok(index.map(|index| FreeSearch::Block(first + u64::from(index), block)))
    }

    /// Allocates the block of the free-space index for this data block, if it is not allocated.
    pub(super) fn ensure_free(&mut self, data_block: u64) -> Result<()> {
        let slot = self.slot(data_block);
        if self.store.first_unused(slot.at, 1)? != slot.at {
            return Ok(());
        }
        let block = self.store.grow(slot.at, BlockKind::DirectoryFree)?;
        let identity = self.identity(&block);
        self.store.edit(&block, |edit| initialise(edit, slot.first, &identity));
        Ok(())
    }

    /// Sets the length of the longest free record of an existing data block.
    pub(super) fn set_free(&mut self, data_block: u64, length: u16) -> Result<()> {
        let at = self.slot(data_block).at;
        let block = self.store.read_owned(at, BlockKind::DirectoryFree)?;
        self.set_free_in(&block, data_block, length);
        Ok(())
    }

    /// Sets the length of a data block's longest free record in `block`, which must be the block of
    /// the free-space index that stores this length.
    pub(super) fn set_free_in(&mut self, block: &S::Block, data_block: u64, length: u16) {
        let index = self.slot(data_block).index;
        self.store.edit(block, |edit| set_length(edit, index, length));
    }

    /// Removes a data block from the free-space index. If a block of the index then stores no
    /// length any more, that block is freed.
    pub(super) fn clear_free(&mut self, data_block: u64) -> Result<()> {
        let slot = self.slot(data_block);
        let block = self.store.read_owned(slot.at, BlockKind::DirectoryFree)?;
        if !self.store.view(&block, |bytes| has_length(bytes, slot.index)) {
            let check = DirectoryCheck::FreeMissing { index: data_block };
            return Err(self.corrupt(slot.at, check));
        }
        let used = self.store.edit(&block, |edit| clear_length(edit, slot.index));
        if used == 0 {
            self.store.shrink(slot.at, &block)?;
        }
        Ok(())
    }

    /// Creates the first block of the free-space index, with the lengths of the longest free
    /// records. The only leaf of the directory held these lengths in the leaf form.
    pub(super) fn make_free(&mut self, lengths: &[u16]) -> Result<()> {
        self.ensure_free(0)?;
        let block = self.store.read_owned(self.free_block_at(0), BlockKind::DirectoryFree)?;
        self.store.edit(&block, |edit| {
            for (index, length) in lengths.iter().enumerate() {
                edit.put_u16(BASE + LENGTH * index, *length);
            }
            let used = lengths.iter().filter(|length| **length != NULL_OFFSET).count();
            edit.put_u32(COUNT, lengths.len() as u32);
            edit.put_u32(USED, used as u32);
        });
        Ok(())
    }

    /// Returns the only block of the free-space index, and the lengths that it stores: for each
    /// data block, the length of its longest free record. Returns `None` unless the index has
    /// exactly one block.
    pub(super) fn only_free(&mut self) -> Result<Option<(S::Block, Vec<u16>)>> {
        if self.free_blocks()? != 1 {
            return Ok(None);
        }
        let Some(block) = self.read_free(0)? else { return Ok(None) };
        let place = self.store.place(self.free_block_at(0));
        let lengths = self.store.view(&block, |bytes| -> Result<Vec<u16>> {
            Ok(FreeBlock::decode(bytes, place)?.best_free().iter().map(|best| best.get()).collect())
        })?;
        Ok(Some((block, lengths)))
    }

    /// Frees the only block of the free-space index.
    pub(super) fn drop_free(&mut self, block: &S::Block) -> Result<()> {
        self.store.shrink(self.free_block_at(0), block)
    }
}

/// The result of a search for a data block with room.
pub(super) enum FreeSearch<B> {
    /// The data block with this index has room, according to the given block of the free-space
    /// index.
    Block(u64, B),
    /// No data block has room. A new data block can be added at this index.
    New(u64),
}

pub(super) fn fits(best: u16, length: usize) -> bool {
    best != NULL_OFFSET && usize::from(best) >= length
}

fn initialise(edit: &mut BlockEdit<'_>, first: u64, identity: &data::BlockIdentity) {
    edit.put_u32(0, FREE_MAGIC);
    identity.store(edit);
    edit.put_u32(FIRST, first as u32);
}

/// Sets the length at `index` in a block of the free-space index. If `index` is past the last
/// stored length, all lengths between the last one and `index` are marked as missing.
fn set_length(edit: &mut BlockEdit<'_>, index: usize, length: u16) {
    let count = edit.u32_at(COUNT) as usize;
    let at = BASE + LENGTH * index;
    let before = if index < count { edit.u16_at(at) } else { NULL_OFFSET };
    if before == length {
        return;
    }
    if index >= count {
        for gap in count..index {
            edit.put_u16(BASE + LENGTH * gap, NULL_OFFSET);
        }
        edit.put_u32(COUNT, index as u32 + 1);
    }
    edit.put_u16(at, length);
    if before == NULL_OFFSET {
        edit.put_u32(USED, edit.u32_at(USED) + 1);
    }
}

/// Returns whether a block of the free-space index has a length at `index`.
fn has_length(bytes: &[u8], index: usize) -> bool {
    let count = u32_at(bytes, COUNT) as usize;
    index < count && u16_at(bytes, BASE + LENGTH * index) != NULL_OFFSET
}

/// Removes the length of a data block from a block of the free-space index. Returns the number of
/// lengths that are left.
fn clear_length(edit: &mut BlockEdit<'_>, index: usize) -> u32 {
    let mut count = edit.u32_at(COUNT) as usize;
    let used = edit.u32_at(USED) - 1;
    edit.put_u16(BASE + LENGTH * index, NULL_OFFSET);
    edit.put_u32(USED, used);
    while count > 0 && edit.u16_at(BASE + LENGTH * (count - 1)) == NULL_OFFSET {
        count -= 1;
    }
    edit.put_u32(COUNT, count as u32);
    used
}
