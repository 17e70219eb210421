//! Garbage collection of zones: the blocks of a zone that files still have are moved, and the zone
//! is reset.
//!
//! Owns: the copies, and the change of the maps. Does **not** own: the choice of the zones
//! (`xfs-alloc`), or the cache of inodes, which the layer above gives as [`CachedInodes`].
//!
//! docs/internals/zoned.md has the argument why a collection makes room (Z4, Z5), and why readers
//! need no further lock.

use std::sync::Arc;

use xfs_alloc::{
    RealtimeSpace, ZoneCollection, ZoneRecord, ZoneSpace, ZoneUse, give_up_zone_blocks,
    take_zone_blocks,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::FsBlock;
use xfs_format::InodeNumber;
use xfs_format::extent::Extent;
use xfs_format::inode::ForkKind;
use xfs_trans::{BlockReservation, Journal};

use super::LiveInode;
use super::copy::blocks;
use super::data::{self, ContentsDevice};
use super::map::map_blocks;
use super::with_transaction::with_pool_transaction;
use super::zones::rest_after;
use crate::edit::BlockRange;

/// Number of bytes that are moved at once.
const MOVE_BYTES: u64 = 1 << 20;

/// Access to the inode cache of the mounted volume. Through it, the collector finds the files whose
/// blocks it moves.
pub trait CachedInodes: Send + Sync {
    /// Calls `work` with an inode, which stays in the cache meanwhile. Returns `false`, without a
    /// call, if the inode is free, or waits to be freed.
    ///
    /// # Errors
    ///
    /// The error of reading the inode, or that of `work`.
    fn with_inode(
        &self,
        number: InodeNumber,
        work: &mut dyn FnMut(&Arc<LiveInode>) -> Result<()>,
    ) -> Result<bool>;
}

/// The inodes that the collector of a volume can reach.
struct CollectorInodes(Box<dyn CachedInodes>);

/// Lets the collector of a volume with zones find files through `inodes`. Does nothing on a volume
/// without zones.
pub fn set_collector_inodes(journal: &Journal, inodes: Box<dyn CachedInodes>) {
    if RealtimeSpace::of(journal).is_some_and(|space| space.has_zones()) {
        let _ = journal.extension(|| CollectorInodes(inodes));
    }
}

/// Collects garbage until writers have a zone to write to. Returns `false` if no such zone can be
/// made. The caller has no open transaction, and no latched inode (Z6).
pub(super) fn collect(journal: &Arc<Journal>) -> Result<bool> {
    let collection = ZoneCollection::of(journal)?;
    let guard = collection.begin()?;
    // Zones that kept some blocks: these belong to a damaged inode, or to one that is being freed.
    let mut kept = Vec::new();
    // Another thread may have collected in the meantime.
    while !collection.is_done()? {
        match collection.reset_or_choose(&guard, &kept)? {
            None => {}
            Some(None) => return Ok(false),
            Some(Some(zone)) => {
                empty_zone(journal, &collection, zone)?;
                if collection.used_blocks(zone)? > 0 {
                    kept.push(zone);
                }
            }
        }
    }
    Ok(true)
}

/// Moves the blocks of a zone to another zone, except blocks of damaged inodes and of inodes that
/// are being freed.
fn empty_zone(journal: &Arc<Journal>, collection: &ZoneCollection<'_>, zone: u32) -> Result<()> {
    let inodes: Option<&Arc<CollectorInodes>> = journal.find_extension();
    let Some(inodes) = inodes else { return Ok(()) };
    let mut next = Some(0);
    while let Some(from) = next {
        let records = collection.records(zone, from)?;
        next = None;
        for record in records {
            let place = journal.geometry().realtime.split_block(record.extent.start);
            let start = place.map_or(u64::from(u32::MAX), |place| place.block) as u32;
            next = Some(start.saturating_add(record.extent.length_blocks));
            let moved =
                inodes.0.with_inode(record.inode, &mut |live| move_blocks(journal, live, record));
            match moved {
                // The zone keeps the blocks of a damaged file.
                Ok(_) | Err(Error::Corrupt(_)) if !journal.is_shut_down() => {}
                moved => drop(moved?),
            }
        }
    }
    Ok(())
}

/// Copies the blocks of a record to the collector's zone, and maps the copies.
fn move_blocks(journal: &Arc<Journal>, live: &Arc<LiveInode>, record: ZoneRecord) -> Result<()> {
    if !live.is_in_zones(journal) {
        return Ok(());
    }
    let most = (MOVE_BYTES >> journal.geometry().block_log).max(1) as u32;
    let ZoneRecord { file_block, extent, .. } = record;
    let (start, length_blocks) = (extent.start, extent.length_blocks);
    let mut rest = Extent { file_block, start, length_blocks, unwritten: false };
    while rest.length_blocks > 0 {
        let wanted = rest.length_blocks.min(most);
        let ZoneSpace::Taken(taken) = take_zone_blocks(journal, None, wanted, ZoneUse::Collect)?
        else {
            return Err(PosixError::NoSpace.into());
        };
        let old = Extent { length_blocks: taken.length_blocks, ..rest };
        let new = Extent { start: taken.start, ..old };
        let moved = copy_and_map(journal, live, &old, &new);
        // The blocks of a step that failed in the middle are lost with the volume.
        if !journal.is_shut_down() {
            let kept = moved.as_ref().map_or(0, |kept| *kept);
            let garbage = rest_after(&new, kept);
            if garbage.length_blocks > 0 {
                give_up_zone_blocks(journal, blocks(&garbage))?;
            }
        }
        moved?;
        rest = rest_after(&rest, taken.length_blocks);
    }
    Ok(())
}

/// Copies blocks of a file, and maps the copy as far as the file still has the old blocks. Returns
/// the number of blocks at the start of the copy that were mapped.
fn copy_and_map(
    journal: &Arc<Journal>,
    live: &Arc<LiveInode>,
    old: &Extent,
    new: &Extent,
) -> Result<u32> {
    let device = ContentsDevice::of(live, journal.cache())?;
    data::copy(device, old, new, BlockRange::of(old))?;
    let reserved = 2 * map_blocks(journal.geometry(), ForkKind::Data);
    let mut mapped = 0;
    while mapped < new.length_blocks {
        let rest = rest_after(new, mapped);
        let expected = FsBlock(old.start.0 + u64::from(mapped));
        let mut reservation = BlockReservation::default();
        let part = with_pool_transaction(journal, reserved, &mut reservation, |tx| {
            live.replace_in_zones(tx, &rest, Some(expected))
        });
        journal.release_blocks(reservation);
        let part = match part {
            // Copies that are mapped stay mapped.
            Err(Error::Posix(_)) if mapped > 0 && !journal.is_shut_down() => return Ok(mapped),
            part => part?,
        };
        // A writer has replaced or freed the rest.
        let Some(part) = part else { return Ok(mapped) };
        mapped += part.length_blocks;
    }
    Ok(mapped)
}
