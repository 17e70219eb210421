//! Sharing blocks between files.
//!
//! Owns: mapping a range of one file to the blocks of another file's range. Does **not** own the
//! locks of the two files, which the caller holds exclusively, or comparing the ranges first.
//!
//! # What a crash leaves
//!
//! Each extent is replaced in one chain of intents: the old extent is unmapped and freed, the
//! shared blocks get one more owner, and these blocks are mapped. So a crash leaves a first part of
//! the range shared and the rest unchanged. The size of the destination grows after the last
//! extent.

use std::sync::Arc;

use xfs_alloc::{defer_share, defer_unshare};
use xfs_buffer::{PosixError, Result};
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{FileBlock, RoCompatFeatures};
use xfs_trans::{Journal, QuotaOwners, Transaction};

use super::LiveInode;
use super::copy::blocks;
use super::map::map_blocks;
use super::remap::{MapWork, defer_map_work};
use super::with_transaction::with_transaction;
use super::write::check_end;
use crate::edit::BlockRange;

/// A range of a source file that a destination file will share.
#[derive(Clone, Copy, Debug)]
pub struct SharedRange {
    /// The start of the range in the source file, in bytes.
    pub from: u64,
    /// The start of the range in the destination file, in bytes.
    pub to: u64,
    /// The length of the range in bytes. The range may end inside a block only if it ends at the
    /// end of the source, and at or after the end of the destination.
    pub length_bytes: u64,
}

impl LiveInode {
    /// Makes a range of `destination` share the blocks of a range of `source`. The blocks that
    /// `destination` had in its range lose one reference. Source and destination may be the same
    /// file if the ranges do not overlap.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotSupported`] on a volume without reference counts;
    /// [`PosixError::InvalidArgument`] for incompatible ranges; the errors of
    /// [`write_at`](Self::write_at).
    #[doc(alias = "xfs_reflink_remap_range")]
    pub fn reflink(
        journal: &Arc<Journal>,
        source: &Arc<Self>,
        destination: &Arc<Self>,
        shared: SharedRange,
        now: Timestamp,
    ) -> Result<()> {
        Self::share_range(journal, source, destination, shared, Some(now))
    }

    /// Makes two ranges that hold the same bytes share blocks. The contents and the times of the
    /// files do not change.
    ///
    /// # Errors
    ///
    /// The errors of [`reflink`](Self::reflink).
    #[doc(alias = "FIDEDUPERANGE")]
    pub fn share_equal(
        journal: &Arc<Journal>,
        source: &Arc<Self>,
        destination: &Arc<Self>,
        shared: SharedRange,
    ) -> Result<()> {
        Self::share_range(journal, source, destination, shared, None)
    }

    fn share_range(
        journal: &Arc<Journal>,
        source: &Arc<Self>,
        destination: &Arc<Self>,
        shared: SharedRange,
        now: Option<Timestamp>,
    ) -> Result<()> {
        Self::check_share(journal, source, destination, shared)?;
        if shared.length_bytes == 0 {
            return Ok(());
        }
        let size = destination.inode().core().size;
        let hint = hint_to_hand_on(source, destination, shared);
        if let Some(now) = now.filter(|_| shared.to > size) {
            destination.zero_written(journal, size, shared.to, now)?;
        }
        set_sharing(journal, source, destination)?;
        let geometry = journal.geometry();
        let blocks = shared.length_bytes.div_ceil(geometry.block_size.into());
        let (from, to) = (geometry.file_block(shared.from), geometry.file_block(shared.to));
        let end = FileBlock(from.0 + blocks);
        let mut next = from;
        while next < end {
            let rest = BlockRange::between(next, end);
            let (piece, extent) = source.head_of(journal.cache(), rest)?;
            let at = BlockRange { start: FileBlock(to.0 + (next.0 - from.0)), ..piece };
            match extent.filter(|extent| !extent.unwritten) {
                None => destination.free_range(journal, at)?,
                Some(extent) => {
                    let extent = Extent { file_block: at.start, ..extent };
                    destination.map_shared(journal, extent)?;
                }
            }
            next = piece.end();
        }
        with_transaction(journal, TransactionKind::ChangeInode, 0, |tx| {
            let end = shared.to + shared.length_bytes;
            destination.change(tx, |core| {
                core.size = core.size.max(end);
                if let Some(blocks) = hint {
                    core.cow_extent_size_hint_blocks = blocks;
                    core.flags2 |= InodeFlags2::COWEXTSIZE;
                }
            });
            if let Some(now) = now {
                destination.touch(tx, now);
            }
            Ok(())
        })
    }

