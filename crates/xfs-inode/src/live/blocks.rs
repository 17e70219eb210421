//! Metadata blocks in a fork: blocks of directories, of extended attributes, and of long link
//! targets.
//!
//! Owns: the allocation of these blocks, and their buffers. Does **not** own their contents.

use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};
use xfs_format::inode::ForkKind;
use xfs_format::{FileBlock, Geometry};
use xfs_trans::Transaction;

use super::LiveInode;
use super::map::{MapRequest, map_blocks};
use crate::edit::BlockRange;
use crate::fork_block::{BlockShape, fork_block_extents};

impl LiveInode {
    /// Reads the metadata block that starts at file block `at` of a fork, and joins its buffer to
    /// the transaction.
    ///
    /// # Errors
    ///
    /// The errors of [`Inode::read_fork_block`](crate::Inode::read_fork_block).
    #[doc(alias = "xfs_da_read_buf")]
    pub fn fork_block(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        shape: BlockShape,
    ) -> Result<Buffer> {
        tx.join(self.log_item());
        if fork == ForkKind::Data
            && let Some(buffer) = self.join_recent(tx, at, shape)
        {
            return Ok(buffer);
        }
        let pieces = fork_block_extents(&self.inode(), tx.cache(), fork, at, shape)?;
        let buffer = tx.read_mapped(&pieces, shape.kind)?;
        if fork == ForkKind::Data {
            self.recent.remember(at, &buffer);
        }
        Ok(buffer)
    }

    /// Returns the metadata block at `at` of the data fork if the inode remembers its buffer, which
    /// is then joined to the transaction. A remembered block is mapped.
    pub fn known_block(
        &self,
        tx: &mut Transaction<'_>,
        at: FileBlock,
        shape: BlockShape,
    ) -> Option<Buffer> {
        tx.join(self.log_item());
        self.join_recent(tx, at, shape)
    }

    /// Joins the buffer of the data fork's block at `at` to the transaction, without a lookup in
    /// the extent map. Returns `None` unless the block is one of the most recently used ones, whose
    /// buffers the inode remembers.
    ///
    /// In a corrupt image two structures may claim one block, and its buffer may have another kind
    /// by now. Then this also returns `None`, and the full lookup reports the corruption.
    fn join_recent(
        &self,
        tx: &mut Transaction<'_>,
        at: FileBlock,
        shape: BlockShape,
    ) -> Option<Buffer> {
        let is_wanted = |buffer: &Buffer| buffer.kind() == shape.kind;
        let buffer = self.recent.find(at).filter(is_wanted)?;
        tx.join_buffer(&buffer).ok()?;
        // A buffer that was joined before, and is not released here, cannot have changed its kind
        // since.
        if is_wanted(&buffer) {
            return Some(buffer);
        }
        tx.release(&buffer);
        None
    }

    /// Allocates a new metadata block at file block `at`, which is a hole. The block is filled with
    /// zeros, and its buffer is joined to the transaction. Its filesystem blocks are contiguous if
    /// possible.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`] and [`PosixError::FileTooLarge`] with nothing changed, or the errors
    /// of [`map`](Self::map).
    #[doc(alias = "xfs_da_grow_inode")]
    pub fn grow_fork(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        shape: BlockShape,
    ) -> Result<Buffer> {
        self.map_run(tx, fork, at, shape.length_blocks)?;
        self.claim_fork_block(tx, fork, at, shape)
    }

    /// Returns the buffer of a block that was just mapped, filled with zeros and joined to the
    /// transaction.
    pub(super) fn claim_fork_block(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        shape: BlockShape,
    ) -> Result<Buffer> {
        let pieces = fork_block_extents(&self.inode(), tx.cache(), fork, at, shape)?;
        tx.claim_mapped(&pieces, shape.kind)
    }

