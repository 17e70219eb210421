//! Shrinking a volume.
//!
//! Owns: the space that is left of a smaller volume, keeping allocations out of the blocks that the
//! volume will lose, moving the btrees of the group that becomes the last one, and cutting that
//! group. Does **not** own: moving blocks of files (`xfs-inode`), the order of the whole
//! (`ferroxfs`), or the exclusion of other work.
//!
//! # Crash argument
//!
//! 1. Moving blocks is ordinary work in transactions. The size of the volume stays.
//! 2. Whole groups at the end are cut off while the volume is closed, by one write of the
//!    superblock. Nothing in other groups refers to them, and no log has to be replayed.
//! 3. The end of the last group is cut off in one transaction. The journal is frozen, so the log
//!    has no older changes of blocks in that end, which a replay could not verify any more. The
//!    superblock comes first in the transaction, as when a volume [grows](crate::grow()).
//! 4. Then the copies of the superblock are updated. Only repair tools read them.

use std::sync::Arc;

use xfs_btree::Seek;
use xfs_buffer::{BufferCache, IoError, PosixError, Result};
use xfs_device::Durability;
use xfs_format::agf::Agf;
use xfs_format::agi::AGI_SECTOR;
use xfs_format::btree::BtreeKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{self, SuperblockDisk};
use xfs_format::{AgBlock, AgNumber, BlockKind, DiskAddr, Geometry, Superblock};
use xfs_trans::{Journal, Transaction};
use zerocopy::FromBytes;

use crate::counters::VolumeCounters;
use crate::group::{GroupEnd, GroupSpace};
use crate::grow::{outside, update_copies};
use crate::headers::AgHeaders;
use crate::inodes::{inode_blocks, move_inode_btree_block};
use crate::open::{count_blocks, free_inode_blocks};
use crate::space::reservation::{
    ReserveDemand, Reserves, VisibleBlocks, free_space_btree_blocks, set_aside,
};
use crate::space::{AllocatorState, Withheld};

/// The space of a volume that shrinks, before anything is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShrinkSpace {
    /// Number of free blocks of the smaller volume that files can take. The reserves for btrees and
    /// the set-aside are subtracted, the pool is not.
    pub available_blocks: u64,
    /// Number of blocks in use that stand after the new end and have to move.
    pub moving_blocks: u64,
}

/// One group of a volume that shrinks.
struct ShrinkingGroup {
    headers: AgHeaders,
    withheld: Withheld,
    /// The reserves of the group in the smaller volume. Empty for a group that is cut off.
    reserves: Reserves,
}

