//! Runs of free realtime extents: the bitmap that has them, and the summary that counts them.
//!
//! Owns: finding a run, and changing bitmap and summary together. Does **not** own: the blocks of
//! the two files ([`SpaceWords`] reads and changes their words), or the choice of the extents.
//!
//! ```text
//! bitmap    bit n of word n / 32 is set if realtime extent n is free
//! summary   counter[level · bitmap blocks + b] is the number of free runs that start in block b of
//!           the bitmap and have from 2^level to 2^(level + 1) - 1 extents
//! ```
//!
//! # Invariants
//!
//! - **I1** A change of the bitmap changes the counters of exactly the runs that it ends and
//!   begins. So the summary is always a function of the bitmap.

use std::ops::Range;

use xfs_buffer::{Error, Result};
use xfs_format::realtime::{BITMAP_WORD_EXTENTS, RealtimeSpaceCheck};
use xfs_format::{Corruption, DiskAddr, Structure, StructureAddress};

/// The words of a bitmap and the counters of its summary.
pub(super) trait ReadWords {
    /// Returns a word of the bitmap.
    fn bitmap_word(&mut self, index: u64) -> Result<u32>;
    /// Returns a counter of the summary.
    fn counter(&mut self, index: u64) -> Result<u32>;
}

/// The words of a bitmap and the counters of its summary, for reading and changing.
pub(super) trait SpaceWords: ReadWords {
    /// Replaces a word of the bitmap.
    fn set_bitmap_word(&mut self, index: u64, word: u32) -> Result<()>;
    /// Replaces a counter of the summary.
    fn set_counter(&mut self, index: u64, counter: u32) -> Result<()>;
}

/// The sizes of a bitmap and its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceSizes {
    /// Number of realtime extents.
    pub(super) extents: u64,
    /// Number of blocks of the bitmap.
    pub(super) bitmap_blocks: u64,
    /// Number of extents for which one block of the bitmap has bits.
    pub(super) block_extents: u64,
}

impl SpaceSizes {
    /// Returns the number of levels of the summary.
    pub(super) fn levels(&self) -> u32 {
        self.extents.checked_ilog2().map_or(0, |log| log + 1)
    }
}

/// The runs of free extents of a section or of a group, found and changed in its bitmap and
/// summary.
pub(super) struct FreeRuns<'a, W> {
    words: &'a mut W,
    sizes: SpaceSizes,
}

impl<'a, W: ReadWords> FreeRuns<'a, W> {
    pub(super) const fn new(words: &'a mut W, sizes: SpaceSizes) -> Self {
        Self { words, sizes }
    }

    /// Returns the number of free extents.
    pub(super) fn count(&mut self) -> Result<u64> {
        let (mut at, mut count) = (0, 0);
        while at < self.sizes.extents {
            let start = self.end_of(at, self.sizes.extents, false)?;
            at = self.end_of(start, self.sizes.extents, true)?;
            count += at - start;
        }
        Ok(count)
    }

    /// Returns the first run of free extents in `range`, cut to the range. Returns `None` if no
    /// extent of the range is free.
    pub(super) fn first_free(&mut self, range: Range<u64>) -> Result<Option<Range<u64>>> {
        let limit = range.end.min(self.sizes.extents);
        if range.start >= limit {
            return Ok(None);
        }
        let start = self.end_of(range.start, limit, false)?;
        let end = self.end_of(start, limit, true)?;
        Ok((start < end).then_some(start..end))
    }

    /// Returns a run of up to `wanted` free extents: exactly at extent `near` if that is free, else
    /// a run that is long enough, as near as possible among runs of similar length; else the
    /// longest run. Returns `None` if no extent is free.
    #[doc(alias = "xfs_rtallocate_extent_near")]
    pub(super) fn find(&mut self, near: u64, wanted: u64) -> Result<Option<Range<u64>>> {
        let near = if near < self.sizes.extents { near } else { 0 };
        let end = self.end_of(near, near.saturating_add(wanted), true)?;
        if end > near {
            return Ok(Some(near..end));
        }
        let own_level = wanted.max(1).ilog2();
        // A run of the level of the wanted length may still be shorter than that.
        let upward = own_level..self.sizes.levels();
        let downward = (0..own_level.min(self.sizes.levels())).rev();
        let mut shorter: Option<Range<u64>> = None;
        for level in upward.chain(downward) {
            if level < own_level && shorter.is_some() {
                break;
            }
            let Some(run) = self.find_of_level(level, near, wanted)? else { continue };
            if run.end - run.start >= wanted {
                return Ok(Some(run.start..run.start + wanted));
            }
            shorter = Some(run);
        }
        Ok(shorter)
    }

