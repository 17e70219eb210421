//! Blocks of the data device that are kept for the btrees of realtime groups.
//!
//! Owns: the size of the reserve, and the blocks left in it. Does **not** own the blocks: the free
//! blocks of the volume are fewer by the reserve.
//!
//! An edit of a btree must not fail for lack of space, because the change of the file that caused
//! it is in the log already. So the reserve has room for one record for each block of each group.

use xfs_buffer::{Error, Result};
use xfs_format::Geometry;
use xfs_format::btree::BtreeKind;
use xfs_sync::{Mutex, Volume};
use xfs_trans::{Journal, Transaction};

/// The smallest reserve for the reverse map of a group: one block for each `RESERVED_PART` blocks
/// of the group.
const RESERVED_PART: u64 = 100;

/// The reserve for the btrees of all realtime groups of a volume.
#[derive(Debug, Default)]
pub(crate) struct BtreeReserve {
    left: Mutex<u64, Volume>,
}

impl BtreeReserve {
    /// Takes up to `wanted` blocks of the free blocks into the reserve. A volume with fewer free
    /// blocks gets a smaller reserve.
    #[doc(alias = "xfs_metafile_resv_init")]
    pub(super) fn fill(&self, journal: &Journal, wanted: u64) {
        let mut left = self.left.lock();
        let mut missing = wanted.saturating_sub(*left);
        while missing > 0 {
            let blocks = missing.min(journal.counts().free_blocks);
            if blocks == 0 || journal.count_free_blocks(-blocks.cast_signed()).is_ok() {
                *left += blocks;
                return;
            }
            missing /= 2;
        }
    }

    /// Moves one block from the reserve to the blocks that the transaction has reserved. If the
    /// reserve is empty, takes a free block.
    pub(super) fn draw(&self, tx: &mut Transaction<'_>) -> Result<()> {
        let mut left = self.left.lock();
        match left.checked_sub(1) {
            Some(rest) => *left = rest,
            // The btree is half changed already, so this must not look like a lack of space.
            None if tx.blocks_left() == 0 => {
                tx.journal().count_free_blocks(-1).map_err(|_| Error::Shutdown)?;
            }
            None => return Ok(()),
        }
        drop(left);
        tx.add_reserve(1);
        Ok(())
    }

    /// Takes a free block into the reserve, because a btree has given one back.
    pub(super) fn refill(&self, tx: &Transaction<'_>) {
        if tx.journal().count_free_blocks(-1).is_ok() {
            *self.left.lock() += 1;
        }
    }
}

/// Returns the number of blocks that a btree of this kind may have below its root, if it has one
/// record for each of `records` blocks.
#[doc(alias = "xfs_btree_calc_size")]
fn largest_btree(geometry: &Geometry, kind: BtreeKind, records: u64) -> u64 {
    let least = |level| (kind.layout().min_entries(level, geometry.block_size) as u64).max(2);
    let (mut level, mut total) = (0, 0);
    let mut blocks = records;
    while level == 0 || blocks > 1 {
        blocks = blocks.div_ceil(least(level));
        total += blocks;
        level += 1;
    }
    total
}

/// Returns the number of blocks to reserve for the reverse map of a group with `group_blocks`
/// blocks.
#[doc(alias = "xfs_rtrmapbt_calc_reserves")]
pub(super) fn reverse_map_blocks(geometry: &Geometry, group_blocks: u64) -> u64 {
    let all = largest_btree(geometry, BtreeKind::RealtimeReverseMap, group_blocks);
    all.max(group_blocks / RESERVED_PART)
}

/// Returns the number of blocks to reserve for the reference counts of a group with `group_blocks`
/// blocks.
#[doc(alias = "xfs_rtrefcountbt_calc_reserves")]
pub(super) fn refcount_blocks(geometry: &Geometry, group_blocks: u64) -> u64 {
    largest_btree(geometry, BtreeKind::RealtimeRefcount, group_blocks)
}
