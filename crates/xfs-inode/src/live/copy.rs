//! Copy-on-write: writing to shared blocks.
//!
//! Owns: the copy that replaces shared blocks. Does **not** own the order of data and size in
//! writes to other blocks ([`write`](super::write)).
//!
//! The blocks of the copy are staged: until the file takes the blocks over, they are in the staging
//! domain of the reference counts, where recovery finds and frees them. For a file with an extent
//! size hint for copy-on-write, the whole unit around a small write is copied at once.

use std::sync::Arc;

use xfs_alloc::{
    BlockExtent, BlockPurpose, Section, SpaceRequest, allocate_extent, allocate_realtime,
    defer_free, defer_free_realtime, defer_stage, defer_unshare, defer_unstage,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::FileBlock;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_trans::{Journal, QuotaReservation};

use super::LiveInode;
use super::data::{self, FileBytes, clip};
use super::map::map_blocks;
use super::remap::{MapWork, defer_map_work};
use super::with_transaction::{
    with_allocation_transaction, with_pool_transaction, with_transaction,
};
use super::write::{CHUNK_BYTES, ContentsWriter, SizeRule, blocks_of};
use crate::edit::BlockRange;
use crate::extent_map::Mapping;

impl LiveInode {
    /// Returns the first part of an extent whose blocks are all shared or all unshared, and `true`
    /// if they are shared. Unshared blocks may be overwritten without a copy.
    pub(super) fn sharing(&self, journal: &Arc<Journal>, extent: Extent) -> Result<(bool, Extent)> {
        if !self.shares(ForkKind::Data) {
            return Ok((false, extent));
        }
        let run = match self.section(journal.geometry(), ForkKind::Data) {
            Section::Data => {
                xfs_alloc::overwritable_run(journal, extent.start, extent.length_blocks)?
            }
            Section::Realtime => {
                xfs_alloc::realtime_sharing_run(journal, extent.start, extent.length_blocks)?
            }
        };
        Ok((run.shared, Extent { length_blocks: run.length_blocks, ..extent }))
    }
}

impl ContentsWriter<'_> {
    /// Writes the first bytes of `piece` to a copy of shared blocks. `shared` starts at the first
    /// block of the piece or before it. Returns the number of bytes of the piece that were written.
    pub(super) fn write_copy(
        &mut self,
        shared: Extent,
        piece: FileBytes<'_>,
        size: SizeRule,
    ) -> Result<usize> {
        let written = blocks_of(self.journal.geometry(), piece.offset, piece.end());
        let mut wide = self.around(shared, piece)?;
        let mut copy = self.stage(&wide)?;
        if copy.end() <= written.start {
            // The longest free run is shorter than the blocks before the piece. A copy without them
            // needs one block.
            self.unstage(&copy)?;
            wide = exactly(written, &shared)?;
            copy = self.stage(&wide)?;
        }
        let old = Extent { length_blocks: copy.length_blocks, ..wide };
        let piece = clip(piece, &old, self.journal.geometry());
        assert!(!piece.bytes.is_empty(), "the copy has the first block of the piece");
        if let Err(error) = self.fill_copy(&old, &copy, piece) {
            // Recovery frees the copy if this fails.
            self.unstage(&copy)?;
            return Err(error);
        }
        self.take_over(&copy, size.end(piece))?;
        Ok(piece.bytes.len())
    }

    /// Replaces shared blocks with a copy that belongs to this file alone, at most `CHUNK_BYTES`
    /// bytes (but one block at least) per call. Returns the file block after the copied range.
    pub(super) fn copy_shared(&mut self, shared: &Extent) -> Result<FileBlock> {
        let geometry = self.journal.geometry();
        let most = (CHUNK_BYTES >> geometry.block_log).max(1) as u32;
        let shared = Extent { length_blocks: shared.length_blocks.min(most), ..*shared };
        let copy = self.stage(&shared)?;
        let old = Extent { length_blocks: copy.length_blocks, ..shared };
        if let Err(error) = self.fill_copy(&old, &copy, FileBytes { offset: 0, bytes: &[] }) {
            self.unstage(&copy)?;
            return Err(error);
        }
        self.take_over(&copy, None)?;
        Ok(copy.end())
    }

    /// Returns the shared blocks to copy for a write of `piece`: the whole unit of the file's
    /// extent size hint for copy-on-write, as far as it is shared. Without a hint, these are only
    /// the blocks of the piece.
    fn around(&self, shared: Extent, piece: FileBytes<'_>) -> Result<Extent> {
        let geometry = self.journal.geometry();
        let written = blocks_of(geometry, piece.offset, piece.end());
        let (hint, mapping) = {
            let inode = self.live.inode();
            let core = inode.core();
            let is_set = core.flags2.contains(InodeFlags2::COWEXTSIZE);
            let hint = if is_set { core.cow_extent_size_hint_blocks } else { 0 };
            (hint, inode.find(self.journal.cache(), ForkKind::Data, written.start)?)
        };
        let wanted = written.aligned(hint.into());
        let Mapping::Extent(extent) = mapping else { return exactly(written, &shared) };
        let Some(wide) = wanted.cut(&extent).filter(|_| hint > 1) else {
            return exactly(written, &shared);
        };
        match self.live.sharing(self.journal, wide)? {
            (true, wide) if wide.end() > written.start => Ok(wide),
            // Sharing begins between the start of the unit and the piece.
            _ => exactly(BlockRange::between(written.start, wanted.end()), &shared),
        }
    }

    /// Fills the blocks `copy`, which replace the shared blocks `old`. They get the bytes of the
    /// write where `piece` (the part of the write in these blocks) has bytes, and the contents of
    /// `old` elsewhere.
    fn fill_copy(&self, old: &Extent, copy: &Extent, piece: FileBytes<'_>) -> Result<()> {
        let (device, geometry) = (self.device()?, self.journal.geometry());
        let written = match piece.bytes.is_empty() {
            true => BlockRange { start: old.end(), length_blocks: 0 },
            false => blocks_of(geometry, piece.offset, piece.end()),
        };
        let all = BlockRange::of(old);
        for kept in [
            BlockRange::between(all.start, written.start),
            BlockRange::between(written.end(), all.end()),
        ] {
            data::copy(device, old, copy, kept)?;
        }
        data::write_whole_blocks(device, copy, piece, Some(old))
    }

    /// Allocates blocks for a copy of a shared extent, and stages them: they are marked as reserved
    /// for copy-on-write. The result may be shorter than the extent.
    #[doc(alias = "xfs_reflink_allocate_cow")]
    fn stage(&mut self, old: &Extent) -> Result<Extent> {
        let (live, journal) = (self.live, self.journal);
        let overhead = map_blocks(journal.geometry(), ForkKind::Data);
        let section = live.section(journal.geometry(), ForkKind::Data);
        let mut wanted = old.length_blocks;
        let share = self.quota_share(wanted.into());
        self.staged_quota = QuotaReservation::default();
        self.staged_quota = live.quota_for_share(journal, share)?;
        let near = old.start.checked_add(old.length_blocks.into());
        loop {
            let own = if section == Section::Realtime { 0 } else { u64::from(wanted) };
            let staged =
                with_allocation_transaction(journal, own + overhead, &mut self.reservation, |tx| {
                    let space = match section {
                        Section::Realtime => allocate_realtime(tx, near, wanted.into())?,
                        Section::Data => {
                            let fork = ForkKind::Data;
                            let place = live.allocation_target(tx.geometry(), fork, old.file_block);
                            allocate_extent(tx, &SpaceRequest::new(place, 1, wanted))?
                        }
                    };
                    let space = space.ok_or(PosixError::NoSpace)?;
                    let (start, length_blocks) = (space.start, space.length_blocks);
                    defer_stage(tx, section, space);
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

    /// Frees the staged blocks of a copy that was not used.
    fn unstage(&self, copy: &Extent) -> Result<()> {
        with_transaction(self.journal, TransactionKind::Write, 0, |tx| {
            let section = self.live.section(tx.geometry(), ForkKind::Data);
            defer_unstage(tx, section, blocks(copy));
            match section {
                Section::Data => defer_free(tx, blocks(copy), None, BlockPurpose::File),
                Section::Realtime => defer_free_realtime(tx, blocks(copy)),
            }
            Ok(())
        })
    }

    /// Replaces shared blocks of the file with the staged blocks of their copy, whose contents have
    /// been written. If `end` is given, the file then has at least this size; `None` leaves the
    /// size.
    #[doc(alias = "xfs_reflink_end_cow")]
    fn take_over(&mut self, copy: &Extent, end: Option<u64>) -> Result<()> {
        let (live, now) = (self.live, self.now);
        let reserved = 2 * map_blocks(self.journal.geometry(), ForkKind::Data);
        with_pool_transaction(self.journal, reserved, &mut self.reservation, |tx| {
            let mapping = live.find_joined(tx, ForkKind::Data, copy.file_block)?;
            let Mapping::Extent(old) = mapping else {
                return Err(PosixError::InvalidArgument.into());
            };
            let old = BlockRange::of(copy).cut(&old).ok_or(PosixError::InvalidArgument)?;
            assert!(old.length_blocks == copy.length_blocks, "the writer holds the file's lock");
            live.check_growth(ForkKind::Data, 2)?;
            defer_map_work(tx, MapWork::unmap(live, ForkKind::Data, &old));
            let section = live.section(tx.geometry(), ForkKind::Data);
            defer_unshare(tx, section, blocks(&old));
            defer_unstage(tx, section, blocks(copy));
            defer_map_work(tx, MapWork::map(live, ForkKind::Data, copy));
            live.wrote(tx, end, now);
            Ok(())
        })
    }
}

/// Returns the blocks of an extent, without its file offset.
pub(super) const fn blocks(extent: &Extent) -> BlockExtent {
    BlockExtent { start: extent.start, length_blocks: extent.length_blocks }
}

/// Returns the part of an extent with the blocks in `range`.
fn exactly(range: BlockRange, extent: &Extent) -> Result<Extent> {
    range.cut(extent).ok_or_else(|| PosixError::InvalidArgument.into())
}