    /// Returns a run of this level in the block of the bitmap that is nearest to extent `near`. It
    /// has `wanted` extents if the block has such a run, else it is the longest one of the level.
    #[doc(alias = "xfs_rtallocate_extent_size")]
    fn find_of_level(&mut self, level: u32, near: u64, wanted: u64) -> Result<Option<Range<u64>>> {
        let (blocks, middle) = (self.sizes.bitmap_blocks, near / self.sizes.block_extents);
        let mut best: Option<Range<u64>> = None;
        for distance in 0..blocks {
            let right = middle.checked_add(distance).filter(|block| *block < blocks);
            let left = middle.checked_sub(distance).filter(|_| distance > 0);
            for block in [right, left].into_iter().flatten() {
                if self.words.counter(u64::from(level) * blocks + block)? == 0 {
                    continue;
                }
                let found = self.find_in_block(block, level, wanted)?;
                let found = found.ok_or_else(|| corrupt(counter_check(level, block)))?;
                if found.end - found.start >= wanted {
                    return Ok(Some(found));
                }
                if best.as_ref().is_none_or(|best| found.end - found.start > best.end - best.start)
                {
                    best = Some(found);
                }
            }
        }
        Ok(best)
    }

    /// Returns a run of this level that starts in a block of the bitmap: the first one of at least
    /// `wanted` extents, else the longest one.
    fn find_in_block(&mut self, block: u64, level: u32, wanted: u64) -> Result<Option<Range<u64>>> {
        let first = block * self.sizes.block_extents;
        let limit = (first + self.sizes.block_extents).min(self.sizes.extents);
        let mut at = first;
        if first > 0 && self.end_of(first - 1, first, true)? == first {
            // This run starts in the block before.
            at = self.end_of(first, limit, true)?;
        }
        let mut best: Option<Range<u64>> = None;
        while at < limit {
            let start = self.end_of(at, limit, false)?;
            if start == limit {
                break;
            }
            let end = self.end_of(start, self.sizes.extents, true)?;
            let length = end - start;
            if length.ilog2() == level {
                if length >= wanted {
                    return Ok(Some(start..end));
                }
                if best.as_ref().is_none_or(|best| length > best.end - best.start) {
                    best = Some(start..end);
                }
            }
            at = end;
        }
        Ok(best)
    }

    /// Returns the first extent from `from` up to `limit` that is not in the state `is_free`, or
    /// `limit` if there is none.
    #[doc(alias = "xfs_rtfind_forw")]
    fn end_of(&mut self, from: u64, limit: u64, is_free: bool) -> Result<u64> {
        let limit = limit.min(self.sizes.extents);
        let mut at = from;
        while at < limit {
            let word = self.words.bitmap_word(at / BITMAP_WORD_EXTENTS)?;
            let ends = if is_free { !word } else { word };
            let ends = ends >> (at % BITMAP_WORD_EXTENTS);
            if ends != 0 {
                return Ok((at + u64::from(ends.trailing_zeros())).min(limit));
            }
            at = at - at % BITMAP_WORD_EXTENTS + BITMAP_WORD_EXTENTS;
        }
        Ok(limit)
    }