/// Returns the space of the volume if it has the blocks and groups of `geometry`. Returns `None` if
/// the smaller volume has no room for the reserves of its btrees.
///
/// # Errors
///
/// The device's error, or a corrupt header or btree.
pub fn shrink_space(
    cache: &BufferCache,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<Option<ShrinkSpace>> {
    Ok(survey(cache, superblock, geometry)?.map(|(space, _)| space))
}

fn survey(
    cache: &BufferCache,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<Option<(ShrinkSpace, Vec<ShrinkingGroup>)>> {
    let (mut free, mut unavailable, mut moving) = (0, set_aside(geometry), 0);
    let (mut groups, mut demands) = (Vec::new(), Vec::new());
    for number in cache.geometry().groups() {
        let headers = AgHeaders::read(cache, number)?;
        let agf = &headers.agf;
        let from = if number.0 < geometry.ag_count { geometry.ag_length(number) } else { 0 };
        let lost = agf.length_blocks.saturating_sub(from);
        let withheld = match lost {
            0 => Withheld::default(),
            _ => Withheld { from, free_blocks: free_from(cache, &headers, from)? },
        };
        moving += u64::from(lost.saturating_sub(withheld.free_blocks));
        let inode_btree = free_inode_blocks(cache, &headers.agi)?;
        if from == 0 {
            moving = moving.saturating_sub(own_blocks(cache, &headers, inode_btree)?);
            demands.push(ReserveDemand::default());
        } else {
            let kept = agf.free_blocks.saturating_sub(withheld.free_blocks);
            free += u64::from(kept) + u64::from(agf.free_list.count) + u64::from(agf.btree_blocks);
            unavailable += u64::from(free_space_btree_blocks(agf));
            let shorter = Agf { length_blocks: from, ..agf.clone() };
            demands.push(ReserveDemand::new(superblock, &shorter, inode_btree));
        }
        groups.push(ShrinkingGroup { headers, withheld, reserves: Reserves::default() });
    }
    let mut visible = VisibleBlocks::new(free, unavailable, 0);
    for (group, demand) in groups.iter_mut().zip(&demands) {
        if !visible.hide_all(demand) {
            return Ok(None);
        }
        group.reserves = Reserves::of(demand);
    }
    let space = ShrinkSpace { available_blocks: visible.blocks(), moving_blocks: moving };
    Ok(Some((space, groups)))
}

/// Returns the number of free blocks of a group from block `from` on.
fn free_from(cache: &BufferCache, headers: &AgHeaders, from: u32) -> Result<u32> {
    if from == 0 {
        return Ok(headers.agf.free_blocks);
    }
    let mut cursor = headers.free_space(cache)?;
    let before = cursor.seek(Seek::AtOrBefore(AgBlock(from)))?;
    let mut free = before.map_or(0, |extent| extent.end().0.saturating_sub(from));
    let mut next = if before.is_some() { cursor.advance()? } else { cursor.first()? };
    while let Some(extent) = next {
        free += extent.count;
        next = cursor.advance()?;
    }
    Ok(free)
}

/// Returns the number of blocks of a group that hold the group itself: headers, free list and
/// btrees. They vanish with the group.
fn own_blocks(cache: &BufferCache, headers: &AgHeaders, free_inode_btree: u32) -> Result<u64> {
    let AgHeaders { agf, agi } = headers;
    let roots = 2 + u32::from(agf.reverse_map.is_some());
    let inode_btree = match agi.inode_btree_blocks {
        Some(blocks) => blocks,
        None => count_blocks(cache, agi.group, agi.inode_btree, BtreeKind::Inode)?,
    };
    let blocks = [
        cache.geometry().header_blocks(),
        roots,
        agf.btree_blocks,
        agf.refcount_blocks,
        agf.free_list.count,
        inode_btree,
        free_inode_btree,
    ];
    Ok(blocks.into_iter().map(u64::from).sum())
}

/// Keeps allocations out of the blocks that the volume will lose, until the journal is closed.
/// Calls with smaller and smaller volumes, or larger ones, may follow each other.
///
/// # Errors
///
/// [`PosixError::NoSpace`] if the smaller volume has no room for the reserves of its btrees; the
/// device's error; a corrupt header or btree.
pub fn withhold(journal: &Arc<Journal>, geometry: &Geometry) -> Result<()> {
    let superblock = journal.superblock();
    let (space, groups) =
        survey(journal.cache(), superblock, geometry)?.ok_or(PosixError::NoSpace)?;
    let state = AllocatorState::of(journal);
    for group in groups {
        let number = group.headers.group();
        let state = state.group(number).ok_or_else(|| outside(number))?;
        let mut inner = state.lock();
        inner.withheld = group.withheld;
        if group.withheld.from != 0 {
            inner.reserves = group.reserves;
        }
        drop(inner);
        state.publish(&group.headers.agf);
    }
    let now = journal.counts().free_blocks;
    journal.count_growth(space.available_blocks.wrapping_sub(now).cast_signed(), 0);
    Ok(())
}

/// Moves the free list and all btrees of the group that becomes the last one of the volume with
/// `geometry`, as far as they stand after the new end.
///
/// # Errors
///
/// [`PosixError::NoSpace`] if the group has no room before its new end; the device's error; a
/// corrupt header or btree; the error that stopped the log.
pub fn move_group_blocks(journal: &Arc<Journal>, geometry: &Geometry) -> Result<()> {
    let number = AgNumber(geometry.ag_count - 1);
    let end = geometry.ag_length(number);
    loop {
        match in_group(journal, number, |group, tx| group.end_state(tx, end))? {
            GroupEnd::Free => return Ok(()),
            GroupEnd::NoRoom => return Err(PosixError::NoSpace.into()),
            GroupEnd::Used => {}
        }
        while in_group(journal, number, |group, tx| group.clear_list_from(tx, end))? {}
        if in_group(journal, number, |group, tx| group.move_btree_block(tx, end))? {
            continue;
        }
        let blocks = inode_blocks(journal.geometry());
        let tx = journal.begin(TransactionKind::CreateUnnamed, blocks)?;
        if !tx.commit_or_cancel(|tx| move_inode_btree_block(tx, number, end))? {
            return Ok(());
        }
    }
}

/// Changes the space of one group in a transaction of its own.
fn in_group<R>(
    journal: &Arc<Journal>,
    number: AgNumber,
    change: impl FnOnce(&mut GroupSpace, &mut Transaction<'_>) -> Result<R>,
) -> Result<R> {
    journal.begin(TransactionKind::Write, 0)?.commit_or_cancel(|tx| {
        let group = GroupSpace::open(tx, number)?;
        let mut group = group.expect("a step that keeps no header waits for any (I1 of `group`)");
        let changed = change(&mut group, tx)?;
        group.leave(tx);
        Ok(changed)
    })
}

/// Cuts off whole groups at the end (step 2 of shrinking): writes the superblock with the blocks,
/// groups and counts of the groups that the geometry of `cache` has. The log must be clean, and the
/// journal closed. The change is durable on return.
///
/// # Errors
///
/// The device's error, or a corrupt header.
pub fn cut_groups(cache: &BufferCache) -> Result<()> {
    let (device, geometry) = (cache.device(), cache.geometry());
    let counters = VolumeCounters::sum(cache)?;
    let mut sector = vec![0; geometry.sector_size as usize];
    let failed = |operation: &'static str, source| {
        IoError::new(operation, DiskAddr(0), geometry.sector_size.into(), source)
    };
    device.read_at(&mut sector, 0).map_err(|source| failed("read", source))?;
    let (disk, _) = SuperblockDisk::mut_from_prefix(&mut sector)
        .unwrap_or_else(|_| unreachable!("a sector holds a superblock"));
    disk.data_blocks = geometry.data_blocks.into();
    disk.ag_count = geometry.ag_count.into();
    disk.inode_count = counters.inodes.into();
    disk.free_inodes = counters.free_inodes.into();
    disk.free_blocks = counters.free_blocks.into();
    superblock::seal(&mut sector);
    let written = device.write_at(&sector, 0, Durability::Cached);
    written.map_err(|source| failed("write", source))?;
    device.flush().map_err(|source| failed("flush", source).into())
}

/// Cuts off the end of the last group (step 3 of shrinking). The journal must be frozen, and
/// `geometry` must have as many groups as the volume. The change is durable on return. Returns
/// `false`, with nothing changed, if a block of that end is in use.
///
/// # Errors
///
/// The device's error, a corrupt header or btree, or the error that stopped the log.
#[doc(alias = "xfs_growfs_data")]
pub fn shorten_last_group(journal: &Arc<Journal>, geometry: &Geometry) -> Result<bool> {
    let before = journal.geometry();
    assert!(geometry.ag_count == before.ag_count, "whole groups are cut off before");
    let last = AgNumber(geometry.ag_count - 1);
    let mut tx = journal.begin_while_frozen(TransactionKind::Grow)?;
    tx.set_synchronous();
    tx.commit_or_cancel(|tx| {
        let (sector, agi_at) = (geometry.sector_size, geometry.header_disk_addr(last, AGI_SECTOR));
        let superblock = tx.read(DiskAddr(0), sector, BlockKind::Superblock)?;
        let agi = tx.read(agi_at, sector, BlockKind::Agi)?;
        let group = GroupSpace::open(tx, last)?.ok_or_else(|| outside(last))?;
        if !group.ends_free(tx, geometry.ag_length(last))? {
            group.leave(tx);
            return Ok(false);
        }
        tx.change(&superblock, 0..size_of::<SuperblockDisk>(), |bytes| {
            let (disk, _) = SuperblockDisk::mut_from_prefix(bytes)
                .unwrap_or_else(|_| unreachable!("the range has the size of a superblock"));
            let lost = before.data_blocks - geometry.data_blocks;
            disk.data_blocks = geometry.data_blocks.into();
            // A verifier refuses more free blocks than the volume has.
            disk.free_blocks = disk.free_blocks.get().saturating_sub(lost).into();
        });
        group.shorten(tx, &agi, geometry)?;
        Ok(true)
    })
}

/// Updates the copies of the superblock (step 4 of shrinking). The journal must be frozen.
///
/// # Errors
///
/// The first error of a copy. The other copies are updated nevertheless.
pub fn update_superblock_copies(journal: &Arc<Journal>) -> Result<()> {
    update_copies(journal, journal.geometry())
}
