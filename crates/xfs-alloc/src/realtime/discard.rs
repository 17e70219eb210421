//! Discarding or clearing the free space of a realtime section on request, and discarding zones
//! that were reset.
//!
//! Owns: the choice of the extents and zones. Does **not** own the time of the discard, or what
//! happens to the bytes ([`FreeSpaceClearing`]).
//!
//! A discarded extent is free in the bitmap at that moment, and not busy: its freeing is durable.
//! The group is locked during the discard, so that no thread takes the extent. A discarded zone is
//! empty, or is full without used blocks after a force of the log (Z3 in docs/internals/zoned.md).

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{IoError, Result};
use xfs_format::reservation::TransactionKind;
use xfs_format::{DiskAddr, FsBlock, Geometry};
use xfs_trans::{Journal, Transaction};

use super::group::{ExtentBytes, RealtimeGroup};
use super::runs::FreeRuns;
use super::words::CachedWords;
use super::{RealtimeSpace, ZoneCollection};
use crate::discard::FreeSpaceClearing;

/// Number of free runs that are discarded before the group is released to other threads.
const TURN_RUNS: usize = 64;

/// A range of extents of a group to discard or to clear, in runs of at least `minimum` extents.
struct DiscardRange {
    extents: Range<u64>,
    minimum: u64,
    bytes: ExtentBytes,
    clearing: FreeSpaceClearing,
}

impl RealtimeSpace {
    /// Discards or clears the free extents in a range of blocks of the section, in runs of at least
    /// `minimum_blocks`. In a zoned section, does so with the empty zones in the range. The caller
    /// has forced the log. Returns the number of these blocks.
    ///
    /// # Errors
    ///
    /// The device's error, the error that stopped the log, or a corrupt bitmap.
    pub(crate) fn discard_free(
        &self,
        journal: &Arc<Journal>,
        blocks: &Range<u64>,
        minimum_blocks: u64,
        clearing: FreeSpaceClearing,
    ) -> Result<u64> {
        if self.has_zones() {
            return self.discard_empty_zones(journal, blocks, minimum_blocks, clearing);
        }
        let (geometry, unit) = (journal.geometry(), self.extent_blocks());
        let mut discarded = 0;
        for number in 0..self.groups.len() {
            let first = number as u64 * geometry.realtime.group_blocks;
            let within = |block: u64| block.saturating_sub(first);
            let Some(bytes) = self.bytes_of(geometry, number) else { continue };
            let length = self.group(number).sizes.extents;
            let extents =
                within(blocks.start).div_ceil(unit)..(within(blocks.end) / unit).min(length);
            let minimum = minimum_blocks.div_ceil(unit).max(1);
            let mut rest = DiscardRange { extents, minimum, bytes, clearing };
            while !rest.extents.is_empty() {
                let mut tx = journal.begin(TransactionKind::ChangeInode, 0)?;
                self.group(number).lock(&mut tx);
                let turn = self.group(number).discard_turn(&tx, &mut rest);
                tx.cancel();
                discarded += turn? * unit;
            }
        }
        Ok(discarded)
    }

    /// Returns the place of the extents of a group on the device.
    pub(super) fn bytes_of(&self, geometry: &Geometry, number: usize) -> Option<ExtentBytes> {
        let first = FsBlock((number as u64) << geometry.realtime.group_blocks_log);
        let start = geometry.realtime.device_block(first)?;
        Some(ExtentBytes {
            start: start << geometry.block_log,
            extent: self.extent_blocks() << geometry.block_log,
        })
    }

    /// Resets the full zones without used blocks, and then discards the empty zones that lie in a
    /// range of blocks of the section.
    fn discard_empty_zones(
        &self,
        journal: &Arc<Journal>,
        blocks: &Range<u64>,
        minimum_blocks: u64,
        clearing: FreeSpaceClearing,
    ) -> Result<u64> {
        let collection = ZoneCollection::of(journal)?;
        let guard = collection.begin()?;
        // A zone whose blocks would have to be moved first stays as it is.
        collection.reset_or_choose(&guard, &[])?;
        let (zones, length) = (self.zones()?, journal.geometry().realtime.group_blocks);
        let mut discarded = 0;
        for number in 0..journal.geometry().realtime.group_count {
            let first = u64::from(number) * length;
            let is_inside = blocks.start <= first && first + length <= blocks.end;
            if !is_inside || length < minimum_blocks {
                continue;
            }
            let done = zones.while_empty(number, || self.discard_zone(journal, number, clearing));
            if done.transpose()?.is_some() {
                discarded += length;
            }
        }
        Ok(discarded)
    }

    /// Discards or clears the blocks of a zone, which no file has.
    pub(super) fn discard_zone(
        &self,
        journal: &Journal,
        number: u32,
        clearing: FreeSpaceClearing,
    ) -> Result<()> {
        let geometry = journal.geometry();
        let Some(bytes) = self.bytes_of(geometry, number as usize) else { return Ok(()) };
        discard(journal, bytes.of(&(0..geometry.realtime.group_length(number))), clearing)
    }
}

impl RealtimeGroup {
    /// Discards the next free runs of a range, and removes the part that was examined from the
    /// range. The group is locked. Returns the number of extents discarded.
    fn discard_turn(&self, tx: &Transaction<'_>, range: &mut DiscardRange) -> Result<u64> {
        let mut words = CachedWords::new(tx.cache(), &self.files);
        let mut runs = FreeRuns::new(&mut words, self.sizes);
        let mut discarded = 0;
        for _ in 0..TURN_RUNS {
            let Some(free) = runs.first_free(range.extents.clone())? else {
                range.extents.start = range.extents.end;
                break;
            };
            range.extents.start = free.end;
            for part in self.durably_free(tx.journal(), free) {
                let count = part.end - part.start;
                if count >= range.minimum {
                    discard(tx.journal(), range.bytes.of(&part), range.clearing)?;
                    discarded += count;
                }
            }
        }
        Ok(discarded)
    }
}

/// Discards or clears a range of bytes of the realtime device.
fn discard(journal: &Journal, bytes: Range<u64>, clearing: FreeSpaceClearing) -> Result<()> {
    let Some(device) = journal.cache().realtime_device() else { return Ok(()) };
    let (offset, length) = (bytes.start, bytes.end - bytes.start);
    clearing.clear(&**device, offset, length).map_err(|source| {
        let at = DiskAddr(offset / u64::from(xfs_format::BASIC_BLOCK_BYTES));
        IoError::new("discard", at, length, source).into()
    })
}
