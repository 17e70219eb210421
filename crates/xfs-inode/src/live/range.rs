//! Changes of whole ranges of a file: truncation, holes, zeros.
//!
//! Owns: the chains of transactions of these operations. Does **not** own permission, or the lock
//! that excludes reads and writes of the file, which the caller holds exclusively.
//!
//! # What a crash leaves
//!
//! Truncation: the file has its new size, and may have blocks past it, which are freed by the next
//! truncation or with the file. All other operations, including [preallocation](super::allocate): a
//! part of the range is done, and the rest is unchanged. Bytes at the edges of a range, in blocks
//! that stay, are zeroed before anything else.

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
use super::file_range::{FileRange, RangeEdges};
use super::map::map_blocks;
use super::with_transaction::with_transaction;
use super::write::{WriteOptions, check_end};
use crate::edit::BlockRange;

/// Whether an operation on a range keeps the size of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepSize {
    /// The size stays. Blocks past the size are kept for later.
    #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
    Yes,
    /// If the range ends past the size, the end of the range becomes the size.
    No,
}

impl LiveInode {
    /// Sets the size of the file. If the size becomes smaller, the blocks past it are freed; if it
    /// becomes larger, the new bytes read as zeros.
    ///
    /// # Errors
    ///
    /// [`PosixError::FileTooLarge`]; [`PosixError::NoSpace`] if a shared block must be copied; the
    /// errors of [`write_at`](Self::write_at).
    #[doc(alias = "xfs_setattr_size")]
    pub fn truncate(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        size: u64,
        now: Timestamp,
    ) -> Result<()> {
        self.check_regular(journal.geometry())?;
        check_end(journal.geometry(), size, 0)?;
        let old = self.inode().core().size;
        let block = u64::from(journal.geometry().block_size);
        // The rest of the last block would become visible again when the file grows.
        let edge = size.min(old);
        let zero_end = if size > old { size } else { edge.next_multiple_of(block).min(old) };
        self.zero_written(journal, edge, zero_end.max(edge), now)?;
        if size > old {
            return self.change_alone(journal, now, |core| core.size = size);
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            self.change(tx, |core| core.size = size);
            self.touch(tx, now);
            let first = self.first_past(journal.geometry(), size);
            self.unmap_all(tx, ForkKind::Data, BlockRange::between(first, LIMIT))?;
            // A file without blocks shares none.
            if self.shares(ForkKind::Data) && !self.reaches(0) {
                self.change(tx, |core| core.flags2.remove(InodeFlags2::REFLINK));
            }
            Ok(())
        })
    }

    /// Whether any file block from `block` on is mapped in the data fork. Also returns `true` if
    /// the extent map has not been loaded yet.
    #[must_use]
    pub fn reaches(&self, block: u64) -> bool {
        let inode = self.inode();
        let Some(map) = inode.fork(ForkKind::Data).loaded_map() else { return true };
        map.last_before(LIMIT).is_some_and(|last| last.end().0 > block)
    }

    /// Whether the file has blocks past its end that [`trim`](Self::trim) would free: `trim` keeps
    /// blocks that a program has preallocated. Also returns `true` if the extent map has not been
    /// loaded yet.
    #[must_use]
    pub fn ends_past_size(&self, geometry: &Geometry) -> bool {
        let (size, flags) = {
            let inode = self.inode();
            (inode.core().size, inode.core().flags)
        };
        // Preallocated space stays, and an append-only file will need it.
        let keeps = flags.intersects(InodeFlags::PREALLOC | InodeFlags::APPEND);
        !keeps && self.reaches(self.first_past(geometry, size).0)
    }

    /// Frees the blocks past the end of the file, unless they were preallocated.
    ///
    /// # Errors
    ///
    /// The error that stopped the log, or corruption of the volume.
    #[doc(alias = "xfs_free_eofblocks")]
    pub fn trim(&self, journal: &Arc<Journal>) -> Result<()> {
        self.load_map(journal.cache(), ForkKind::Data)?;
        if !self.ends_past_size(journal.geometry()) {
            return Ok(());
        }
        with_transaction(journal, TransactionKind::Truncate, 0, |tx| {
            let size = self.inode().core().size;
            let first = self.first_past(journal.geometry(), size);
            self.unmap_all(tx, ForkKind::Data, BlockRange::between(first, LIMIT))
        })
    }

    /// Unmaps and frees all blocks of a range, in one chain of transaction steps. No extent may
    /// cross the end of the range, because a split of that extent could need blocks for the map.
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
            // Freed realtime extents defer no work that would end the step. The next extents are
            // freed in a step that has joined no header of a group yet.
            if rest.is_some() && fork == ForkKind::Data && self.is_realtime(tx.geometry()) {
                tx.roll()?;
            }
        }
        Ok(())
    }

    /// Punches a hole: frees the blocks that lie completely in the range, and zeroes the other
    /// bytes of the range. The size of the file stays.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    #[doc(alias = "xfs_free_file_space")]
    pub fn punch(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let range = FileRange::of(self, journal.geometry(), range, RangeEdges::Anywhere)?;
        self.clear_range(journal, &range, now)?;
        self.change_alone(journal, now, |_| ())
    }

    /// Makes a range read as zeros, and allocates all of its blocks. Blocks that lie completely in
    /// the range become unwritten. In zones they are freed instead.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
    pub fn zero(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        let range = FileRange::of(self, journal.geometry(), range, RangeEdges::Anywhere)?;
        // A refusal by quota comes before any block of the range is freed.
        drop(self.quota_to_allocate(journal, range.touched)?);
        self.clear_range(journal, &range, now)?;
        if self.is_in_zones(journal) {
            return self.extend_over(journal, &range, keep_size, now);
        }
        self.allocate_range(journal, &range, keep_size, now)
    }

    /// Sets the size and the times of a file in zones, after a range was zeroed or unshared.
    /// Allocates no blocks.
    pub(super) fn extend_over(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: &FileRange,
        keep_size: KeepSize,
        now: Timestamp,
    ) -> Result<()> {
        let (size, end) = (self.inode().core().size, range.bytes.end);
        let grows = keep_size == KeepSize::No && end > size;
        if grows {
            self.zero_written(journal, size, end, now)?;
        }
        self.change_alone(journal, now, |core| {
            if grows {
                core.size = end;
            }
        })
    }

    /// Replaces the shared blocks of a range with copies that belong to this file alone.
    ///
    /// # Errors
    ///
    /// The errors of [`write_at`](Self::write_at).
    #[doc(alias = "xfs_reflink_unshare")]
    pub fn unshare(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let range = FileRange::of(self, journal.geometry(), range, RangeEdges::Anywhere)?;
        let blocks = range.touched;
        let mut writer = self.writer(journal, WriteOptions::at(now));
        let mut rest = blocks;
        while let Some(shared) = self.first_shared(journal, rest)? {
            rest = BlockRange::between(writer.copy_shared(&shared)?, blocks.end());
        }
        self.forget_sharing(journal)
    }

    /// Returns the first run of shared blocks in a range; `None` if no block of the range is
    /// shared. Unwritten extents are skipped.
    fn first_shared(&self, journal: &Arc<Journal>, range: BlockRange) -> Result<Option<Extent>> {
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

    /// Clears the file's flag for shared blocks if no block of the file is shared any more.
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
        // Without the flag blocks are written in place. No crash may then restore an earlier owner.
        journal.force_all()?;
        with_transaction(journal, TransactionKind::ChangeInode, 0, |tx| {
            self.change(tx, |core| core.flags2.remove(InodeFlags2::REFLINK));
            Ok(())
        })
    }

    /// Frees a range of whole blocks, in one transaction for every two extents.
    pub(super) fn free_range(&self, journal: &Arc<Journal>, range: BlockRange) -> Result<()> {
        // Splitting an extent adds one.
        let blocks = map_blocks(journal.geometry(), ForkKind::Data);
        let mut rest = Some(range).filter(|range| !range.is_empty());
        while let Some(range) = rest {
            rest = with_transaction(journal, TransactionKind::Truncate, blocks, |tx| {
                self.unmap(tx, ForkKind::Data, range)
            })?;
        }
        Ok(())
    }

    /// Makes a range read as zeros: zeroes the bytes in blocks that lie only partly in the range,
    /// then frees the whole blocks.
    fn clear_range(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: &FileRange,
        now: Timestamp,
    ) -> Result<()> {
        let (geometry, bytes, whole) = (journal.geometry(), &range.bytes, range.whole);
        if whole.is_empty() {
            return self.zero_written(journal, bytes.start, bytes.end, now);
        }
        let start = geometry.blocks_to_bytes(whole.start.0).ok_or(PosixError::FileTooLarge)?;
        let end = geometry.blocks_to_bytes(whole.end().0).ok_or(PosixError::FileTooLarge)?;
        self.zero_written(journal, bytes.start, start, now)?;
        self.zero_written(journal, end, bytes.end, now)?;
        self.free_range(journal, whole)
    }

    /// Changes the inode core in a separate transaction, and sets the modification and change
    /// times.
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

/// The limit of file blocks: no file has a block with this number or a higher one.
pub(super) const LIMIT: FileBlock = FileBlock(FILE_BLOCK_LIMIT);
