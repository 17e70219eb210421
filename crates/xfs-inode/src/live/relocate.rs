//! Moving the blocks of a file out of the end of a volume that shrinks.
//!
//! Owns: choosing the blocks of an inode that have to move, copying them, and changing the extent
//! map. Does **not** own: keeping the new blocks out of that end (`xfs_alloc::withhold`), the walk
//! over all inodes, or the exclusion of other work.
//!
//! # What a crash leaves
//!
//! Each piece moves in one chain of a transaction, which allocates the new blocks, maps them and
//! frees the old ones. Contents are copied to the new blocks before the chain is committed. Its
//! checkpoint flushes the device first, as after a write. Metadata blocks are logged whole. So a
//! crash leaves each piece in its old or in its new place, with the same bytes.
//!
//! Blocks that several files share move once. The first file gets a copy; each of the other files
//! then maps the copy in place of the old blocks. A crash in between leaves some files with the
//! copy and some with the old blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_alloc::{
    BlockExtent, BlockPurpose, Section, SpaceRequest, allocate_extent, defer_free, defer_map,
    defer_share, defer_unmap, sharing_run,
};
use xfs_buffer::{BufferExtent, Error, PosixError, Result};
use xfs_format::attr::remote;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::reservation::TransactionKind;
use xfs_format::{BlockKind, DiskAddr, FileBlock, FsBlock, Geometry, Lsn};
use xfs_trans::{Journal, Transaction};

use super::LiveInode;
use super::copy::blocks;
use super::data::{self, ContentsDevice};
use super::map::map_blocks;
use super::with_transaction::with_transaction;
use super::zones::rest_after;
use crate::edit::{BlockRange, GroupStarts, NewMapping, plan};
use crate::extent_map::Mapping;
use crate::fork::Fork;
use crate::fork_block::BlockShape;

/// Number of bytes of contents that move in one transaction.
const MOVE_BYTES: u64 = 4 << 20;
/// The file offset in bytes at which the hash index of a directory starts.
const DIRECTORY_INDEX_BYTES: u64 = 1 << 35;
/// The file offset in bytes at which the free-space index of a directory starts.
const DIRECTORY_FREE_BYTES: u64 = 1 << 36;

/// Moves blocks of files to the part of a volume that stays when the volume shrinks.
#[derive(Debug)]
pub struct Relocation {
    /// The first block that the volume will lose.
    end: FsBlock,
    /// Shared blocks that have moved: the first of the old blocks, the number of blocks, and the
    /// first of the new blocks.
    shared: BTreeMap<FsBlock, (u32, FsBlock)>,
    moved_blocks: u64,
}

/// The metadata block of a fork that moves.
#[derive(Clone, Copy)]
struct ForkBlock {
    fork: ForkKind,
    at: FileBlock,
    shape: BlockShape,
    /// The length in blocks of the pieces in which it may be allocated, at least. One buffer of a
    /// link covers one extent.
    least_blocks: u32,
}

impl Relocation {
    /// Creates a relocation of all blocks from `end` on.
    #[must_use]
    pub const fn new(end: FsBlock) -> Self {
        Self { end, shared: BTreeMap::new(), moved_blocks: 0 }
    }

    /// Changes the first block that the volume will lose. Files that share blocks after both ends
    /// keep sharing them.
    pub const fn set_end(&mut self, end: FsBlock) {
        self.end = end;
    }

    /// Returns the number of blocks that have moved so far.
    #[must_use]
    pub const fn moved_blocks(&self) -> u64 {
        self.moved_blocks
    }

    /// Moves all blocks of the inode that stand after the new end.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`] if the volume has no room before the new end; the device's error;
    /// the check that failed. The blocks that have moved stay where they are.
    pub fn move_inode(&mut self, journal: &Arc<Journal>, live: &Arc<LiveInode>) -> Result<()> {
        let file_type = live.inode().file_type();
        match file_type {
            FileType::Regular => self.move_contents(journal, live)?,
            FileType::Directory => self.move_directory(journal, live)?,
            FileType::Symlink => self.move_target(journal, live)?,
            _ => {}
        }
        self.move_attributes(journal, live)?;
        for fork in [ForkKind::Data, ForkKind::Attr] {
            self.move_map(journal, live, fork)?;
        }
        Ok(())
    }

