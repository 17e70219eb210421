//! Changes of whole ranges of a file: truncation, holes, zeros.
//!
//! Owns: the chains of transactions. Does **not** own: permission, or the lock that keeps them apart
//! from reads and writes of the file, which the caller holds exclusively.
//!
//! # What a crash leaves
//!
//! Truncation: the new size, and blocks past it that the next truncation or the file's end frees.
//! All others, [setting aside](super::allocate) too: a part of the range is done, and the rest is as
//! before. Bytes at the edges of a range, in blocks that stay, are zeros before anything else happens.

use core::ops::Range;
use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};
use xfs_format::inode::{ForkKind, InodeCore, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FileBlock, Geometry};
use xfs_trans::{Journal, Transaction};

use super::LiveInode;
use super::map::map_blocks;
use super::with_transaction::with_transaction;
use super::write::{WriteOptions, blocks_of, check_end};
use crate::edit::BlockRange;

/// Whether the size of a file may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepSize {
    /// The size stays, and blocks past it are kept for later.
    #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
    Yes,
    /// The size is at least the end of the range afterwards.
    No,
}

impl LiveInode {
    /// Makes the file `size` bytes long. What is behind is freed; what is new reads as zeros.
    ///
    /// # Errors
    ///
    /// [`PosixError::FileTooLarge`]; [`PosixError::NoSpace`] where a shared block must be copied; as
    /// [`write_at`](Self::write_at).
    #[doc(alias = "xfs_setattr_size")]
    pub fn truncate(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        size: u64,
        now: Timestamp,
    ) -> Result<()> {
        self.check_regular()?;
        check_end(journal.geometry(), size, 0)?;
        let old = self.inode().core().size;
        let block = u64::from(journal.geometry().block_size);
        // The rest of the block at the end would show again when the file grows.
        let edge = size.min(old);
        let zero_end = if size > old { size } else { edge.next_multiple_of(block).min(old) };
        self.zero_written(journal, edge, zero_end.max(edge), now)?;
        if size > old {
            return self.change_alone(journal, now, |core| core.size = size);
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            self.change(tx, |core| core.size = size);
            self.touch(tx, now);
            let first = FileBlock(size.div_ceil(block));
            self.unmap_all(tx, ForkKind::Data, BlockRange::between(first, LIMIT))?;
            // What has no blocks shares none.
            if self.shares(ForkKind::Data) && !self.reaches(0) {
                self.change(tx, |core| core.flags2.remove(InodeFlags2::REFLINK));
            }
            Ok(())
        })
    }

    /// Whether something is mapped from a block of the file on. So it is said of a map that was not
    /// loaded yet.
    #[must_use]
    pub fn reaches(&self, block: u64) -> bool {
        let inode = self.inode();
        let Some(map) = inode.fork(ForkKind::Data).loaded_map() else { return true };
        map.last_before(LIMIT).is_some_and(|last| last.end().0 > block)
    }

    /// Whether blocks are mapped past the end that [`trim`](Self::trim) would free.
    #[must_use]
    pub fn ends_past_size(&self, geometry: &Geometry) -> bool {
        let (size, flags) = {
            let inode = self.inode();
            (inode.core().size, inode.core().flags)
        };
        // Space that was asked for stays, and what is only added to will need it.
        let keeps = flags.intersects(InodeFlags::PREALLOC | InodeFlags::APPEND);
        !keeps && self.reaches(size.div_ceil(geometry.block_size.into()))
    }

    /// Frees the blocks past the end of the file, unless they were asked for.
    ///
    /// # Errors
    ///
    /// What stopped the log; what the volume holds may be corrupt.
    #[doc(alias = "xfs_free_eofblocks")]
    pub fn trim(&self, journal: &Arc<Journal>) -> Result<()> {
        self.load_map(journal.cache(), ForkKind::Data)?;
        if !self.ends_past_size(journal.geometry()) {
            return Ok(());
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            let size = self.inode().core().size;
            let first = FileBlock(size.div_ceil(journal.geometry().block_size.into()));
            self.unmap_all(tx, ForkKind::Data, BlockRange::between(first, LIMIT))
        })
    }

    /// Unmaps a range in one chain of steps. Only for ranges to whose end nothing else is mapped, or
    /// whose extents end in them: an extent that is cut in two may need blocks for the map.
    #[doc(alias = "xfs_itruncate_extents")]
    pub(super) fn unmap_all(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        range: BlockRange,
    ) -> Result<()> {
        let mut rest = Some(range);
        while let Some(range) = rest {
            rest = self.unmap(tx, fork, range)?;
            tx.finish_deferred()?;
        }
        Ok(())
    }

    /// Makes a hole of a range: whole blocks are freed, the rest of it is zeros. The size stays.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    #[doc(alias = "xfs_free_file_space")]
    pub fn punch(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        self.check_regular()?;
        check_end(journal.geometry(), range.end, 0)?;
        let whole = whole_blocks(journal.geometry(), &range);
        self.zero_edges(journal, &range, whole, now)?;
        self.free_range(journal, whole)?;
        self.change_alone(journal, now, |_| ())
    }

    /// Lets a range read as zeros, on blocks of its own, unwritten where whole.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
    pub fn zero(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        self.check_regular()?;
        check_end(journal.geometry(), range.end, 0)?;
        let whole = whole_blocks(journal.geometry(), &range);
        self.zero_edges(journal, &range, whole, now)?;
        self.free_range(journal, whole)?;
        self.allocate(journal, range, keep_size, now)
    }

    /// Gives a range blocks of its own, where it shares them with others.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    #[doc(alias = "xfs_reflink_unshare")]
    pub fn unshare(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        self.check_regular()?;
        check_end(journal.geometry(), range.end, 0)?;
        let blocks = blocks_of(journal.geometry(), range.start, range.end);
        let mut writer = self.writer(journal, WriteOptions::at(now));
        let mut rest = blocks;
        while let Some(shared) = self.first_shared(journal, rest)? {
            rest = BlockRange::between(writer.copy_shared(&shared)?, blocks.end());
        }
        self.forget_sharing(journal)
    }

    /// The first blocks of a range that have other owners too, as far as they go on.
    fn first_shared(&self, journal: &Journal, range: BlockRange) -> Result<Option<Extent>> {
        let mut rest = range;
        while !rest.is_empty() && self.shares(ForkKind::Data) {
            let (mut head, extent) = self.head_of(journal.cache(), rest)?;
            if let Some(extent) = extent.filter(|extent| !extent.unwritten) {
                let (is_shared, extent) = self.sharing(journal, extent)?;
                if is_shared {
                    return Ok(Some(extent));
                }
                head = BlockRange::of(&extent);
            }
            rest = BlockRange::between(head.end(), range.end());
        }
        Ok(None)
    }

    /// Notes that the file shares nothing, if that is so.
    #[doc(alias = "xfs_reflink_try_clear_inode_flag")]
    fn forget_sharing(&self, journal: &Arc<Journal>) -> Result<()> {
        let end = {
            let inode = self.inode();
            let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
            map.last_before(LIMIT).map_or(FileBlock(0), |last| last.end())
        };
        let all = BlockRange::between(FileBlock(0), end);
        if !self.shares(ForkKind::Data) || self.first_shared(journal, all)?.is_some() {
            return Ok(());
        }
        // Without the flag blocks are written in place: no crash may make others their owners again.
        journal.force_all()?;
        with_transaction(journal, TransactionKind::ChangeInode, 0, |tx| {
            self.change(tx, |core| core.flags2.remove(InodeFlags2::REFLINK));
            Ok(())
        })
    }

    /// Frees whole blocks, in a transaction for each two extents.
    pub(super) fn free_range(&self, journal: &Arc<Journal>, range: BlockRange) -> Result<()> {
        // An extent that is cut in two is one more.
        let blocks = map_blocks(journal.geometry(), ForkKind::Data);
        let mut rest = Some(range).filter(|range| !range.is_empty());
        while let Some(range) = rest {
            rest = with_transaction(journal, TransactionKind::Truncate, blocks, |tx| {
                self.unmap(tx, ForkKind::Data, range)
            })?;
        }
        Ok(())
    }

    /// Zeros in those bytes of a range that lie in blocks which stay.
    pub(super) fn zero_edges(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: &Range<u64>,
        whole: BlockRange,
        now: Timestamp,
    ) -> Result<()> {
        let geometry = journal.geometry();
        if whole.is_empty() {
            return self.zero_written(journal, range.start, range.end, now);
        }
        let start = geometry.blocks_to_bytes(whole.start.0).ok_or(PosixError::FileTooLarge)?;
        let end = geometry.blocks_to_bytes(whole.end().0).ok_or(PosixError::FileTooLarge)?;
        self.zero_written(journal, range.start, start, now)?;
        self.zero_written(journal, end, range.end, now)
    }

    /// Changes the core in a transaction of its own, and notes that the contents have changed.
    pub(super) fn change_alone(
        &self,
        journal: &Arc<Journal>,
        now: Timestamp,
        f: impl FnOnce(&mut InodeCore),
    ) -> Result<()> {
        with_transaction(journal, TransactionKind::ChangeInode, 0, |tx| {
            self.change(tx, f);
            self.touch(tx, now);
            Ok(())
        })
    }
}

/// Where no file has blocks any more.
pub(super) const LIMIT: FileBlock = FileBlock(FILE_BLOCK_LIMIT);

/// Blocks that lie in a range as a whole.
pub(super) fn whole_blocks(geometry: &Geometry, range: &Range<u64>) -> BlockRange {
    let first = range.start.div_ceil(geometry.block_size.into());
    BlockRange::between(FileBlock(first), geometry.file_block(range.end))
}
