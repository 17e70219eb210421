//! The choice of the free blocks of a group that an allocation gets.
//!
//! Owns: the check whether a group can afford an allocation, and the walk along the free-space
//! btrees for the best free extent. Does **not** own taking the blocks: a search changes nothing.
//!
//! # The order of the search
//!
//! 1. Only for a request near a block: the nearest extent that gives the maximum. The search goes
//!    outwards from the block, in both directions of the btree by block, over at most [`NEARBY`]
//!    extents.
//! 2. The shortest extent that gives the maximum, by the btree by size.
//! 3. The longest piece that gives at least the minimum. The btree by size is searched from its
//!    longest extent down.
//!
//! Busy blocks are left out of every extent. If the search finds nothing and has met busy blocks,
//! it returns [`SearchResult::Busy`], and its caller waits for the log.

use std::cell::Cell;
use std::ops::Range;

use xfs_btree::{Cursor, Seek};
use xfs_buffer::{BufferCache, Result};
use xfs_format::agf::AgfCheck;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::{AgBlock, Structure};
use xfs_trans::Transaction;

use super::{GroupSpace, free_list};
use crate::owner::{BlockPurpose, ExtentOwner};
use crate::space::reservation::Account;

/// Number of free extents that are examined outwards from a block.
const NEARBY: u32 = 64;
/// Number of free extents of sufficient length that are tried before a shorter extent is taken. An
/// extent of sufficient length does not suit if its blocks are busy (their freeing is not durable
/// yet), or if its aligned part is too short.
const LONG_ENOUGH: u32 = 64;

/// The block of the group near which an allocation is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// Any blocks of the group.
    Anywhere,
    /// The allocation must start at exactly this block.
    Exactly(u32),
    /// The allocation must be as near to this block as possible.
    Block(u32),
}

/// A request for an allocation inside one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRequest {
    pub(crate) near: Near,
    pub(crate) minimum: u32,
    pub(crate) maximum: u32,
    /// The alignment, in blocks, of the first block; at least 1. Blocks are counted from the start
    /// of the group.
    pub(crate) alignment: u32,
    pub(crate) owner: Option<ExtentOwner>,
    /// The account that the blocks are taken from. `None` for blocks that move to the free list,
    /// which still count as free.
    pub(crate) purpose: Option<BlockPurpose>,
    /// Number of blocks that must stay free for later allocations of the transaction.
    pub(crate) minimum_left: u32,
    /// Number of blocks that the group must be able to give in total, even if its btrees take
    /// blocks as they grow. It is the number of blocks that the transaction may still need, or 0 if
    /// the later needs of the transaction do not matter.
    pub(crate) total: u32,
}

impl GroupRequest {
    /// Creates a request for `minimum` to `maximum` blocks anywhere in the group, for contents of a
    /// file.
    pub(crate) const fn blocks(minimum: u32, maximum: u32) -> Self {
        Self {
            near: Near::Anywhere,
            minimum,
            maximum,
            alignment: 1,
            owner: None,
            purpose: Some(BlockPurpose::File),
            minimum_left: 0,
            total: 0,
        }
    }

    /// Whether any single usable block of a group serves the request.
    pub(crate) fn is_single_block(&self) -> bool {
        self.minimum == 1
            && self.alignment == 1
            && self.minimum_left == 0
            && self.purpose == Some(BlockPurpose::File)
            && !matches!(self.near, Near::Exactly(_))
    }