    /// Returns the part of an extent that stands after the new end; `None` if there is none.
    fn lost(&self, extent: &Extent) -> Option<Extent> {
        let kept = self.end.0.saturating_sub(extent.start.0);
        let kept = u32::try_from(kept).unwrap_or(u32::MAX).min(extent.length_blocks);
        (kept < extent.length_blocks).then(|| rest_after(extent, kept))
    }

    /// Returns the first part of an extent of a fork that must move, from file block `from` on.
    fn next(
        &self,
        journal: &Journal,
        live: &LiveInode,
        fork: ForkKind,
        from: FileBlock,
    ) -> Result<Option<Extent>> {
        let inode = live.inode();
        let map = inode.extent_map(journal.cache(), fork)?;
        Ok(map.iter_from(from).find_map(|extent| self.lost(extent)))
    }

    fn move_contents(&mut self, journal: &Arc<Journal>, live: &Arc<LiveInode>) -> Result<()> {
        let most = (MOVE_BYTES >> journal.geometry().block_log).max(1) as u32;
        let mut from = FileBlock(0);
        while let Some(lost) = self.next(journal, live, ForkKind::Data, from)? {
            from = lost.file_block;
            let mut piece = Extent { length_blocks: lost.length_blocks.min(most), ..lost };
            let mut is_shared = false;
            if live.shares(ForkKind::Data) {
                let run = sharing_run(journal.cache(), piece.start, piece.length_blocks)?;
                (is_shared, piece.length_blocks) = (run.shared, run.length_blocks);
            }
            // Also if this is the last file with the old blocks, so that they count as unshared.
            if let Some(copy) = self.find_copy(&piece) {
                let old = Extent { length_blocks: copy.length_blocks, ..piece };
                live.map_copy(journal, &old, &copy)?;
                continue;
            }
            let next_copy = self.shared.range(piece.start..).next();
            let until = next_copy.map_or(u64::MAX, |(next, _)| next.0 - piece.start.0);
            let length_blocks = u64::from(piece.length_blocks).min(until) as u32;
            let piece = Extent { length_blocks, ..piece };
            let copy = live.move_piece(journal, &piece)?;
            self.moved_blocks += u64::from(copy.length_blocks);
            if is_shared {
                self.shared.insert(piece.start, (copy.length_blocks, copy.start));
            }
        }
        Ok(())
    }

    /// Returns the copy of the first blocks of `piece`, which are shared, if they have moved.
    fn find_copy(&self, piece: &Extent) -> Option<Extent> {
        let (first, (length, copy)) = self.shared.range(..=piece.start).next_back()?;
        let skipped = u32::try_from(piece.start.0 - first.0).ok()?;
        let left = length.checked_sub(skipped).filter(|left| *left != 0)?;
        let start = FsBlock(copy.0 + u64::from(skipped));
        Some(Extent { start, length_blocks: left.min(piece.length_blocks), ..*piece })
    }

    fn move_directory(&mut self, journal: &Arc<Journal>, live: &Arc<LiveInode>) -> Result<()> {
        let geometry = journal.geometry();
        let length_blocks = 1 << geometry.directory_block_log;
        let mut from = FileBlock(0);
        while let Some(lost) = self.next(journal, live, ForkKind::Data, from)? {
            from = lost.file_block;
            let at = FileBlock(lost.file_block.0 & !u64::from(length_blocks - 1));
            let offset = geometry.blocks_to_bytes(at.0).ok_or(PosixError::FileTooLarge)?;
            let kind = match offset {
                DIRECTORY_FREE_BYTES.. => BlockKind::DirectoryFree,
                DIRECTORY_INDEX_BYTES.. => BlockKind::DirectoryIndex,
                _ => BlockKind::DirectoryData,
            };
            let shape = BlockShape { length_blocks, kind };
            let block = ForkBlock { fork: ForkKind::Data, at, shape, least_blocks: 1 };
            live.move_fork_block(journal, block)?;
            self.moved_blocks += u64::from(length_blocks);
        }
        Ok(())
    }

