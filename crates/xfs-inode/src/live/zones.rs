//! Writing to a file whose contents lie in zones: every write goes to new blocks.
//!
//! Owns: the order of taking blocks, writing data, and changing the map. Does **not** own: the
//! states of zones (`xfs-alloc`), or the collection of garbage ([`collect`](super::collect)).
//!
//! docs/internals/zoned.md has the invariants Z1 to Z6 and the crash argument.

use std::sync::Arc;

use xfs_alloc::{
    BlockExtent, RealtimeSpace, ZoneSpace, ZoneUse, give_up_zone_blocks, take_zone_blocks,
    use_zone_blocks,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::inode::ForkKind;
use xfs_format::{FileBlock, FsBlock};
use xfs_trans::{Journal, Transaction};

use super::LiveInode;
use super::collect::collect;
use super::copy::blocks;
use super::data::{self, FileBytes, clip};
use super::map::map_blocks;
use super::with_transaction::with_pool_transaction;
use super::write::{ContentsWriter, SizeRule, blocks_of};
use crate::edit::BlockRange;
use crate::extent_map::Mapping;

impl LiveInode {
    /// Whether the contents lie in zones, where garbage collection may move them.
    #[must_use]
    pub fn is_in_zones(&self, journal: &Journal) -> bool {
        self.is_realtime(journal.geometry())
            && RealtimeSpace::of(journal).is_some_and(|space| space.has_zones())
    }

    /// Maps the start of `new`, whose data has been written, in place of the file's old blocks. The
    /// mapped part ends where an extent or a hole of the old map ends. Returns the mapped part.
    /// With `only`, maps nothing and returns `None` unless the file still has these blocks there.
    #[doc(alias = "xfs_zoned_map_extent")]
    pub(super) fn replace_in_zones(
        &self,
        tx: &mut Transaction<'_>,
        new: &Extent,
        only: Option<FsBlock>,
    ) -> Result<Option<Extent>> {
        let mapping = self.find_joined(tx, ForkKind::Data, new.file_block)?;
        let range = BlockRange::of(new);
        let (old, end) = match mapping {
            Mapping::Extent(extent) => {
                let old = range.cut(&extent).ok_or(PosixError::InvalidArgument)?;
                (Some(old), old.end())
            }
            Mapping::Hole { end, .. } => (None, end.min(range.end())),
        };
        if only.is_some_and(|only| old.is_none_or(|old| old.start != only)) {
            return Ok(None);
        }
        let length_blocks = (end.0 - new.file_block.0) as u32;
        let part = Extent { length_blocks, unwritten: false, ..*new };
        self.check_growth(ForkKind::Data, 2)?;
        // The inode of the zone is latched before any header of a group.
        use_zone_blocks(tx, blocks(&part))?;
        if let Some(old) = old {
            self.take_extent(tx, ForkKind::Data, &old)?;
            self.free_blocks(tx, ForkKind::Data, &old);
        }
        self.put_extent(tx, ForkKind::Data, &part)?;
        Ok(Some(part))
    }
}

/// Returns the rest of an extent after its first blocks.
pub(super) fn rest_after(extent: &Extent, skipped: u32) -> Extent {
    Extent {
        file_block: FileBlock(extent.file_block.0 + u64::from(skipped)),
        start: FsBlock(extent.start.0 + u64::from(skipped)),
        length_blocks: extent.length_blocks - skipped,
        unwritten: extent.unwritten,
    }
}

/// Takes up to `wanted` blocks of a zone. Collects garbage as long as that helps (Z6: the caller
/// has no open transaction and no latched inode).
pub(super) fn take_blocks(
    journal: &Arc<Journal>,
    near: Option<FsBlock>,
    wanted: u32,
    purpose: ZoneUse,
) -> Result<BlockExtent> {
    loop {
        match take_zone_blocks(journal, near, wanted, purpose)? {
            ZoneSpace::Taken(extent) => return Ok(extent),
            ZoneSpace::Full => return Err(PosixError::NoSpace.into()),
            ZoneSpace::NeedsCollection if collect(journal)? => {}
            ZoneSpace::NeedsCollection => return Err(PosixError::NoSpace.into()),
        }
    }
}

impl ContentsWriter<'_> {
    /// Writes the first bytes of `piece` to new blocks of a zone. Returns the number of bytes
    /// written.
    pub(super) fn write_in_zones(&mut self, piece: FileBytes<'_>, size: SizeRule) -> Result<usize> {
        let geometry = self.journal.geometry();
        let range = blocks_of(geometry, piece.offset, piece.end());
        let new = self.take_in_zones(range)?;
        let piece = clip(piece, &new, geometry);
        let mut left = Some(new);
        let written = self.fill_in_zones(&new, piece).and_then(|()| {
            while let Some(rest) = left {
                let mapped = self.map_in_zones(&rest, piece, size)?;
                let rest = rest_after(&rest, mapped.length_blocks);
                left = (rest.length_blocks > 0).then_some(rest);
            }
            Ok(())
        });
        let Err(error) = written else { return Ok(piece.bytes.len()) };
        // The blocks of a step that failed in the middle are lost with the volume.
        if let Some(rest) = left.filter(|_| !self.journal.is_shut_down()) {
            give_up_zone_blocks(self.journal, blocks(&rest))?;
            let start = geometry.blocks_to_bytes(rest.file_block.0).unwrap_or(u64::MAX);
            let done = start.saturating_sub(piece.offset);
            if done > 0 && matches!(error, Error::Posix(_)) {
                return Ok(usize::try_from(done).unwrap_or(0).min(piece.bytes.len()));
            }
        }
        Err(error)
    }

    /// Takes blocks for the start of a range: in the zone of the preceding blocks of the file if
    /// possible. Each request either replaces blocks or adds them, so the range is cut where a hole
    /// starts or ends.
    fn take_in_zones(&self, range: BlockRange) -> Result<Extent> {
        let (near, purpose, end) = {
            let inode = self.live.inode();
            let map = inode.extent_map(self.journal.cache(), ForkKind::Data)?;
            let before = map.last_before(range.start).map(|before| before.start);
            match map.find(range.start) {
                Mapping::Hole { end, .. } => (before, ZoneUse::New, end.min(range.end())),
                Mapping::Extent(old) => {
                    let mut end = old.end();
                    for next in map.mappings_from(end).take_while(Mapping::is_written) {
                        if end >= range.end() {
                            break;
                        }
                        end = next.end();
                    }
                    (before.or(Some(old.start)), ZoneUse::Replace, end.min(range.end()))
                }
            }
        };
        let most = (end.0 - range.start.0).min(MAX_EXTENT_BLOCKS.into());
        let taken = take_blocks(self.journal, near, most as u32, purpose)?;
        let BlockExtent { start, length_blocks } = taken;
        Ok(Extent { file_block: range.start, start, length_blocks, unwritten: false })
    }

    /// Writes `piece` to new blocks. The rest of the first and the last block is copied from the
    /// file.
    fn fill_in_zones(&self, new: &Extent, piece: FileBytes<'_>) -> Result<()> {
        let (device, geometry) = (self.device()?, self.journal.geometry());
        let size = geometry.block_size as usize;
        let mut rest = piece;
        while !rest.bytes.is_empty() {
            let within = (rest.offset % size as u64) as usize;
            let whole = rest.bytes.len() - rest.bytes.len() % size;
            let length = match within {
                0 if whole > 0 => whole,
                _ => rest.bytes.len().min(size - within),
            };
            let (head, tail) = rest.bytes.split_at(length);
            if within == 0 && whole > 0 {
                data::write(device, new, FileBytes { bytes: head, ..rest })?;
            } else {
                let mut block = self.read_block(rest.offset - within as u64)?;
                let place = block.get_mut(within..within + length);
                place.ok_or(PosixError::InvalidArgument)?.copy_from_slice(head);
                let offset = rest.offset - within as u64;
                data::write(device, new, FileBytes { offset, bytes: &block })?;
            }
            rest = FileBytes { offset: rest.offset + length as u64, bytes: tail };
        }
        Ok(())
    }

    /// Reads the block of the file at byte `offset`. The latch keeps the collector from resetting
    /// the zone of the block before it is read.
    fn read_block(&self, offset: u64) -> Result<Vec<u8>> {
        let (device, geometry) = (self.device()?, self.journal.geometry());
        let mut block = vec![0; geometry.block_size as usize];
        let _latch = self.live.log_item().latch().shared();
        let mapping = {
            let inode = self.live.inode();
            inode.find(self.journal.cache(), ForkKind::Data, geometry.file_block(offset))?
        };
        if let Mapping::Extent(old) = mapping {
            data::read(device, &old, offset, &mut block)?;
        }
        Ok(block)
    }

    /// Maps the start of new blocks in one transaction, and sets the size and the times. Returns
    /// the mapped part.
    fn map_in_zones(
        &mut self,
        new: &Extent,
        piece: FileBytes<'_>,
        size: SizeRule,
    ) -> Result<Extent> {
        let (live, now, geometry) = (self.live, self.now, self.journal.geometry());
        let reserved = 2 * map_blocks(geometry, ForkKind::Data);
        with_pool_transaction(self.journal, reserved, &mut self.reservation, |tx| {
            let mapped = live.replace_in_zones(tx, new, None)?;
            let mapped = mapped.expect("a replacement without a condition maps blocks");
            live.wrote(tx, size.end(clip(piece, &mapped, geometry)), now);
            Ok(mapped)
        })
    }
}
