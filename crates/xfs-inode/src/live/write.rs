//! Writing the bytes of a file.
//!
//! Owns: the order in which space, data and size change. Does **not** own joining small writes to
//! large ones (the layer that keeps files open does), the lock that keeps reads and writes of a
//! file apart (the caller holds it exclusively), or copies of shared blocks
//! ([`copy`](super::copy)).
//!
//! # What a crash leaves
//!
//! | target of the bytes | steps | after a crash between them |
//! |---|---|---|
//! | a hole | allocate unwritten; data; convert, with size | zeros, or nothing past the old end |
//! | a small hole | allocate; data; map, with the size, in the same transaction | a hole |
//! | unwritten blocks | data; convert, with the size | zeros |
//! | blocks of its own | data; size | old or new bytes, sector by sector |
//! | shared blocks | stage a copy; data; remap | the old bytes; the copy is freed at recovery |
//! | a file in zones | data in new blocks; map | old or new bytes, block by block |
//!
//! [`zones`](super::zones) has the writes to zones.
//!
//! A transaction's record in the log is written after a flush of the device. So the data that a
//! conversion or a remapping makes visible was durable before that record.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT, MAX_EXTENT_BLOCKS};
use xfs_format::inode::{ForkKind, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FileBlock, Geometry};
use xfs_trans::{BlockReservation, Journal, QuotaAmount, QuotaReservation, Transaction};

use super::data::{self, ContentsDevice, FileBytes, clip};
use super::map::{MapRequest, map_blocks};
use super::quota::QuotaShare;
use super::with_transaction::{
    with_allocation_transaction, with_pool_transaction, with_transaction,
};
use super::{LiveInode, Touched};
use crate::edit::BlockRange;
use crate::extent_map::Mapping;
use crate::map_counts::{MapCounts, MapUse};

/// Number of bytes that are zeroed or copied at once.
pub(super) const CHUNK_BYTES: usize = 1 << 16;
/// The largest size of a small hole, in bytes. Data for a small hole is written during the
/// transaction that allocates the blocks, while the header of a group is latched. Data for a larger
/// hole is written between two transactions.
const SMALL_BYTES: u64 = 1 << 16;

/// The options of a write.
#[derive(Debug)]
pub struct WriteOptions {
    /// The new modification time of the file.
    pub now: Timestamp,
    /// Blocks that were reserved for the write. Those that the write does not use are released.
    pub reservation: BlockReservation,
    /// Number of blocks to allocate past the written range, because more data will be written there
    /// soon. They are allocated only at the end of the file, and only if there is room.
    pub ahead_blocks: u64,
    /// Quota that was reserved when the bytes were buffered in memory. `None` if no quota was
    /// reserved: the write may then be refused for lack of quota.
    pub quota: Option<QuotaReservation>,
}

impl WriteOptions {
    /// Returns options that set only the modification time: no blocks are reserved, and no blocks
    /// past the written range are allocated.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, reservation: BlockReservation::default(), ahead_blocks: 0, quota: None }
    }
}

/// Whether the write may increase the size of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeRule {
    Grows,
    Stays,
}

impl SizeRule {
    /// Returns the size that the file must at least have once `piece` is written: the end of the
    /// piece. Returns `None` if the write must not change the size.
    pub(super) fn end(self, piece: FileBytes<'_>) -> Option<u64> {
        (self == Self::Grows).then_some(piece.end())
    }
}

/// The state of a write in progress.
pub(super) struct ContentsWriter<'a> {
    pub(super) live: &'a Arc<LiveInode>,
    pub(super) journal: &'a Arc<Journal>,
    pub(super) now: Timestamp,
    pub(super) reservation: BlockReservation,
    ahead_blocks: u64,
    quota: Option<QuotaReservation>,
    /// Quota that is reserved for copies of shared blocks, until the write ends. The file is not
    /// charged for a copy before it gives up the shared blocks.
    pub(super) staged_quota: QuotaReservation,
}

impl Drop for ContentsWriter<'_> {
    fn drop(&mut self) {
        self.journal.release_blocks(core::mem::take(&mut self.reservation));
    }
}