    fn move_target(&mut self, journal: &Arc<Journal>, live: &Arc<LiveInode>) -> Result<()> {
        let mut from = FileBlock(0);
        while let Some(lost) = self.next(journal, live, ForkKind::Data, from)? {
            from = lost.file_block;
            let mapping = live.inode().find(journal.cache(), ForkKind::Data, lost.file_block)?;
            // One buffer covers the whole extent.
            let Mapping::Extent(extent) = mapping else { return Err(PosixError::NotFound.into()) };
            let length_blocks = extent.length_blocks;
            let shape = BlockShape { length_blocks, kind: BlockKind::Symlink };
            let (fork, at) = (ForkKind::Data, extent.file_block);
            let block = ForkBlock { fork, at, shape, least_blocks: length_blocks };
            live.move_fork_block(journal, block)?;
            self.moved_blocks += u64::from(length_blocks);
        }
        Ok(())
    }

    /// Moves the blocks of the attribute fork: those of its btree with their buffers, and those of
    /// values, which are not logged.
    fn move_attributes(&mut self, journal: &Arc<Journal>, live: &Arc<LiveInode>) -> Result<()> {
        let fork = ForkKind::Attr;
        if self.next(journal, live, fork, FileBlock(0))?.is_none() {
            return Ok(());
        }
        let tree = live.attr_tree(journal)?;
        while let Some(lost) = self.next(journal, live, fork, FileBlock(0))? {
            let at = lost.file_block;
            if tree.contains(&at) {
                let shape = BlockShape { length_blocks: 1, kind: BlockKind::Attr };
                live.move_fork_block(journal, ForkBlock { fork, at, shape, least_blocks: 1 })?;
                self.moved_blocks += 1;
                continue;
            }
            let next_block = tree.range(at..).next().map_or(lost.end(), |next| *next);
            let length_blocks = (lost.end().min(next_block).0 - at.0) as u32;
            let moved = live.move_value(journal, &Extent { length_blocks, ..lost })?;
            self.moved_blocks += u64::from(moved);
        }
        Ok(())
    }

    fn move_map(
        &mut self,
        journal: &Arc<Journal>,
        live: &Arc<LiveInode>,
        fork: ForkKind,
    ) -> Result<()> {
        if !matches!(live.inode().fork(fork), Fork::Btree(_)) {
            return Ok(());
        }
        let end = self.end.0;
        while with_transaction(journal, TransactionKind::Write, 1, |tx| {
            live.move_map_block(tx, fork, |block| block >= end)
        })? {
            self.moved_blocks += 1;
        }
        Ok(())
    }
}

impl LiveInode {
    /// Moves the first blocks of `old`, a part of an extent of the data fork, to newly allocated
    /// blocks. Returns the new extent.
    fn move_piece(self: &Arc<Self>, journal: &Arc<Journal>, old: &Extent) -> Result<Extent> {
        let fork = ForkKind::Data;
        self.in_moving_step(journal, old.length_blocks.into(), |tx| {
            let Some(new) = self.space_for(tx, fork, old, 1)? else { return Ok(None) };
            let old = Extent { length_blocks: new.length_blocks, ..*old };
            if !old.unwritten {
                let device = ContentsDevice::of(self, tx.cache())?;
                data::copy(device, &old, &new, BlockRange::of(&old))?;
            }
            self.replace_extent(tx, fork, &old, &new)?;
            Ok(Some(new))
        })
    }