    /// Checks that two ranges can share blocks.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotSupported`] and [`PosixError::InvalidArgument`], in the cases of
    /// [`reflink`](Self::reflink).
    pub fn check_share(
        journal: &Arc<Journal>,
        source: &Arc<Self>,
        destination: &Arc<Self>,
        shared: SharedRange,
    ) -> Result<()> {
        let geometry = journal.geometry();
        if !geometry.has_ro_compat(RoCompatFeatures::REFLINK) {
            return Err(PosixError::NotSupported.into());
        }
        source.check_shareable(journal, destination)?;
        let SharedRange { from, to, length_bytes } = shared;
        let (source_size, size) = (source.inode().core().size, destination.inode().core().size);
        // An empty range up to the end of the source is valid anywhere.
        if length_bytes == 0 && from <= source_size {
            return Ok(());
        }
        check_end(geometry, from, length_bytes)?;
        check_end(geometry, to, length_bytes)?;
        let block = u64::from(geometry.block_size);
        let is_whole = length_bytes.is_multiple_of(block);
        let ends_both = from + length_bytes == source_size && to + length_bytes >= size;
        let overlaps = source.number() == destination.number()
            && from < to.saturating_add(length_bytes)
            && to < from.saturating_add(length_bytes);
        let fits = from.is_multiple_of(block)
            && to.is_multiple_of(block)
            && from + length_bytes <= source_size
            && (is_whole || ends_both)
            && !overlaps;
        if fits { Ok(()) } else { Err(PosixError::InvalidArgument.into()) }
    }

    /// Maps the blocks of `extent`, which belong to another file, into this file. They replace the
    /// extents and holes that the file has in the same range. Each of these extents or holes takes
    /// one chain of transaction steps.
    fn map_shared(self: &Arc<Self>, journal: &Arc<Journal>, extent: Extent) -> Result<()> {
        let all = BlockRange::of(&extent);
        let mut next = all.start;
        while next < all.end() {
            let rest = BlockRange::between(next, all.end());
            let (range, old) = self.head_of(journal.cache(), rest)?;
            let piece = range.cut(&extent).ok_or(PosixError::InvalidArgument)?;
            if old != Some(piece) {
                self.remap(journal, old, piece)?;
            }
            next = range.end();
        }
        Ok(())
    }

    /// Maps the blocks of `new`, and unmaps the blocks of `old`, which the file has in the same
    /// range. The blocks of `old` lose one reference. If `old` is `None`, the range is a hole.
    /// After a crash and its recovery, either all of these changes are done or none.
    #[doc(alias = "xfs_reflink_remap_extent")]
    fn remap(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        old: Option<Extent>,
        new: Extent,
    ) -> Result<()> {
        let reserved = 2 * map_blocks(journal.geometry(), ForkKind::Data);
        with_transaction(journal, TransactionKind::Write, reserved, |tx| {
            self.find_joined(tx, ForkKind::Data, new.file_block)?;
            self.check_growth(ForkKind::Data, 2)?;
            let old_blocks = old.map_or(0, |old| old.length_blocks);
            let gained = u64::from(new.length_blocks.saturating_sub(old_blocks));
            let owners = QuotaOwners::of(self.inode().core());
            tx.reserve_quota(owners, self.contents_amount(tx.geometry(), gained))?;
            let section = self.section(tx.geometry(), ForkKind::Data);
            if let Some(old) = old {
                defer_map_work(tx, MapWork::unmap(self, ForkKind::Data, &old));
                defer_unshare(tx, section, blocks(&old));
            }
            defer_share(tx, section, blocks(&new));
            defer_map_work(tx, MapWork::map(self, ForkKind::Data, &new));
            // The intents are logged with the inode that they concern.
            self.change(tx, |_| ());
            Ok(())
        })
    }
}

/// Returns the source's extent size hint for copy-on-write if the destination must take it over.
/// That is so if the source becomes the whole contents of the destination, and the destination has
/// no hint of this kind. Otherwise returns `None`.
#[doc(alias = "xfs_reflink_update_dest")]
fn hint_to_hand_on(
    source: &LiveInode,
    destination: &LiveInode,
    shared: SharedRange,
) -> Option<u32> {
    let SharedRange { from, to, length_bytes } = shared;
    let (inode, own) = (source.inode(), destination.inode());
    let is_whole = (from, to) == (0, 0)
        && length_bytes == inode.core().size
        && length_bytes >= own.core().size;
    let has_hint = |core: &InodeCore| core.flags2.contains(InodeFlags2::COWEXTSIZE);
    let takes = is_whole && has_hint(inode.core()) && !has_hint(own.core());
    takes.then_some(inode.core().cow_extent_size_hint_blocks)
}

/// Sets the flag for shared blocks in both files.
fn set_sharing(
    journal: &Arc<Journal>,
    left: &Arc<LiveInode>,
    right: &Arc<LiveInode>,
) -> Result<()> {
    if left.shares(ForkKind::Data) && right.shares(ForkKind::Data) {
        return Ok(());
    }
    with_transaction(journal, TransactionKind::ChangeInode, 0, |tx| {
        join_two(tx, left, right);
        for live in [left, right] {
            if !live.shares(ForkKind::Data) {
                live.change(tx, |core| core.flags2 |= InodeFlags2::REFLINK);
            }
        }
        Ok(())
    })
}

/// Joins two inodes to the transaction, in the order of their inode numbers. They may be the same
/// inode.
pub(super) fn join_two(tx: &mut Transaction<'_>, left: &Arc<LiveInode>, right: &Arc<LiveInode>) {
    let (first, second) =
        if left.number() <= right.number() { (left, right) } else { (right, left) };
    tx.join(first.log_item());
    tx.join(second.log_item());
}