impl LiveInode {
    /// Writes `bytes` at file offset `offset`, and returns the number of bytes written. It is less
    /// than requested only if the volume ran out of space. The bytes and the size are durable after
    /// a force of the log.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`], [`PosixError::FileTooLarge`]; [`PosixError::IsDirectory`] and
    /// [`PosixError::InvalidArgument`] if this is not a regular file; the device's error.
    pub fn write_at(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<usize> {
        self.write_with(journal, offset, bytes, WriteOptions::at(now))
    }

    /// Writes as [`write_at`](Self::write_at) does. The options `terms` give the time, the reserved
    /// blocks, and the number of blocks to allocate past the written range.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    pub fn write_with(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        offset: u64,
        bytes: &[u8],
        terms: WriteOptions,
    ) -> Result<usize> {
        let mut writer = self.writer(journal, terms);
        self.check_write(journal, offset, bytes.len() as u64)?;
        let size = self.inode().core().size;
        if offset > size && !bytes.is_empty() {
            writer.zero(size, offset)?;
        }
        let mut rest = FileBytes { offset, bytes };
        while !rest.bytes.is_empty() {
            let written = match writer.write(rest, SizeRule::Grows) {
                Err(Error::Posix(PosixError::NoSpace | PosixError::QuotaExceeded))
                    if rest.offset != offset =>
                {
                    break;
                }
                written => written?,
            };
            rest = FileBytes {
                offset: rest.offset + written as u64,
                bytes: rest.bytes.split_at(written).1,
            };
        }
        Ok((rest.offset - offset) as usize)
    }

    /// Zeroes the bytes from file offset `from` up to `to` that lie in written extents. The size of
    /// the file stays.
    pub(super) fn zero_written(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        from: u64,
        to: u64,
        now: Timestamp,
    ) -> Result<()> {
        self.writer(journal, WriteOptions::at(now)).zero(from, to)
    }

    pub(super) fn writer<'a>(
        self: &'a Arc<Self>,
        journal: &'a Arc<Journal>,
        WriteOptions { now, reservation, ahead_blocks, quota }: WriteOptions,
    ) -> ContentsWriter<'a> {
        let staged_quota = QuotaReservation::default();
        ContentsWriter { live: self, journal, now, reservation, ahead_blocks, quota, staged_quota }
    }

    /// Checks that a write of `length` bytes at `offset` is possible on this file at all.
    ///
    /// # Errors
    ///
    /// [`PosixError::FileTooLarge`], [`PosixError::IsDirectory`], [`PosixError::InvalidArgument`].
    pub fn check_write(&self, journal: &Journal, offset: u64, length: u64) -> Result<()> {
        self.check_regular(journal.geometry())?;
        check_end(journal.geometry(), offset, length)
    }

    /// Returns the number of blocks that a write to a range may have to allocate: one for each
    /// block of a hole, and one for each block that may be shared.
    ///
    /// # Errors
    ///
    /// The errors of loading the extent map.
    pub fn blocks_to_write(&self, journal: &Journal, range: BlockRange) -> Result<u64> {
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
        let shares = inode.core().flags2.contains(InodeFlags2::REFLINK);
        let (mut next, mut blocks) = (range.start, 0);
        while next < range.end() {
            let mapping = map.find(next);
            let end = mapping.end().min(range.end());
            let is_taken =
                matches!(mapping, Mapping::Extent(extent) if extent.unwritten || !shares);
            if !is_taken {
                blocks += end.0 - next.0;
            }
            next = end;
        }
        Ok(blocks)
    }

    /// Updates the times and the size after the contents have changed. If `end` is given, the file
    /// then has at least this size; `None` leaves the size.
    pub(super) fn wrote(&self, tx: &mut Transaction<'_>, end: Option<u64>, now: Timestamp) {
        tx.join(&self.log_item);
        let grows = end.is_some_and(|end| end > self.inode().core().size);
        let touched = if grows { Touched::Core } else { Touched::Times };
        self.update(tx, touched, |inode| {
            let core = inode.core_mut();
            core.size = core.size.max(end.unwrap_or(0));
            core.modify_time = now;
            // Buffered bytes may arrive after a later change of the inode.
            core.change_time = core.change_time.max(now);
        });
    }
}

impl<'a> ContentsWriter<'a> {
    /// Writes the first bytes of `piece`, up to the end of the extent in which they lie. Returns
    /// the number of bytes written.
    pub(super) fn write(&mut self, piece: FileBytes<'_>, size: SizeRule) -> Result<usize> {
        if self.live.is_in_zones(self.journal) {
            return self.write_in_zones(piece, size);
        }
        let geometry = self.journal.geometry();
        let range = blocks_of(geometry, piece.offset, piece.end());
        if let Mapping::Hole { end, .. } = self.find(range.start)? {
            let hole = BlockRange::between(range.start, end.min(range.end()));
            if self.is_small(hole) {
                match self.write_small(hole, piece) {
                    // There may be room for a part of the hole.
                    Err(Error::Posix(PosixError::NoSpace)) if hole.length_blocks > 1 => {}
                    written => return written,
                }
            }
        }
        let extent = self.mapped(range)?;
        if extent.unwritten {
            let piece = clip(piece, &extent, geometry);
            data::write_whole_blocks(self.device()?, &extent, piece, None)?;
            self.show(&extent, size.end(piece))?;
            return Ok(piece.bytes.len());
        }
        let (is_shared, extent) = self.live.sharing(self.journal, extent)?;
        if is_shared {
            return self.write_copy(extent, piece, size);
        }
        let piece = clip(piece, &extent, geometry);
        data::write(self.device()?, &extent, piece)?;
        if size == SizeRule::Grows {
            with_transaction(self.journal, TransactionKind::ChangeInode, 0, |tx| {
                self.live.wrote(tx, Some(piece.end()), self.now);
                Ok(())
            })?;
        }
        Ok(piece.bytes.len())
    }

