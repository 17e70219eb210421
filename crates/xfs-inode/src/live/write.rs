//! Writing the bytes of a file.
//!
//! Owns: the order of space, data and size. Does **not** own: joining small writes to large ones,
//! which is for who keeps files open, and the lock that keeps reads and writes of a file apart,
//! which the caller holds exclusively.
//!
//! # What a crash leaves
//!
//! | where the bytes go | steps | after a crash between them |
//! |---|---|---|
//! | a hole | allocate unwritten; data; convert, with the size | zeros, or nothing past the old end |
//! | a small hole | allocate; data; map, with the size, in the same transaction | a hole |
//! | unwritten blocks | data; convert, with the size | zeros |
//! | blocks of its own | data; size | old or new bytes, sector by sector |
//! | shared blocks | stage a copy; data; remap | the old bytes; the copy is freed at recovery |
//!
//! A transaction's record in the log is written behind a flush of the device. So what a conversion
//! or a remapping shows was durable before it.

use std::sync::Arc;

use xfs_alloc::{
    BlockExtent, Purpose, SpaceRequest, allocate_extent, defer_free, defer_stage, defer_unshare,
    defer_unstage,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT, MAX_EXTENT_BLOCKS};
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{BlockKind, FileBlock, Geometry};
use xfs_trans::{Journal, Transaction};

use super::data::{self, Piece, clip};
use super::map::{MapRequest, map_blocks};
use super::remap::{MapWork, defer_map_work};
use super::{Live, step};
use crate::edit::BlockRange;
use crate::extent_map::Mapping;

/// Zeros that are written at once.
const ZERO_BYTES: usize = 1 << 16;
/// Data that is written while its transaction waits, with the header of a group latched: more of it
/// is worth two transactions.
const SMALL_BYTES: u64 = 1 << 16;

