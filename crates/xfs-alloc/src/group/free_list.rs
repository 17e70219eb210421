//! The free list of a group: the reserve of blocks that its btrees grow from and shrink to.
//!
//! Owns: taking blocks from the list and adding blocks to it, its required length, and filling it
//! to that length. Does **not** own the accounting of the blocks for each btree, or the format of
//! the list.
//!
//! A change of free space can make the free-space btrees grow, and growing takes free space. The
//! free list breaks that circle. Before the change it is filled with as many blocks as the btrees
//! can take in the worst case. A btree that grows takes its block from the list.
//!
//! Blocks on the list may be busy. They are used for metadata, which is written to its home
//! location on disk only after its checkpoint. That checkpoint is never older than the checkpoint
//! that freed the block.

use xfs_buffer::{Buffer, Result};
use xfs_format::agf::Agf;
use xfs_format::agfl::{self, AGFL_SECTOR, Agfl, AgflCheck};
use xfs_format::reservation::BtreeHeights;
use xfs_format::{BlockKind, Structure};
use xfs_trans::Transaction;

use super::GroupSpace;
use super::search::Search;
use crate::deferred::FreeWork;
use crate::mappings::OwnedExtent;
use crate::owner::ExtentOwner;

/// Returns the number of blocks that the free list must hold before a change of the group's free
/// space.
///
/// Each btree may split from the leaf to the root and get a new root. While the list is filled
/// again, the btree may split once more, up to the new root.
#[doc(alias = "xfs_alloc_min_freelist")]
pub(crate) fn needed(agf: &Agf, most: &BtreeHeights) -> u32 {
    let levels = |levels: u32, most: u32| 2 * (levels + 1).min(most).max(1) - 2;
    let by_block = levels(agf.free_space_by_block.levels, most.free_space);
    let by_size = levels(agf.free_space_by_size.levels, most.free_space);
    let reverse_map = agf.reverse_map.map_or(0, |root| levels(root.levels, most.reverse_map));
    by_block + by_size + reverse_map
}

impl GroupSpace {
    /// Brings the free list to its required length. Excess blocks are freed in a later transaction
    /// step. Missing blocks are allocated, as far as the group has any. Returns `true` if any block
    /// was allocated.
    #[doc(alias = "xfs_alloc_fix_freelist")]
    pub(crate) fn fill_free_list(&mut self, tx: &mut Transaction<'_>) -> Result<bool> {
        self.shorten_free_list(tx)?;
        self.lengthen_free_list(tx)
    }

    pub(super) fn shorten_free_list(&mut self, tx: &mut Transaction<'_>) -> Result<()> {
        while self.agf.free_list.count > needed(&self.agf, &self.state.heights) {
            let block = self.take_from_list(tx)?;
            let block = self.fs_block(tx, block);
            tx.defer(FreeWork::of_free_list(block).boxed());
        }
        Ok(())
    }

    /// Allocates the blocks that the free list lacks, as far as the group has any. Returns `true`
    /// if any block was allocated.
    ///
    /// The step that frees an excess block of the list calls this function, and never shortens the
    /// list. Suppose that free extents of one block exactly fill the leaves of the btrees. Freeing
    /// the excess block can then split a leaf. A btree of two levels requires a longer list. The
    /// list takes blocks out of the leaves, and the leaves are joined again. The list then has
    /// excess blocks. If freeing an excess block could also shorten the list, each free could make
    /// more excess blocks, and the chain would have no end.
    pub(super) fn lengthen_free_list(&mut self, tx: &mut Transaction<'_>) -> Result<bool> {
        let mut has_taken = false;
        loop {
            // Taking blocks can add levels to the btrees, and a higher btree needs a longer list.
            let missing =
                needed(&self.agf, &self.state.heights).saturating_sub(self.agf.free_list.count);
            if missing == 0 {
                return Ok(has_taken);
            }
            let search = Search::new(tx, self).below(self.limit_for(None));
            let Some(found) = search.for_free_list(missing)? else {
                return Ok(has_taken);
            };
            has_taken = true;
            let (from, range) = found;
            self.take_free(tx, from, range.clone())?;
            self.add_mapping(tx, &OwnedExtent::new(ExtentOwner::GROUP, range.clone()))?;
            for block in range {
                self.put_on_list(tx, block)?;
            }
        }
    }

    /// Removes the block at the head of the list and returns it. An empty list is corruption,
    /// because the list is filled before each change (I2 of `xfs_alloc::group`).
    #[doc(alias = "xfs_alloc_get_freelist")]
    pub(super) fn take_from_list(&mut self, tx: &mut Transaction<'_>) -> Result<u32> {
        let list = self.list(tx)?;
        let bytes = list.bytes();
        let mut blocks =
            Agfl::decode(&bytes, list.at(), tx.geometry().version)?.blocks(self.agf.free_list)?;
        // I2 of the group: the list holds the blocks of one change.
        let Some(block) = blocks.next().transpose()? else {
            let (first, last) = (self.agf.free_list.first, self.agf.free_list.last);
            let check = AgflCheck::Range { first, last, count: 0 };
            return Err(self.corrupt(Structure::Agfl, check));
        };
        let range = &mut self.agf.free_list;
        range.first = (range.first + 1) % agfl::capacity(tx.geometry());
        range.count -= 1;
        Ok(block.0)
    }

    /// Adds `block` at the tail of the list.
    #[doc(alias = "xfs_alloc_put_freelist")]
    pub(super) fn put_on_list(&mut self, tx: &mut Transaction<'_>, block: u32) -> Result<()> {
        let at = tx.geometry().header_disk_addr(self.number, AGFL_SECTOR);
        let places = agfl::capacity(tx.geometry());
        let range = &mut self.agf.free_list;
        if range.count >= places {
            let (first, last, count) = (range.first, range.last, range.count);
            let check = AgflCheck::Range { first, last, count };
            return Err(self.corrupt(Structure::Agfl, check));
        }
        range.last = (range.last + 1) % places;
        range.count += 1;
        let list = tx.read(at, tx.geometry().sector_size, BlockKind::Agfl)?;
        let bytes = agfl::entry_range(range.last);
        tx.change(&list, bytes, |place| place.copy_from_slice(&block.to_be_bytes()));
        Ok(())
    }

    /// Returns the buffer of the free list, for reading. The latch of the AGF protects it.
    fn list(&self, tx: &Transaction<'_>) -> Result<Buffer> {
        let geometry = tx.geometry();
        let at = geometry.header_disk_addr(self.number, AGFL_SECTOR);
        tx.cache().read(at, geometry.sector_size, BlockKind::Agfl)
    }
}