    /// Gives the writer a quota reservation for everything that it allocates. From now on the write
    /// is never refused for lack of quota.
    pub(super) fn accept(&mut self, quota: QuotaReservation) {
        self.quota = Some(quota);
    }

    /// Returns the quota for an allocation of `blocks` blocks. If quota was reserved when the bytes
    /// were buffered, takes it from that reservation, and never asks for more. Buffered bytes must
    /// not be refused, even if more blocks are allocated than were expected.
    pub(super) fn quota_share(&mut self, blocks: u64) -> QuotaShare {
        let amount = self.live.contents_amount(self.journal.geometry(), blocks);
        match &mut self.quota {
            Some(quota) => {
                QuotaShare { accepted: quota.draw(amount), missing: QuotaAmount::default() }
            }
            None => QuotaShare { accepted: QuotaReservation::default(), missing: amount },
        }
    }

    /// Returns the device of the file's contents.
    pub(super) fn device(&self) -> Result<ContentsDevice<'a>> {
        ContentsDevice::of(self.live, self.journal.cache())
    }

    fn is_realtime(&self) -> bool {
        self.live.is_realtime(self.journal.geometry())
    }

    fn find(&self, block: FileBlock) -> Result<Mapping> {
        self.live.inode().find(self.journal.cache(), ForkKind::Data, block)
    }

    /// Returns the mapping of the first blocks of a range, cut to the range. If the range starts
    /// with a hole, allocates blocks for it first.
    fn mapped(&mut self, range: BlockRange) -> Result<Extent> {
        loop {
            match self.find(range.start)? {
                Mapping::Extent(extent) => {
                    return range.cut(&extent).ok_or_else(|| PosixError::InvalidArgument.into());
                }
                Mapping::Hole { start, end } => {
                    let hole = BlockRange::between(start, end);
                    let wanted = BlockRange::between(range.start, end.min(range.end()));
                    self.allocate(wanted, hole)?;
                }
            }
        }
    }

    /// Whether a hole is small enough for a single transaction, which allocates blocks, waits for
    /// the write of the data, and maps the blocks.
    fn is_small(&self, hole: BlockRange) -> bool {
        let most = (SMALL_BYTES >> self.journal.geometry().block_log).max(1);
        let unit = self.live.allocation_unit(self.journal.geometry());
        hole.length_blocks <= most && self.ahead_blocks == 0 && unit == 0 && !self.is_realtime()
    }

    /// Fills a small hole from its start on, as far as one new extent and `piece` reach. Returns
    /// the number of bytes written.
    ///
    /// One transaction allocates the blocks, writes the data, maps the blocks, and only then
    /// commits. The log flushes the device before it writes the record of the commit. So after a
    /// crash, the blocks are mapped only if their data is durable.
    fn write_small(&mut self, hole: BlockRange, piece: FileBytes<'_>) -> Result<usize> {
        let (live, now, device) = (self.live, self.now, self.device()?);
        let blocks = hole.length_blocks + map_blocks(self.journal.geometry(), ForkKind::Data);
        let share = self.quota_share(hole.length_blocks);
        let reservation = &mut self.reservation;
        let (written, length) =
            with_allocation_transaction(self.journal, blocks, reservation, |tx| {
                live.reserve_quota(tx, share)?;
                MapCounts::of(tx.journal()).note(MapUse::Write);
                let extent = live.take_space(tx, ForkKind::Data, hole)?;
                let piece = clip(piece, &extent, tx.geometry());
                let written = data::write_whole_blocks(device, &extent, piece, None);
                // Blocks that could not be written read as zeros.
                let unwritten = written.is_err();
                live.put_extent(tx, ForkKind::Data, &Extent { unwritten, ..extent })?;
                if !unwritten {
                    live.wrote(tx, Some(piece.end()), now);
                }
                Ok((written, piece.bytes.len()))
            })?;
        written.map(|()| length)
    }

    /// Allocates blocks in a hole as unwritten extents, from the start of `wanted` on. With an
    /// extent size hint, the allocation may start before `wanted`.
    fn allocate(&mut self, wanted: BlockRange, hole: BlockRange) -> Result<()> {
        let mut range = self.stretched(wanted, hole);
        let overhead = map_blocks(self.journal.geometry(), ForkKind::Data);
        let unit = self.live.freed_unit(self.journal.geometry());
        loop {
            let request = MapRequest { fork: ForkKind::Data, range, unwritten: true };
            // Realtime extents are not taken from the free blocks of the data device.
            let own = if self.is_realtime() { 0 } else { range.length_blocks };
            let share = self.quota_share(range.aligned(unit).length_blocks);
            let (blocks, reservation) = (own + overhead, &mut self.reservation);
            let mapped = with_allocation_transaction(self.journal, blocks, reservation, |tx| {
                self.live.reserve_quota(tx, share)?;
                self.live.map(tx, &request)
            });
            range = match mapped {
                // A nearly full volume may have room for the wanted range, or for half of it.
                // A refusal by quota gives up only what was not asked for.
                Err(Error::Posix(PosixError::QuotaExceeded))
                    if range.length_blocks > wanted.length_blocks =>
                {
                    wanted
                }
                Err(Error::Posix(PosixError::NoSpace))
                    if range.length_blocks > 1 && !self.journal.is_shut_down() =>
                {
                    let half = BlockRange { length_blocks: range.length_blocks / 2, ..wanted };
                    if range.length_blocks > wanted.length_blocks { wanted } else { half }
                }
                mapped => return mapped.map(drop),
            };
        }
    }

    /// Extends a range to be allocated: to whole units of the file's extent size hint, and by the
    /// blocks to allocate ahead. The result does not leave the hole.
    fn stretched(&self, wanted: BlockRange, hole: BlockRange) -> BlockRange {
        let mut range = wanted.aligned(self.live.allocation_unit(self.journal.geometry()).into());
        if hole.end().0 >= FILE_BLOCK_LIMIT {
            range.length_blocks = range.length_blocks.saturating_add(self.ahead_blocks);
        }
        let (start, end) = (range.start.max(hole.start), range.end().min(hole.end()));
        let range = BlockRange::between(start, end);
        BlockRange { length_blocks: range.length_blocks.min(MAX_EXTENT_BLOCKS.into()), ..range }
    }

    /// Converts an unwritten extent, whose data has been written, to a written one. If `end` is
    /// given, the file then has at least this size; `None` leaves the size.
    fn show(&mut self, extent: &Extent, end: Option<u64>) -> Result<()> {
        let (live, now) = (self.live, self.now);
        let blocks = map_blocks(self.journal.geometry(), ForkKind::Data);
        with_pool_transaction(self.journal, blocks, &mut self.reservation, |tx| {
            live.convert(tx, BlockRange::of(extent), false)?;
            live.wrote(tx, end, now);
            Ok(())
        })
    }

    /// Allocates all holes of a range as unwritten extents.
    pub(super) fn fill_holes(&mut self, range: BlockRange) -> Result<()> {
        let mut next = range.start;
        while next < range.end() {
            next = self.mapped(BlockRange::between(next, range.end()))?.end();
        }
        Ok(())
    }

    /// Zeroes the bytes from file offset `from` up to `to` that lie in written extents. The size of
    /// the file stays.
    pub(super) fn zero(&mut self, from: u64, to: u64) -> Result<()> {
        let zeros = [0; CHUNK_BYTES];
        let geometry = self.journal.geometry();
        let mut at = from;
        while at < to {
            let mapping = self.find(geometry.file_block(at))?;
            let end = geometry.blocks_to_bytes(mapping.end().0).unwrap_or(u64::MAX).min(to);
            if !mapping.is_written() {
                at = end;
                continue;
            }
            // A piece must not end inside a sector: a crash between two writes would leave the
            // sector half old.
            let room = CHUNK_BYTES - at as usize % CHUNK_BYTES;
            let length = usize::try_from(end - at).map_or(room, |all| all.min(room));
            let (bytes, _) = zeros.split_at(length);
            at += self.write(FileBytes { offset: at, bytes }, SizeRule::Stays)? as u64;
        }
        Ok(())
    }
}

/// Returns the file blocks that contain the bytes from offset `start` up to `end`.
pub(super) fn blocks_of(geometry: &Geometry, start: u64, end: u64) -> BlockRange {
    let last = geometry.file_block(end.saturating_sub(1));
    BlockRange::between(geometry.file_block(start), FileBlock(last.0.saturating_add(1)))
}

/// Returns an error if `length` bytes from `offset` on would go past the limit of file sizes.
pub(super) fn check_end(geometry: &Geometry, offset: u64, length: u64) -> Result<()> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    let fits = end.is_some_and(|end| geometry.file_block(end).0 < FILE_BLOCK_LIMIT);
    if fits { Ok(()) } else { Err(PosixError::FileTooLarge.into()) }
}