    /// Returns the length in blocks that a free extent must have so that the minimum fits, however
    /// the start of the extent is aligned.
    const fn least(&self) -> u32 {
        self.minimum.saturating_add(self.alignment - 1)
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// A range of blocks, and the free extent that contains it.
    Extent { from: FreeSpace, range: Range<u32> },
    /// The group has suitable blocks, but all of them are busy at present: the transaction that has
    /// freed them is not durable yet.
    Busy,
    /// The group has no suitable blocks.
    Nothing,
}

impl GroupSpace {
    /// Returns the request `wanted`, reduced to the blocks that the group can give without using
    /// its reserves for btrees and the free list. Returns `None` if the group cannot give even the
    /// minimum.
    #[doc(alias = "xfs_alloc_space_available")]
    pub(super) fn affordable(&self, wanted: &GroupRequest) -> Option<GroupRequest> {
        let agf = &self.agf;
        let account = (wanted.purpose == Some(BlockPurpose::Metadata)).then_some(Account::Metadata);
        let (kept, withheld) = {
            let inner = self.state.lock();
            (inner.reserves.kept_from(account), inner.withheld.free_for(wanted.purpose))
        };
        let needed = free_list::needed(agf, &self.state.heights);
        let listed = agf.free_list.count;
        // The blocks for the free list and the reserves come from the longest extent if the others
        // are too short.
        let others = agf.free_blocks - agf.longest_free_blocks.min(agf.free_blocks);
        let taken = needed.saturating_sub(listed) + kept.saturating_sub(others);
        let longest = match agf.longest_free_blocks.checked_sub(taken) {
            Some(longest @ 1..) => longest,
            _ => u32::from(agf.longest_free_blocks > 0),
        };
        let free = agf.free_blocks.saturating_sub(withheld);
        let budget = u64::from(free) + u64::from(listed.min(needed));
        let spoken_for = u64::from(kept) + u64::from(needed) + u64::from(wanted.minimum_left);
        let available = u32::try_from(budget.checked_sub(spoken_for)?).unwrap_or(u32::MAX);
        let total = match wanted.total {
            0 => 0,
            total => total.saturating_add(needed),
        };
        let least = wanted.least();
        (least <= longest && least.max(total) <= available)
            .then(|| GroupRequest { maximum: wanted.maximum.min(available), ..*wanted })
    }

    /// Whether the group can give the minimum of the request now.
    pub(crate) fn can_afford(&self, wanted: &GroupRequest) -> bool {
        self.affordable(wanted).is_some()
    }

    /// Whether an allocation in this group is safe for the rest of the transaction. It is safe if
    /// the group can give `total` blocks in addition to those that the request leaves free. It is
    /// also safe if the group cannot give even the minimum, because then the allocation changes
    /// nothing.
    pub(crate) fn has_all(&self, wanted: &GroupRequest, total: u32) -> bool {
        !self.can_afford(wanted) || self.can_afford(&GroupRequest { total, ..*wanted })
    }

    /// Returns the number of blocks that the group can give to files even if its btrees take blocks
    /// as they grow.
    pub(crate) fn blocks_for_sure(&self) -> u32 {
        let needed = free_list::needed(&self.agf, &self.state.heights);
        let all = self.affordable(&GroupRequest::blocks(1, u32::MAX));
        all.map_or(0, |all| all.maximum.saturating_sub(needed))
    }

    /// Searches for the blocks of the request `wanted`. Changes nothing.
    pub(super) fn search(
        &self,
        tx: &Transaction<'_>,
        wanted: &GroupRequest,
    ) -> Result<SearchResult> {
        let search = Search::new(tx, self).below(self.limit_for(wanted.purpose));
        let found = match wanted.near {
            Near::Exactly(block) => return search.exactly(block, wanted),
            Near::Block(block) => search.nearby(block, wanted)?,
            Near::Anywhere => None,
        };
        let found = match found {
            Some(found) => Some(found),
            None => match search.long_enough(wanted)? {
                Some(found) => Some(found),
                None => search.longest(wanted)?,
            },
        };
        let result = search.result(found);
        if result == SearchResult::Nothing && wanted.is_single_block() && !self.withholds() {
            let (what, stored) =
                ("blocks in the longest free extent", self.agf.longest_free_blocks);
            return Err(
                self.corrupt(Structure::Agf, AgfCheck::Counted { what, stored, counted: 0 })
            );
        }
        Ok(result)
    }

