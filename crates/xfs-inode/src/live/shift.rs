//! Moving the tail of a file towards its start, or away from it.
//!
//! Owns: collapsing and inserting ranges of whole blocks. Does **not** own the lock of the file,
//! which the caller holds exclusively.
//!
//! Each extent moves in a transaction step of its own, and always into a hole. A move towards the
//! start of the file begins with the first extent; a move away from the start begins with the last
//! extent. After a crash some extents have moved and the others have not, with a hole between the
//! two groups. The kernel leaves the same state.

use core::ops::Range;
use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::FileBlock;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_trans::{Journal, Transaction};

use super::LiveInode;
use super::file_range::{FileRange, RangeEdges};
use super::map::map_blocks;
use super::range::LIMIT;
use super::with_transaction::with_transaction;
use super::write::check_end;
use crate::edit::BlockRange;

impl LiveInode {
    /// Removes a range from the file: the bytes after the range move to the start of the range.
    /// Frees the blocks past the end of the file.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] for a range that is not of whole blocks, or reaches the end
    /// of the file; the errors of [`write_at`](Self::write_at).
    #[doc(alias = "xfs_collapse_file_space")]
    pub fn collapse(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let edges = RangeEdges::BetweenBlocks;
        let FileRange { whole, bytes: range, .. } =
            FileRange::of(self, journal.geometry(), range, edges)?;
        let size = self.inode().core().size;
        if range.end >= size {
            return Err(PosixError::InvalidArgument.into());
        }
        self.free_range(journal, whole)?;
        let end = self.first_past(journal.geometry(), size);
        self.free_range(journal, BlockRange::between(end, LIMIT))?;
        let mut next = whole.end();
        while let Some(extent) = self.first_from(journal, next)? {
            let to = FileBlock(extent.file_block.0 - whole.length_blocks);
            self.shift_extent(journal, &extent, to)?;
            next = extent.end();
        }
        self.change_alone(journal, now, |core| core.size = size - (range.end - range.start))
    }

    /// Inserts a hole as long as `range`: the bytes from the start of the range on move to the end
    /// of the range.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] for a range that is not of whole blocks, or starts at the
    /// end; [`PosixError::FileTooLarge`]; the errors of [`write_at`](Self::write_at).
    #[doc(alias = "xfs_insert_file_space")]
    pub fn insert(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        range: Range<u64>,
        now: Timestamp,
    ) -> Result<()> {
        let edges = RangeEdges::BetweenBlocks;
        let FileRange { whole, bytes: range, .. } =
            FileRange::of(self, journal.geometry(), range, edges)?;
        let size = self.inode().core().size;
        if range.start >= size {
            return Err(PosixError::InvalidArgument.into());
        }
        let length = range.end - range.start;
        check_end(journal.geometry(), size, length)?;
        self.check_room_to_move(journal, whole)?;
        self.check_growth(ForkKind::Data, 1)?;
        // The size first: bytes that move past the old end must stay inside the file.
        self.change_alone(journal, now, |core| core.size = size + length)?;
        let mut rest = BlockRange::between(whole.start, LIMIT);
        while let Some(extent) = self.last_in(journal.cache(), ForkKind::Data, rest)? {
            let to = FileBlock(extent.file_block.0 + whole.length_blocks);
            self.shift_extent(journal, &extent, to)?;
            rest = BlockRange::between(whole.start, extent.file_block);
        }
        Ok(())
    }

    /// Returns an error if the last extent would move past the limit of file blocks.
    fn check_room_to_move(&self, journal: &Arc<Journal>, by: BlockRange) -> Result<()> {
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
        let end = map.iter().next_back().map_or(0, |last| last.end().0);
        match end.checked_add(by.length_blocks) {
            Some(end) if end <= LIMIT.0 => Ok(()),
            _ => Err(PosixError::FileTooLarge.into()),
        }
    }

    fn first_from(&self, journal: &Arc<Journal>, block: FileBlock) -> Result<Option<Extent>> {
        let inode = self.inode();
        let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
        let rest = BlockRange::between(block, LIMIT);
        Ok(map.iter_from(block).next().and_then(|extent| rest.cut(extent)))
    }

    /// Moves an extent, or a part of one, to file block `to`. Its blocks on disk stay the same.
    fn shift_extent(&self, journal: &Arc<Journal>, extent: &Extent, to: FileBlock) -> Result<()> {
        // One of the two changes may split an extent.
        let blocks = 2 * map_blocks(journal.geometry(), ForkKind::Data);
        with_transaction(journal, TransactionKind::Write, blocks, |tx| self.shift(tx, extent, to))
    }

    fn shift(&self, tx: &mut Transaction<'_>, extent: &Extent, to: FileBlock) -> Result<()> {
        self.find_joined(tx, ForkKind::Data, extent.file_block)?;
        self.take_extent(tx, ForkKind::Data, extent)?;
        self.put_extent(tx, ForkKind::Data, &Extent { file_block: to, ..*extent })
    }
}