    /// Maps `copy`, which another file has too, in place of `old`, with the same contents.
    fn map_copy(
        self: &Arc<Self>,
        journal: &Arc<Journal>,
        old: &Extent,
        copy: &Extent,
    ) -> Result<()> {
        self.in_moving_step(journal, 0, |tx| {
            tx.join(self.log_item());
            self.load_map(tx.cache(), ForkKind::Data)?;
            defer_share(tx, Section::Data, blocks(copy));
            self.replace_extent(tx, ForkKind::Data, old, copy)?;
            Ok(Some(()))
        })
    }

    /// Moves the first blocks of `old`, which hold parts of values of attributes. Returns the
    /// number of blocks that have moved.
    fn move_value(self: &Arc<Self>, journal: &Arc<Journal>, old: &Extent) -> Result<u32> {
        let fork = ForkKind::Attr;
        self.in_moving_step(journal, old.length_blocks.into(), |tx| {
            let Some(new) = self.space_for(tx, fork, old, 1)? else { return Ok(None) };
            let old = Extent { length_blocks: new.length_blocks, ..*old };
            copy_value(tx, &old, &new)?;
            self.replace_extent(tx, fork, &old, &new)?;
            Ok(Some(new.length_blocks))
        })
    }

    /// Moves a metadata block of a fork to newly allocated blocks.
    fn move_fork_block(self: &Arc<Self>, journal: &Arc<Journal>, block: ForkBlock) -> Result<()> {
        let ForkBlock { fork, at, shape, least_blocks } = block;
        let blocks = u64::from(shape.length_blocks);
        let overhead = blocks * map_blocks(journal.geometry(), fork);
        let tx = journal.begin(TransactionKind::Rename, blocks + 2 * overhead)?;
        let moved = tx.commit_or_cancel(|tx| {
            let old_buffer = self.fork_block(tx, fork, at, shape)?;
            self.check_growth(fork, i64::from(shape.length_blocks))?;
            let mut bytes = old_buffer.bytes().to_vec();
            let range = BlockRange { start: at, length_blocks: blocks };
            let Some(new) = self.space_for_all(tx, fork, range, least_blocks)? else {
                return Ok(false);
            };
            tx.invalidate(&old_buffer);
            for piece in &new {
                self.replace_range(tx, fork, piece)?;
            }
            let buffer = self.claim_fork_block(tx, fork, at, shape)?;
            shape.kind.set_address(&mut bytes, buffer.at());
            tx.change(&buffer, 0..bytes.len(), |new| new.copy_from_slice(&bytes));
            Ok(true)
        })?;
        if moved { Ok(()) } else { Err(PosixError::NoSpace.into()) }
    }

    /// Runs `work` in a transaction with `blocks` blocks and those for the extent map. `work`
    /// returns `None`, with no map changed, if the volume has no room. The free lists that its
    /// search has filled are then committed.
    fn in_moving_step<R>(
        &self,
        journal: &Arc<Journal>,
        blocks: u64,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<Option<R>>,
    ) -> Result<R> {
        let reserved = blocks + 2 * map_blocks(journal.geometry(), ForkKind::Data);
        with_transaction(journal, TransactionKind::Write, reserved, work)?
            .ok_or_else(|| Error::from(PosixError::NoSpace))
    }

    /// Allocates between `least` blocks and all blocks for a copy of `old`. Returns `None` if the
    /// volume has no room.
    fn space_for(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        old: &Extent,
        least: u32,
    ) -> Result<Option<Extent>> {
        self.find_joined(tx, fork, old.file_block)?;
        self.check_growth(fork, 2)?;
        let overhead = map_blocks(tx.geometry(), fork) as u32;
        let target = self.allocation_target(tx.geometry(), fork, old.file_block);
        let request =
            SpaceRequest::new(target, least, old.length_blocks).with_minimum_left(overhead);
        let found = allocate_extent(tx, &request)?;
        Ok(found.map(|BlockExtent { start, length_blocks }| Extent {
            start,
            length_blocks,
            ..*old
        }))
    }