    /// Returns `SearchResult::Nothing`: the group has no blocks to give.
    ///
    /// # Errors
    ///
    /// Returns a corruption if the counters of the AGF contradict each other: they count free
    /// blocks, but no free extent. This must not be taken for a full group, because the transaction
    /// step may have relied on the counted blocks.
    pub(super) fn nothing(&self) -> Result<SearchResult> {
        let (free, longest) = (self.agf.free_blocks, self.agf.longest_free_blocks);
        if free > 0 && longest == 0 {
            let length = self.agf.length_blocks;
            return Err(
                self.corrupt(Structure::Agf, AgfCheck::FreeBlocks { free, longest, length })
            );
        }
        Ok(SearchResult::Nothing)
    }
}

/// The state of a search in one group.
pub(super) struct Search<'s> {
    cache: &'s BufferCache,
    group: &'s GroupSpace,
    /// The first block that the search leaves out, because a shrinking volume will lose it.
    end: u32,
    /// Whether the search has left out busy blocks: blocks whose freeing is not durable yet.
    met_busy: Cell<bool>,
}

type Candidate = (FreeSpace, Range<u32>);

impl<'s> Search<'s> {
    pub(super) fn new(tx: &'s Transaction<'_>, group: &'s GroupSpace) -> Self {
        Self { cache: tx.cache(), group, end: u32::MAX, met_busy: Cell::new(false) }
    }

    /// Leaves out the blocks from `end` on.
    pub(super) const fn below(mut self, end: u32) -> Self {
        self.end = end;
        self
    }