    /// Returns the first extent of the free run that ends before extent `end`; `end` itself if the
    /// extent before it is in use.
    #[doc(alias = "xfs_rtfind_back")]
    fn start_of(&mut self, end: u64) -> Result<u64> {
        let mut at = end;
        while let Some(last) = at.checked_sub(1) {
            let used = !self.words.bitmap_word(last / BITMAP_WORD_EXTENTS)?;
            let used = used << (BITMAP_WORD_EXTENTS - 1 - last % BITMAP_WORD_EXTENTS);
            if used != 0 {
                return Ok(at - u64::from(used.leading_zeros()));
            }
            at = last - last % BITMAP_WORD_EXTENTS;
        }
        Ok(0)
    }

    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start < range.end && range.end <= self.sizes.extents {
            return Ok(());
        }
        let (start, count) = (range.start, range.end.saturating_sub(range.start));
        Err(corrupt(RealtimeSpaceCheck::Range { start, count }))
    }
}

impl<W: SpaceWords> FreeRuns<'_, W> {
    /// Takes a range of free extents into use.
    ///
    /// # Errors
    ///
    /// Returns a corruption if an extent of the range is in use already, or lies outside the
    /// section.
    #[doc(alias = "xfs_rtallocate_range")]
    pub(super) fn take(&mut self, range: &Range<u64>) -> Result<()> {
        self.check_range(range)?;
        let extent = self.end_of(range.start, range.end, true)?;
        if extent != range.end {
            return Err(corrupt(RealtimeSpaceCheck::InUse { extent }));
        }
        let run = self.start_of(range.start)?..self.end_of(range.end, self.sizes.extents, true)?;
        self.count_run(&run, false)?;
        self.count_run(&(run.start..range.start), true)?;
        self.count_run(&(range.end..run.end), true)?;
        self.mark(range, false)
    }

    /// Makes a range of extents in use free.
    ///
    /// # Errors
    ///
    /// Returns a corruption if an extent of the range is free already, or lies outside the section.
    #[doc(alias = "xfs_rtfree_range")]
    pub(super) fn release(&mut self, range: &Range<u64>) -> Result<()> {
        self.check_range(range)?;
        let extent = self.end_of(range.start, range.end, false)?;
        if extent != range.end {
            return Err(corrupt(RealtimeSpaceCheck::Free { extent }));
        }
        let run = self.start_of(range.start)?..self.end_of(range.end, self.sizes.extents, true)?;
        self.count_run(&(run.start..range.start), false)?;
        self.count_run(&(range.end..run.end), false)?;
        self.count_run(&run, true)?;
        self.mark(range, true)
    }

    /// Adds a free run to its counter, or removes it (I1). An empty run has no counter.
    fn count_run(&mut self, run: &Range<u64>, is_added: bool) -> Result<()> {
        let Some(level) = (run.end - run.start).checked_ilog2() else { return Ok(()) };
        let block = run.start / self.sizes.block_extents;
        let index = u64::from(level) * self.sizes.bitmap_blocks + block;
        let counter = self.words.counter(index)?;
        // A summary in the other byte order has counters that no block of the bitmap can have.
        if u64::from(counter) > self.sizes.block_extents {
            return Err(corrupt(counter_check(level, block)));
        }
        let changed = if is_added { counter.checked_add(1) } else { counter.checked_sub(1) };
        let changed = changed.ok_or_else(|| corrupt(counter_check(level, block)))?;
        self.words.set_counter(index, changed)
    }

    fn mark(&mut self, range: &Range<u64>, is_free: bool) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let index = at / BITMAP_WORD_EXTENTS;
            let end = range.end.min((index + 1) * BITMAP_WORD_EXTENTS);
            let ones = u32::MAX >> (BITMAP_WORD_EXTENTS - (end - at));
            let bits = ones << (at % BITMAP_WORD_EXTENTS);
            let word = self.words.bitmap_word(index)?;
            self.words.set_bitmap_word(index, if is_free { word | bits } else { word & !bits })?;
            at = end;
        }
        Ok(())
    }
}

const fn counter_check(level: u32, block: u64) -> RealtimeSpaceCheck {
    RealtimeSpaceCheck::Counter { level, block }
}

/// Returns the error for damage of the bitmap or the summary. The error has the address of the
/// superblock, which names both files.
#[cold]
pub(super) fn corrupt(check: RealtimeSpaceCheck) -> Error {
    let at = StructureAddress::Disk(DiskAddr(0));
    Corruption::new(Structure::RealtimeMetadata, at, check).into()
}

#[cfg(test)]
mod tests;
