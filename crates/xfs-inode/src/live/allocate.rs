//! Preallocating space for a range of a file.
//!
//! Owns: the guarantee that either the whole range is allocated or none of it. Does **not** own the
//! allocation of a hole ([`write`](super::write)), permission, or the lock of the file's contents.
//!
//! Blocks for all holes are reserved before the first hole is allocated, so the call fails at once
//! on a volume with too few blocks. The number of additional blocks for the map's btree is known
//! only as the btree grows. If these blocks run out, the newly allocated blocks are freed again.

use core::ops::Range;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::inode::{ForkKind, InodeFlags};
use xfs_format::superblock::Unsupported;
use xfs_format::timestamp::Timestamp;
use xfs_trans::{BlockReservation, Journal, QuotaAmount, QuotaReservation};

use super::LiveInode;
use super::file_range::{FileRange, RangeEdges};
use super::map::map_blocks;
use super::range::KeepSize;
use super::realtime::check_realtime_room;
use super::write::WriteOptions;
use crate::edit::BlockRange;
use crate::extent_map::Mapping;

impl LiveInode {
    /// Allocates all holes in a range as unwritten extents, or none of them if the volume is full.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at); [`Unsupported::ZonedAllocation`] for a file in
    /// zones.
    #[doc(alias = "xfs_alloc_file_space")]
    pub fn allocate(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        let range = FileRange::of(self, journal.geometry(), range, RangeEdges::Anywhere)?;
        if self.is_in_zones(journal) {
            return Err(Unsupported::ZonedAllocation.into());
        }
        self.allocate_range(journal, &range, keep_size, now)
    }

    /// Allocates all holes in a range whose blocks are not shared any more, as
    /// [`allocate`](Self::allocate) does. In zones, where no block is shared, the range stays as it
    /// is, and only the size and the times change, as with the kernel.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    #[doc(alias = "FALLOC_FL_UNSHARE_RANGE")]
    pub fn allocate_unshared(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        let range = FileRange::of(self, journal.geometry(), range, RangeEdges::Anywhere)?;
        if self.is_in_zones(journal) {
            return self.extend_over(journal, &range, keep_size, now);
        }
        self.allocate_range(journal, &range, keep_size, now)
    }

    /// Allocates all holes in a range that was checked before, as [`allocate`](Self::allocate)
    /// does.
    pub(super) fn allocate_range(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: &FileRange,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        let (blocks, range) = (range.touched, &range.bytes);
        let reservation = self.reserve_holes(journal, blocks)?;
        let mut writer =
            self.writer(journal, WriteOptions { reservation, ..WriteOptions::at(now) });
        writer.accept(self.quota_to_allocate(journal, blocks)?);
        let size = self.inode().core().size;
        if keep_size == KeepSize::No && range.end > size {
            self.zero_written(journal, size, range.end, now)?;
        }
        // With an extent size hint more than the range is allocated: its first and last whole unit.
        let stretched = blocks.aligned(self.allocation_unit(journal.geometry()).into());
        let holes = self.holes(journal, stretched)?;
        match writer.fill_holes(blocks) {
            Err(full @ Error::Posix(PosixError::NoSpace)) if !journal.is_shut_down() => {
                drop(writer);
                for hole in holes {
                    self.free_range(journal, hole)?;
                }
                return Err(full);
            }
            filled => filled?,
        }
        self.change_alone(journal, now, |core| {
            core.flags |= InodeFlags::PREALLOC;
            if keep_size == KeepSize::No {
                core.size = core.size.max(range.end);
            }
        })
    }

    /// Reserves blocks for every hole of a range, and for the growth of the map by one extent.
    fn reserve_holes(&self, journal: &Arc<Journal>, range: BlockRange) -> Result<BlockReservation> {
        let holes = self.holes(journal, range)?;
        if holes.is_empty() {
            return Ok(BlockReservation::default());
        }
        let overhead = map_blocks(journal.geometry(), ForkKind::Data);
        let lengths = holes.iter().map(|hole| hole.length_blocks);
        let all = lengths.fold(overhead, u64::saturating_add);
        if self.is_realtime(journal.geometry()) {
            check_realtime_room(journal, all - overhead)?;
            return journal.reserve_blocks(overhead);
        }
        journal.reserve_blocks(all)
    }

    /// Reserves quota for the allocation of a range, so that a refusal comes before any change. As
    /// in the kernel, the owners must have room for the whole range, its allocated parts included,
    /// and for the growth of the map by one extent.
    pub(super) fn quota_to_allocate(
        &self,
        journal: &Arc<Journal>,
        range: BlockRange,
    ) -> Result<QuotaReservation> {
        let overhead = map_blocks(journal.geometry(), ForkKind::Data);
        let range = range.aligned(self.freed_unit(journal.geometry()));
        let contents = self.contents_amount(journal.geometry(), range.length_blocks);
        let wanted = contents.checked_add(QuotaAmount::of_blocks(overhead));
        self.quota_of(journal, wanted.ok_or(PosixError::FileTooLarge)?)
    }

    /// Returns the holes in a range.
    fn holes(&self, journal: &Arc<Journal>, range: BlockRange) -> Result<Vec<BlockRange>> {
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
        let (mut next, mut holes) = (range.start, Vec::new());
        while next < range.end() {
            let mapping = map.find(next);
            let end = mapping.end().min(range.end());
            if matches!(mapping, Mapping::Hole { .. }) {
                holes.push(BlockRange::between(next, end));
            }
            next = end;
        }
        Ok(holes)
    }
}