    pub(super) fn by_block(&self) -> Result<Cursor<'s, FreeSpaceByBlock>> {
        Cursor::new(self.cache, self.group.number, self.group.agf.free_space_by_block)
    }

    fn by_size(&self) -> Result<Cursor<'s, FreeSpaceBySize>> {
        Cursor::new(self.cache, self.group.number, self.group.agf.free_space_by_size)
    }

    fn result(&self, found: Option<Candidate>) -> SearchResult {
        match found {
            Some((from, range)) => SearchResult::Extent { from, range },
            None if self.met_busy.get() => SearchResult::Busy,
            None => SearchResult::Nothing,
        }
    }

    /// Finds blocks for the free list: at most `missing` blocks of one free extent. Prefers blocks
    /// that are not busy, that is, whose freeing is durable. Returns `None` if the group has no
    /// free extent.
    pub(super) fn for_free_list(&self, missing: u32) -> Result<Option<Candidate>> {
        let wanted = GroupRequest { purpose: None, ..GroupRequest::blocks(1, missing) };
        if let Some(found) = self.long_enough(&wanted)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.longest(&wanted)? {
            return Ok(Some(found));
        }
        let busy = self.by_size()?.last()?;
        Ok(busy.map(|from| (from, from.start.0..from.start.0 + from.count.min(missing))))
    }

    fn exactly(&self, block: u32, wanted: &GroupRequest) -> Result<SearchResult> {
        let from = self.by_block()?.seek(Seek::AtOrBefore(AgBlock(block)))?;
        let Some(from) = from.filter(|from| from.end().0 > block) else {
            return Ok(SearchResult::Nothing);
        };
        let parts = self.usable(from);
        let part = parts.into_iter().find(|part| part.contains(&block));
        let range = part.map(|part| block..part.end.min(block.saturating_add(wanted.maximum)));
        let range = range.filter(|range| range.end - range.start >= wanted.minimum);
        Ok(self.result(range.map(|range| (from, range))))
    }

    /// Finds the extent nearest to `block` that has the maximum number of requested blocks, among
    /// the [`NEARBY`] extents around `block`. Returns `None` if there is no such extent.
    fn nearby(&self, block: u32, wanted: &GroupRequest) -> Result<Option<Candidate>> {
        let (mut left, mut right) = (self.by_block()?, self.by_block()?);
        let mut before = left.seek(Seek::AtOrBefore(AgBlock(block)))?;
        let mut after = right.seek(Seek::AtOrAfter(AgBlock(block.saturating_add(1))))?;
        for _ in 0..NEARBY {
            let distance_left = before.map(|from| block.saturating_sub(from.end().0));
            let distance_right = after.map(|from| from.start.0 - block);
            let goes_left = match (distance_left, distance_right) {
                (None, None) => return Ok(None),
                (Some(left), Some(right)) => left <= right,
                (left, _) => left.is_some(),
            };
            let side = if goes_left { &mut before } else { &mut after };
            let found = side.and_then(|from| self.fit(from, wanted));
            if let Some((from, range)) = found
                && range.end - range.start >= wanted.maximum
            {
                return Ok(Some((from, range)));
            }
            *side = if goes_left { left.retreat()? } else { right.advance()? };
        }
        Ok(None)
    }

    /// Finds the shortest extent that has the maximum number of requested blocks; `None` if there
    /// is no such extent.
    fn long_enough(&self, wanted: &GroupRequest) -> Result<Option<Candidate>> {
        let least = wanted.maximum.saturating_add(wanted.alignment - 1);
        let mut cursor = self.by_size()?;
        let mut next = cursor.seek(Seek::AtOrAfter((least, AgBlock(0))))?;
        for _ in 0..LONG_ENOUGH {
            let Some(from) = next else { break };
            if let Some((from, range)) = self.fit(from, wanted)
                && range.end - range.start >= wanted.maximum
            {
                return Ok(Some((from, range)));
            }
            next = cursor.advance()?;
        }
        Ok(None)
    }

    /// Finds the longest run of usable free blocks in the group; `None` if no run has the minimum
    /// number of requested blocks.
    fn longest(&self, wanted: &GroupRequest) -> Result<Option<Candidate>> {
        let mut best: Option<Candidate> = None;
        let mut cursor = self.by_size()?;
        let mut next = cursor.last()?;
        while let Some(from) = next {
            let best_blocks = best.as_ref().map_or(0, |(_, range)| range.end - range.start);
            if from.count < wanted.minimum || from.count <= best_blocks {
                break;
            }
            let found = self.fit(from, wanted);
            best = found.filter(|(_, range)| range.end - range.start > best_blocks).or(best);
            next = cursor.retreat()?;
        }
        Ok(best)
    }

    fn usable(&self, from: FreeSpace) -> Vec<Range<u32>> {
        let all = from.start.0..from.end().0.min(self.end);
        if all.is_empty() {
            return Vec::new();
        }
        let inner = self.group.state.lock();
        let parts: Vec<_> = inner.busy.usable(all.clone()).collect();
        if parts.first() != Some(&all) {
            self.met_busy.set(true);
        }
        parts
    }

    /// Returns the best range of blocks for `wanted` in the free extent `from`; `None` if the
    /// extent is not suitable.
    fn fit(&self, from: FreeSpace, wanted: &GroupRequest) -> Option<Candidate> {
        let target = match wanted.near {
            Near::Anywhere => None,
            Near::Exactly(block) | Near::Block(block) => Some(block),
        };
        let parts = self.usable(from).into_iter();
        let pieces = parts.filter_map(|part| place(part, wanted, target));
        let best = pieces.max_by_key(|piece| {
            let distance = target.map_or(piece.start, |target| target.abs_diff(piece.start));
            (piece.end - piece.start, std::cmp::Reverse(distance))
        });
        best.map(|range| (from, range))
    }
}

/// Returns the best range of blocks for `wanted` within `part`, a range of free blocks: aligned, as
/// long as requested, and as near to `target` as possible. Returns `None` if the minimum does not
/// fit.
fn place(part: Range<u32>, wanted: &GroupRequest, target: Option<u32>) -> Option<Range<u32>> {
    let alignment = wanted.alignment.max(1);
    let first = part.start.checked_next_multiple_of(alignment)?;
    let longest = part.end.checked_sub(first)?.min(wanted.maximum);
    if longest < wanted.minimum || longest == 0 {
        return None;
    }
    // The last start that leaves room for the whole length.
    let last = (part.end - longest) / alignment * alignment;
    let start = match target {
        Some(target) if target > first => (target / alignment * alignment).clamp(first, last),
        _ => first,
    };
    Some(start..start + longest)
}

#[cfg(test)]
mod tests;