impl Live {
    /// Writes `bytes` at byte `offset`, and returns how many were written: fewer only if space ran
    /// out behind them. They are durable after a force of the log; so is the size.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`], [`PosixError::FileTooLarge`]; [`PosixError::IsDirectory`] and
    /// [`PosixError::InvalidArgument`] for what is no regular file; the device's error.
    pub fn write_at(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<usize> {
        self.check_regular()?;
        check_end(journal.geometry(), offset, bytes.len() as u64)?;
        let size = self.inode().core().size;
        if offset > size && !bytes.is_empty() {
            self.zero_written(journal, size, offset, now)?;
        }
        let mut rest = Piece { offset, bytes };
        while !rest.bytes.is_empty() {
            let written = match self.write_piece(journal, rest, now) {
                Err(Error::Posix(PosixError::NoSpace)) if rest.offset != offset => break,
                written => written?,
            };
            rest = Piece {
                offset: rest.offset + written as u64,
                bytes: rest.bytes.get(written..).unwrap_or_default(),
            };
        }
        Ok((rest.offset - offset) as usize)
    }

    /// Writes the head of a piece, as far as one extent goes.
    pub(super) fn write_piece(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        piece: Piece<'_>,
        now: Timestamp,
    ) -> Result<usize> {
        let (cache, geometry) = (journal.cache(), journal.geometry());
        let range = blocks_of(geometry, piece.offset, piece.end());
        let mapping = self.inode().find(cache, ForkKind::Data, range.start)?;
        let extent = match mapping {
            Mapping::Extent(extent) => range.cut(&extent),
            Mapping::Hole { end, .. } => {
                let hole = BlockRange::between(range.start, end.min(range.end()));
                if hole.length_blocks <= small_blocks(geometry) {
                    match self.write_small(journal, hole, (piece, now)) {
                        // For a part of it there may be room.
                        Err(Error::Posix(PosixError::NoSpace)) if hole.length_blocks > 1 => {}
                        written => return written,
                    }
                }
                range.cut(&self.allocate_step(journal, hole)?)
            }
        };
        let extent = extent.ok_or(PosixError::InvalidArgument)?;
        if extent.unwritten {
            let piece = clip(piece, &extent, geometry);
            data::write_whole_blocks(cache, &extent, piece, None)?;
            self.show(journal, &extent, (piece.end(), now))?;
            return Ok(piece.bytes.len());
        }
        let (shared, extent) = self.sharing(journal, extent)?;
        if shared {
            return self.write_copy(journal, extent, piece, now);
        }
        let piece = clip(piece, &extent, geometry);
        data::write(cache, &extent, piece)?;
        step::run(journal, TransactionKind::ChangeInode, 0, |tx| {
            self.grow_size(tx, piece.end(), now);
            Ok(())
        })?;
        Ok(piece.bytes.len())
    }

    /// Allocates the head of a small hole and writes its data in one transaction, which is ended
    /// only then: no log record can show the blocks before a flush that follows the data.
    fn write_small(
        &self,
        journal: &Arc<Journal>,
        hole: BlockRange,
        (piece, now): (Piece<'_>, Timestamp),
    ) -> Result<usize> {
        let blocks = hole.length_blocks + map_blocks(journal.geometry(), ForkKind::Data);
        let (written, length) = step::run_allocation(journal, blocks, |tx| {
            let extent = self.take_space(tx, ForkKind::Data, hole)?;
            let piece = clip(piece, &extent, tx.geometry());
            let written = data::write_whole_blocks(tx.cache(), &extent, piece, None);
            // What cannot be written reads as zeros.
            let unwritten = written.is_err();
            self.put_extent(tx, ForkKind::Data, &Extent { unwritten, ..extent })?;
            if !unwritten {
                self.grow_size(tx, piece.end(), now);
            }
            Ok((written, piece.bytes.len()))
        })?;
        written.map(|()| length)
    }

    /// Allocates the head of a hole, unwritten.
    pub(super) fn allocate_step(&self, journal: &Arc<Journal>, hole: BlockRange) -> Result<Extent> {
        let overhead = map_blocks(journal.geometry(), ForkKind::Data);
        let mut wanted = hole.length_blocks.min(MAX_EXTENT_BLOCKS.into());
        loop {
            let blocks = wanted + overhead;
            let range = BlockRange { length_blocks: wanted, ..hole };
            let request = MapRequest { fork: ForkKind::Data, range, unwritten: true };
            match step::run_allocation(journal, blocks, |tx| self.map(tx, &request)) {
                // A volume that is nearly full has room for a part of it.
                Err(Error::Posix(PosixError::NoSpace)) if wanted > 1 && !journal.is_shut_down() => {
                    wanted /= 2;
                }
                mapped => return mapped,
            }
        }
    }

    /// Lets the data of an unwritten extent be read: it has been written up to byte `end`.
    fn show(
        &self,
        journal: &Arc<Journal>,
        extent: &Extent,
        (end, now): (u64, Timestamp),
    ) -> Result<()> {
        let blocks = map_blocks(journal.geometry(), ForkKind::Data);
        let range = BlockRange::of(extent);
        step::run_from_pool(journal, blocks, |tx| {
            self.convert(tx, range, false)?;
            self.grow_size(tx, end, now);
            Ok(())
        })
    }

    /// The size is at least `end`; the contents have changed.
    fn grow_size(&self, tx: &mut Transaction<'_>, end: u64, now: Timestamp) {
        self.change(tx, |core| core.size = core.size.max(end));
        self.touch(tx, now);
    }

    /// Whether the head of an extent is shared, and how much of it.
    pub(super) fn sharing(&self, journal: &Arc<Journal>, extent: Extent) -> Result<(bool, Extent)> {
        if !self.shares(ForkKind::Data) {
            return Ok((false, extent));
        }
        let (cache, geometry) = (journal.cache(), journal.geometry());
        let Some((group, _)) = geometry.split_block(extent.start) else {
            return Err(PosixError::InvalidArgument.into());
        };
        let at = geometry.header_disk_addr(group, 1);
        let header = cache.read(at, geometry.sector_size, BlockKind::Agf)?;
        // Nobody changes the counts of the group while its header is latched.
        header.latch();
        let run = xfs_alloc::sharing_run(cache, extent.start, extent.length_blocks);
        header.unlatch();
        let run = run?;
        Ok((run.shared, Extent { length_blocks: run.length_blocks, ..extent }))
    }

    /// Writes the head of a piece to a copy of shared blocks.
    fn write_copy(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        old: Extent,
        piece: Piece<'_>,
        now: Timestamp,
    ) -> Result<usize> {
        let copy = self.stage(journal, &old)?;
        let old = Extent { length_blocks: copy.length_blocks, ..old };
        let piece = clip(piece, &old, journal.geometry());
        if let Err(error) = data::write_whole_blocks(journal.cache(), &copy, piece, Some(&old)) {
            // What cannot be given back now is found at the next recovery.
            self.unstage(journal, &copy)?;
            return Err(error);
        }
        self.take_over(journal, &copy, (piece.end(), now))?;
        Ok(piece.bytes.len())
    }

    /// Allocates blocks for a copy of the head of a shared extent. Until the file takes them over
    /// they are in the staging domain of the reference counts, where recovery finds them.
    #[doc(alias = "xfs_reflink_allocate_cow")]
    pub(super) fn stage(&self, journal: &Arc<Journal>, old: &Extent) -> Result<Extent> {
        let overhead = map_blocks(journal.geometry(), ForkKind::Data);
        let mut wanted = old.length_blocks;
        loop {
            let blocks = u64::from(wanted) + overhead;
            let staged = step::run_allocation(journal, blocks, |tx| {
                let place = self.place_for(tx.geometry(), ForkKind::Data, old.file_block);
                let request = SpaceRequest::new(place, 1, wanted);
                let space = allocate_extent(tx, &request)?.ok_or(PosixError::NoSpace)?;
                let (start, length_blocks) = (space.start, space.length_blocks);
                defer_stage(tx, space);
                Ok(Extent { start, length_blocks, ..*old })
            });
            match staged {
                Err(Error::Posix(PosixError::NoSpace)) if wanted > 1 && !journal.is_shut_down() => {
                    wanted /= 2;
                }
                staged => return staged,
            }
        }
    }

    /// Gives staged blocks back.
    fn unstage(&self, journal: &Arc<Journal>, copy: &Extent) -> Result<()> {
        step::run(journal, TransactionKind::Write, 0, |tx| {
            let (start, length_blocks) = (copy.start, copy.length_blocks);
            defer_unstage(tx, BlockExtent { start, length_blocks });
            defer_free(tx, BlockExtent { start, length_blocks }, None, Purpose::File);
            Ok(())
        })
    }

    /// Puts staged blocks, which have been written, into the place of shared ones.
    #[doc(alias = "xfs_reflink_end_cow")]
    pub(super) fn take_over(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        copy: &Extent,
        (end, now): (u64, Timestamp),
    ) -> Result<()> {
        let blocks = 2 * map_blocks(journal.geometry(), ForkKind::Data);
        step::run_from_pool(journal, blocks, |tx| {
            let mapping = self.find_joined(tx, ForkKind::Data, copy.file_block)?;
            let Mapping::Extent(old) = mapping else {
                return Err(PosixError::InvalidArgument.into());
            };
            let old = BlockRange::of(copy).cut(&old).ok_or(PosixError::InvalidArgument)?;
            assert!(old.length_blocks == copy.length_blocks, "the writer holds the file's lock");
            self.check_growth(ForkKind::Data, 2)?;
            let copied = BlockExtent { start: copy.start, length_blocks: copy.length_blocks };
            let replaced = BlockExtent { start: old.start, length_blocks: old.length_blocks };
            defer_map_work(tx, MapWork::unmap(self, ForkKind::Data, &old));
            defer_unshare(tx, replaced);
            defer_unstage(tx, copied);
            defer_map_work(tx, MapWork::map(self, ForkKind::Data, copy));
            self.grow_size(tx, end, now);
            Ok(())
        })
    }

    /// Writes zeros over what is written from byte `from` to byte `to`. The size stays.
    pub(super) fn zero_written(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        from: u64,
        to: u64,
        now: Timestamp,
    ) -> Result<()> {
        let zeros = vec![0; ZERO_BYTES];
        let geometry = journal.geometry();
        let mut at = from;
        while at < to {
            let mapping =
                self.inode().find(journal.cache(), ForkKind::Data, geometry.file_block(at))?;
            let end = geometry.blocks_to_bytes(mapping.end().0).unwrap_or(u64::MAX).min(to);
            if !mapping.is_written() {
                at = end;
                continue;
            }
            let length = usize::try_from(end - at).map_or(ZERO_BYTES, |all| all.min(ZERO_BYTES));
            let bytes = zeros.get(..length).unwrap_or(&zeros);
            at += self.overwrite(journal, Piece { offset: at, bytes }, now)? as u64;
        }
        Ok(())
    }

    /// Writes over written blocks, without a change of the size. Returns how far it got.
    fn overwrite(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        piece: Piece<'_>,
        now: Timestamp,
    ) -> Result<usize> {
        let (cache, geometry) = (journal.cache(), journal.geometry());
        let range = blocks_of(geometry, piece.offset, piece.end());
        let mapping = self.inode().find(cache, ForkKind::Data, range.start)?;
        let Mapping::Extent(extent) = mapping else {
            return Err(PosixError::InvalidArgument.into());
        };
        let extent = range.cut(&extent).ok_or(PosixError::InvalidArgument)?;
        let (shared, extent) = self.sharing(journal, extent)?;
        if !shared {
            let piece = clip(piece, &extent, geometry);
            data::write(cache, &extent, piece)?;
            return Ok(piece.bytes.len());
        }
        let copy = self.stage(journal, &extent)?;
        let old = Extent { length_blocks: copy.length_blocks, ..extent };
        let piece = clip(piece, &old, geometry);
        if let Err(error) = data::write_whole_blocks(cache, &copy, piece, Some(&old)) {
            self.unstage(journal, &copy)?;
            return Err(error);
        }
        self.take_over(journal, &copy, (0, now))?;
        Ok(piece.bytes.len())
    }

    /// Copies shared blocks to blocks of their own: what `extent` holds stays.
    pub(super) fn copy_shared(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        extent: &Extent,
        now: Timestamp,
    ) -> Result<FileBlock> {
        let (cache, geometry) = (journal.cache(), journal.geometry());
        let longest = (ZERO_BYTES >> geometry.block_log).max(1) as u32;
        let wanted = Extent { length_blocks: extent.length_blocks.min(longest), ..*extent };
        let copy = self.stage(journal, &wanted)?;
        let old = Extent { length_blocks: copy.length_blocks, ..wanted };
        let mut bytes = vec![0; (copy.length_blocks as usize) << geometry.block_log];
        let offset = geometry.blocks_to_bytes(copy.file_block.0).unwrap_or(u64::MAX);
        let copied = data::read(cache, &old, offset, &mut bytes)
            .and_then(|()| data::write(cache, &copy, Piece { offset, bytes: &bytes }));
        if let Err(error) = copied {
            self.unstage(journal, &copy)?;
            return Err(error);
        }
        self.take_over(journal, &copy, (0, now))?;
        Ok(copy.end())
    }
}

/// Blocks of a small write; at least one.
fn small_blocks(geometry: &Geometry) -> u64 {
    (SMALL_BYTES >> geometry.block_log).max(1)
}

/// Blocks that hold the bytes from `start` to before `end`.
pub(super) fn blocks_of(geometry: &Geometry, start: u64, end: u64) -> BlockRange {
    let last = geometry.file_block(end.saturating_sub(1));
    BlockRange::between(geometry.file_block(start), FileBlock(last.0.saturating_add(1)))
}

/// Refuses bytes past the end of what a file can have.
pub(super) fn check_end(geometry: &Geometry, offset: u64, length: u64) -> Result<()> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    let fits = end.is_some_and(|end| geometry.file_block(end).0 < FILE_BLOCK_LIMIT);
    if fits { Ok(()) } else { Err(PosixError::FileTooLarge.into()) }
}
