//! Discarding free blocks of a group, or clearing them to zeros.
//!
//! Owns: the choice of the blocks. Does **not** own the time of the discard, or what happens to the
//! bytes ([`FreeSpaceClearing`]).
//!
//! # Invariants
//!
//! - **I1** A discarded block is free according to the free-space btree at that moment, and it is
//!   not busy: its free is durable. A block that was busy may since have moved to the free list and
//!   into a btree, so the free-space btree is read.
//! - The group's header is latched during the discard, so no thread allocates the blocks
//!   before the discard has returned.

use std::ops::Range;

use xfs_btree::Seek;
use xfs_buffer::{IoError, Result};
use xfs_format::{AgBlock, BASIC_BLOCK_BYTES, DiskAddr};
use xfs_trans::Transaction;

use super::GroupSpace;
use super::search::Search;
use crate::discard::FreeSpaceClearing;

/// Number of free extents that are examined before the group's latch is released to other threads.
const TURN_EXTENTS: usize = 64;

/// The result of one turn of discards in a group. A turn lasts from latching the group to releasing
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discarded {
    pub(crate) blocks: u64,
    /// The block to continue from in the next turn; `None` when the range is done.
    pub(crate) next: Option<u32>,
}

impl GroupSpace {
    /// Discards or clears the free blocks in a range of the group, in extents of at least `minimum`
    /// blocks.
    /// Stops after `TURN_EXTENTS` extents.
    pub(crate) fn discard_free(
        &self,
        tx: &Transaction<'_>,
        range: Range<u32>,
        minimum: u32,
        clearing: FreeSpaceClearing,
    ) -> Result<Discarded> {
        let mut cursor = Search::new(tx, self).by_block()?;
        let mut next = match cursor.seek(Seek::AtOrBefore(AgBlock(range.start)))? {
            None => cursor.seek(Seek::AtOrAfter(AgBlock(range.start)))?,
            before => before,
        };
        let mut blocks = 0;
        for _ in 0..TURN_EXTENTS {
            let Some(free) = next.filter(|free| free.start.0 < range.end) else {
                return Ok(Discarded { blocks, next: None });
            };
            let inside = free.start.0.max(range.start)..free.end().0.min(range.end);
            if !inside.is_empty() {
                // I1: the extent is free by the btree, and these parts are not busy.
                let usable: Vec<_> = self.state.lock().busy.usable(inside).collect();
                for part in usable.into_iter().filter(|part| part.len() as u64 >= minimum.into()) {
                    self.discard(tx, &part, clearing)?;
                    blocks += part.len() as u64;
                }
            }
            next = cursor.advance()?;
        }
        Ok(Discarded { blocks, next: next.map(|free| free.start.0) })
    }

    /// Discards the parts of `expired` that are still free. The free of these extents has just
    /// become durable. Errors are ignored: a discard is only a hint.
    pub(super) fn discard_expired(&self, tx: &Transaction<'_>, mut expired: Vec<Range<u32>>) {
        expired.sort_by_key(|range| range.start);
        expired.dedup_by(|next, last| {
            let continues = next.start <= last.end;
            if continues {
                last.end = last.end.max(next.end);
            }
            continues
        });
        for range in expired {
            let mut start = Some(range.start);
            while let Some(from) = start {
                let discard = FreeSpaceClearing::Discard;
                let turn = self.discard_free(tx, from..range.end, 1, discard);
                start = turn.ok().and_then(|turn| turn.next);
            }
        }
    }

    /// Discards or clears the blocks of `part`. `self` keeps the group's header latched meanwhile,
    /// so that no thread allocates the blocks.
    fn discard(
        &self,
        tx: &Transaction<'_>,
        part: &Range<u32>,
        clearing: FreeSpaceClearing,
    ) -> Result<()> {
        let geometry = tx.geometry();
        let at = geometry.ag_block_disk_addr(self.number, AgBlock(part.start));
        let length_bytes = (part.len() as u64) << geometry.block_log;
        let offset = at.0.saturating_mul(BASIC_BLOCK_BYTES.into());
        clearing.clear(&**tx.cache().device(), offset, length_bytes).map_err(|source| {
            let at = DiskAddr(at.0);
            IoError::new("discard", at, length_bytes, source).into()
        })
    }
}
