//! The end of a group that a shrinking volume will lose: moving the group's own blocks out of it,
//! and cutting it off.
//!
//! Owns: the free list and the btrees of the AGF, and the change of the headers that shortens the
//! group. Does **not** own the inode btrees (`inodes`), or blocks of files.

use std::ops::Range;

use xfs_btree::Seek;
use xfs_buffer::{Buffer, PosixError, Result};
use xfs_format::agfl::{self, AGFL_SECTOR, Agfl};
use xfs_format::agi::Agi;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::ReverseMap;
use xfs_format::{AgBlock, BlockKind, Geometry};
use xfs_trans::Transaction;

use super::GroupSpace;
use super::btrees::GroupBtree;
use super::search::Search;
use crate::deferred::FreeWork;
use crate::mappings::OwnedExtent;
use crate::owner::{BlockPurpose, ExtentOwner};

/// The offsets of the bytes of the AGI that name the newest chunk of inodes.
const NEWEST_INODE_BYTES: Range<usize> = 32..36;
/// Number of free blocks that moving a block of a btree of the group may need.
const MOVING_BLOCKS: u32 = 4;

/// The state of a group whose own blocks have to move before its new end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupEnd {
    /// All blocks after the new end are free.
    Free,
    /// Blocks after the new end are in use.
    Used,
    /// Blocks after the new end are in use, and the group has too few free blocks before it.
    NoRoom,
}

impl GroupSpace {
    /// Returns the state of the group, whose blocks from `end` on the volume will lose.
    pub(crate) fn end_state(&self, tx: &Transaction<'_>, end: u32) -> Result<GroupEnd> {
        if end >= self.agf.length_blocks || self.ends_free(tx, end)? {
            return Ok(GroupEnd::Free);
        }
        let needed = self.count_listed_from(tx, end)? + MOVING_BLOCKS;
        Ok(if self.blocks_for_sure() < needed { GroupEnd::NoRoom } else { GroupEnd::Used })
    }

    /// Whether the volume is shrinking and will lose blocks of this group.
    pub(super) const fn withholds(&self) -> bool {
        self.withheld_from != u32::MAX
    }

    /// Returns the first block that an allocation for this purpose may not take.
    pub(super) fn limit_for(&self, purpose: Option<BlockPurpose>) -> u32 {
        if self.withholds() { self.state.lock().withheld.limit_for(purpose) } else { u32::MAX }
    }

    /// Returns the number of blocks in a range that the volume will lose.
    pub(super) fn withheld_in(&self, range: &Range<u32>) -> u32 {
        range.end.saturating_sub(range.start.max(self.withheld_from))
    }

    /// Updates the count of free blocks that the volume will lose, after blocks became free or were
    /// taken. `change` gets the count and the number of these blocks in the range.
    pub(super) fn count_withheld(&self, range: &Range<u32>, change: impl Fn(u32, u32) -> u32) {
        let blocks = self.withheld_in(range);
        if blocks != 0 {
            let mut inner = self.state.lock();
            inner.withheld.free_blocks = change(inner.withheld.free_blocks, blocks);
        }
    }

    /// Replaces the blocks of the free list that lie at or after `end`. First the list gets as many
    /// other blocks, so that it is never too short (I2). Then the old ones leave it; later steps
    /// free them. Returns whether the list had such blocks.
    pub(crate) fn clear_list_from(&mut self, tx: &mut Transaction<'_>, end: u32) -> Result<bool> {
        let misplaced = self.count_listed_from(tx, end)?;
        if misplaced == 0 {
            return Ok(false);
        }
        self.lengthen_free_list(tx)?;
        let mut missing = misplaced;
        while missing > 0 {
            let found = Search::new(tx, self).below(end).for_free_list(missing)?;
            // The fallback of the search looks at the longest extent, whatever its place.
            let found = found.filter(|(_, range)| range.end <= end);
            let (from, range) = found.ok_or(PosixError::NoSpace)?;
            self.take_free(tx, from, range.clone())?;
            self.add_mapping(tx, &OwnedExtent::new(ExtentOwner::GROUP, range.clone()))?;
            missing = missing.saturating_sub(range.end - range.start);
            for block in range {
                self.put_on_list(tx, block)?;
            }
        }
        for _ in 0..self.agf.free_list.count {
            let block = self.take_from_list(tx)?;
            if block < end {
                self.put_on_list(tx, block)?;
            } else {
                let block = self.fs_block(tx, block);
                tx.defer(FreeWork::of_free_list(block).boxed());
            }
        }
        Ok(true)
    }