    /// Allocates blocks for a whole range of a fork, in pieces of at least `least` blocks. Returns
    /// `None` if the volume has no room; the pieces that it had are then freed in later steps.
    fn space_for_all(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        range: BlockRange,
        least: u32,
    ) -> Result<Option<Vec<Extent>>> {
        let mut pieces = Vec::new();
        let mut next = range.start;
        while next < range.end() {
            let length_blocks = (range.end().0 - next.0) as u32;
            let rest =
                Extent { file_block: next, start: FsBlock(0), length_blocks, unwritten: false };
            let Some(piece) = self.space_for(tx, fork, &rest, least)? else {
                for piece in &pieces {
                    defer_free(tx, blocks(piece), None, BlockPurpose::File);
                }
                return Ok(None);
            };
            next = piece.end();
            pieces.push(piece);
        }
        Ok(Some(pieces))
    }

    /// Maps `new` in place of the extents that the fork has in the same range.
    fn replace_range(&self, tx: &mut Transaction<'_>, fork: ForkKind, new: &Extent) -> Result<()> {
        let mut done = 0;
        while done < new.length_blocks {
            let rest = rest_after(new, done);
            let mapping = self.find_joined(tx, fork, rest.file_block)?;
            let Mapping::Extent(found) = mapping else { return Err(PosixError::NotFound.into()) };
            let found = BlockRange::of(&rest).cut(&found);
            let old = found.expect("the extent at the start of a range is in it");
            let piece = Extent { length_blocks: old.length_blocks, ..rest };
            self.replace_extent(tx, fork, &old, &piece)?;
            done += old.length_blocks;
        }
        Ok(())
    }

    /// Maps `new` in place of `old`, a part of an extent, and gives up the blocks of `old`.
    fn replace_extent(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        old: &Extent,
        new: &Extent,
    ) -> Result<()> {
        let target = NewMapping::Blocks { start: new.start, unwritten: old.unwritten };
        let change = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), fork)?;
            plan(map, BlockRange::of(old), target, GroupStarts::NONE)
        };
        self.change_map(tx, fork, &change, 0)?;
        defer_unmap(tx, &self.file_mapping(tx.geometry(), fork, old));
        defer_map(tx, &self.file_mapping(tx.geometry(), fork, new));
        self.free_blocks(tx, fork, old);
        Ok(())
    }
}

/// Copies blocks with parts of values of attributes, each with its new address.
fn copy_value(tx: &Transaction<'_>, old: &Extent, new: &Extent) -> Result<()> {
    let (cache, geometry) = (tx.cache(), tx.geometry());
    let from = on_disk(geometry, old)?;
    let mut bytes = vec![0; from.length_bytes as usize];
    let offset = from.at.byte_offset().ok_or(PosixError::InvalidArgument)?;
    crate::contents::read_contents(&**cache.device(), offset, &mut bytes).map_err(|source| {
        xfs_buffer::IoError::new("read", from.at, from.length_bytes.into(), source)
    })?;
    let to = on_disk(geometry, new)?;
    let step = u64::from(geometry.block_basic_blocks());
    for (index, block) in (0..).zip(bytes.chunks_mut(geometry.block_size as usize)) {
        remote::set_address(block, DiskAddr(to.at.0 + index * step));
    }
    let buffer = cache.claim(&[to], BlockKind::AttrRemote)?;
    buffer.bytes_mut().copy_from_slice(&bytes);
    // The block was never logged, so it has no LSN.
    let written = cache.write(&buffer, Lsn(0));
    buffer.unlatch();
    written
}

fn on_disk(geometry: &Geometry, extent: &Extent) -> Result<BufferExtent> {
    let at = geometry.block_disk_addr(extent.start).ok_or(PosixError::InvalidArgument)?;
    let length_bytes = extent.length_blocks << geometry.block_log;
    Ok(BufferExtent { at, length_bytes })
}