    /// Frees the metadata block at file block `at`, whose buffer is joined to the transaction. The
    /// buffer becomes invalid.
    ///
    /// # Errors
    ///
    /// The errors of [`unmap`](Self::unmap).
    #[doc(alias = "xfs_da_shrink_inode")]
    pub fn shrink_fork(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        buffer: &Buffer,
    ) -> Result<()> {
        let length_blocks = u64::from(buffer.length_bytes() >> tx.geometry().block_log);
        tx.invalidate(buffer);
        let mut rest = Some(BlockRange { start: at, length_blocks });
        while let Some(range) = rest {
            rest = self.unmap(tx, fork, range)?;
        }
        Ok(())
    }

    /// Allocates blocks for `blocks` file blocks from `at` on, which are a hole. Returns the new
    /// written extents, in order.
    ///
    /// # Errors
    ///
    /// The errors of [`grow_fork`](Self::grow_fork).
    pub fn map_run(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        blocks: u32,
    ) -> Result<Vec<Extent>> {
        if tx.blocks_left() < u64::from(blocks) {
            return Err(PosixError::NoSpace.into());
        }
        // In the worst case each block is an extent of its own.
        self.check_growth(fork, blocks.into())?;
        let end = FileBlock(at.0.saturating_add(blocks.into()));
        let mut extents = Vec::new();
        let mut next = at;
        while next < end {
            let range = BlockRange::between(next, end);
            let extent = self.map(tx, &MapRequest { fork, range, unwritten: false })?;
            next = extent.end();
            extents.push(extent);
        }
        Ok(extents)
    }

    /// Frees a run of blocks that have no buffers. The run may be mapped to at most two extents.
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidArgument`] if the run is mapped to more than two extents, or the errors
    /// of [`unmap`](Self::unmap).
    pub fn unmap_run(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        at: FileBlock,
        blocks: u32,
    ) -> Result<()> {
        let range = BlockRange { start: at, length_blocks: blocks.into() };
        match self.unmap(tx, fork, range)? {
            None => Ok(()),
            Some(_) => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Returns the lowest file block at or after `from` where a hole of at least `blocks` blocks
    /// starts.
    ///
    /// # Errors
    ///
    /// [`PosixError::FileTooLarge`] if there is no such hole, or the errors of [`map`](Self::map).
    #[doc(alias = "xfs_bmap_first_unused")]
    pub fn first_unused(
        &self,
        tx: &Transaction<'_>,
        fork: ForkKind,
        from: FileBlock,
        blocks: u32,
    ) -> Result<FileBlock> {
        let inode = self.inode();
        let map = inode.extent_map(tx.cache(), fork)?;
        let mut next = from;
        for extent in map.iter_from(from) {
            if extent.file_block.0.saturating_sub(next.0) >= u64::from(blocks) {
                return Ok(next);
            }
            next = next.max(extent.end());
        }
        match next.0.checked_add(blocks.into()) {
            Some(end) if end <= FILE_BLOCK_LIMIT => Ok(next),
            _ => Err(PosixError::FileTooLarge.into()),
        }
    }

    /// Returns the file block after the last mapped block before `limit`; 0 if no block before
    /// `limit` is mapped.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    #[doc(alias = "xfs_bmap_last_before")]
    pub fn last_before(
        &self,
        tx: &Transaction<'_>,
        fork: ForkKind,
        limit: FileBlock,
    ) -> Result<FileBlock> {
        let inode = self.inode();
        let map = inode.extent_map(tx.cache(), fork)?;
        if map.end() <= limit {
            return Ok(map.end());
        }
        let last = map.last_before(limit);
        Ok(last.map_or(FileBlock(0), |extent| extent.end().min(limit)))
    }

    /// Returns the largest number of blocks that [`grow_fork`](Self::grow_fork) may allocate for a
    /// metadata block of `blocks` blocks. The result includes the blocks by which the extent map's
    /// btree may grow.
    #[must_use]
    pub fn grow_blocks(geometry: &Geometry, fork: ForkKind, blocks: u32) -> u64 {
        // In the worst case each block is an extent of its own.
        u64::from(blocks) * (1 + map_blocks(geometry, fork))
    }
}