    /// Returns the number of blocks of the free list that lie at or after `end`.
    fn count_listed_from(&self, tx: &Transaction<'_>, end: u32) -> Result<u32> {
        let geometry = tx.geometry();
        let at = geometry.header_disk_addr(self.number, AGFL_SECTOR);
        let list = tx.cache().read(at, geometry.sector_size, BlockKind::Agfl)?;
        let bytes = list.bytes();
        let blocks = Agfl::decode(&bytes, at, geometry.version)?.blocks(self.agf.free_list)?;
        let mut misplaced = 0;
        for block in blocks {
            misplaced += u32::from(block?.0 >= end);
        }
        Ok(misplaced)
    }

    /// Clears the unused entries of the free list that name blocks at or after `end`. A verifier
    /// also checks entries that are not in use.
    fn forget_listed_from(&self, tx: &mut Transaction<'_>, end: u32) -> Result<()> {
        let geometry = tx.geometry();
        let at = geometry.header_disk_addr(self.number, AGFL_SECTOR);
        let list = tx.read(at, geometry.sector_size, BlockKind::Agfl)?;
        for index in 0..agfl::capacity(geometry) {
            let range = agfl::entry_range(index);
            let is_lost = list.bytes().get(range.clone()).is_some_and(|entry| {
                // Bytes of a number in big-endian order compare as the number does.
                *entry >= end.to_be_bytes()[..] && *entry != AgBlock::NULL.0.to_be_bytes()[..]
            });
            if is_lost {
                let empty = AgBlock::NULL.0.to_be_bytes();
                tx.change(&list, range, |entry| entry.copy_from_slice(&empty));
            }
        }
        Ok(())
    }

    /// Moves one block of a btree of the group that lies at or after `end`. Returns `false` if no
    /// btree has such a block. The free list must have no block from `end` on.
    pub(crate) fn move_btree_block(&mut self, tx: &mut Transaction<'_>, end: u32) -> Result<bool> {
        self.fill_free_list(tx)?;
        Ok(self.move_block_of::<FreeSpaceByBlock>(tx, end)?
            || self.move_block_of::<FreeSpaceBySize>(tx, end)?
            || self.move_block_of::<ReverseMap>(tx, end)?
            || self.move_block_of::<Refcounts>(tx, end)?)
    }

    fn move_block_of<F: GroupBtree>(&mut self, tx: &mut Transaction<'_>, end: u32) -> Result<bool> {
        if !self.has::<F>() {
            return Ok(false);
        }
        self.edit::<F>(tx)?.move_block(|block| block >= u64::from(end))
    }

    /// Whether all blocks from `start` to the end of the group are free.
    pub(crate) fn ends_free(&self, tx: &Transaction<'_>, start: u32) -> Result<bool> {
        Ok(self.free_extent_to_end(tx, start)?.is_some())
    }

    /// Returns the free extent that covers all blocks from `start` to the end of the group. `None`
    /// if one of these blocks is in use.
    fn free_extent_to_end(&self, tx: &Transaction<'_>, start: u32) -> Result<Option<FreeSpace>> {
        let found = Search::new(tx, self).by_block()?.seek(Seek::AtOrBefore(AgBlock(start)))?;
        Ok(found.filter(|free| free.end().0 == self.agf.length_blocks && free.start.0 <= start))
    }

    /// Cuts the end of the group off, which becomes the last one of the volume with `geometry`. All
    /// blocks of that end must be free. `agi` is the buffer of the group's inode header. This
    /// function changes no counter.
    #[doc(alias = "xfs_ag_shrink_space")]
    pub(crate) fn shorten(
        mut self,
        tx: &mut Transaction<'_>,
        agi: &Buffer,
        geometry: &Geometry,
    ) -> Result<()> {
        self.fill_free_list(tx)?;
        let length_blocks = geometry.ag_length(self.number);
        // The list may have taken blocks of the end, if no others were left.
        let from = self.free_extent_to_end(tx, length_blocks)?.ok_or(PosixError::NoSpace)?;
        self.take_free(tx, from, length_blocks..from.end().0)?;
        self.forget_listed_from(tx, length_blocks)?;
        // The newest chunk may have been freed since.
        let newest = Agi::decode(&agi.bytes(), agi.at(), tx.geometry())?.newest_inode;
        if newest.is_some_and(|inode| geometry.ag_inode_block(inode).0 >= length_blocks) {
            tx.change(agi, NEWEST_INODE_BYTES, |field| field.fill(u8::MAX));
        }
        self.set_length(tx, agi, geometry);
        self.close(tx);
        Ok(())
    }
}
