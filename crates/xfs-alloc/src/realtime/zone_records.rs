//! The on-disk state of each zone of a zoned realtime section: the count of its used blocks, and
//! its reverse map, from which the write pointer follows. Also the functions by which files take
//! and free blocks of zones.
//!
//! Owns: the count of used blocks in the inode of the reverse map, reading the records of a zone,
//! and the collection of one zone after the other. Does **not** own: the choice of zones
//! ([`zones`](super::zones)), or the change of the reverse map ([`work`](super::work)).

use std::sync::Arc;

use xfs_btree::Seek;
use xfs_buffer::Result;
use xfs_format::log_item::LoggedFields;
use xfs_format::realtime::{RealtimeReverseMap, RealtimeSpaceCheck};
use xfs_format::reservation::TransactionKind;
use xfs_format::rmap::{Rmap, RmapKey, RmapOwner};
use xfs_format::superblock::{Superblock, Unsupported};
use xfs_format::{AgBlock, FileBlock, FsBlock, InodeNumber};
use xfs_sync::MutexGuard;
use xfs_trans::{InodeRecord, Journal, Transaction};

use super::RealtimeSpace;
use super::group::{GroupTrees, RealtimeGroup, discards};
use super::reserve::{self, BtreeReserve};
use super::runs::{SpaceSizes, corrupt};
use super::tree::edit_tree;
use super::words::SpaceFiles;
use super::work::{InGroup, in_group, latch, space_of};
use super::zones::{CollectionStep, TakenBlocks, ZoneBlocks, ZoneUse, Zones};
use crate::discard::FreeSpaceClearing;
use crate::extent::BlockExtent;

/// Number of records of a zone that are read at once.
const RECORDS_AT_ONCE: usize = 64;

/// The result of [`take_zone_blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneSpace {
    /// These blocks were taken. The caller writes to them, and then maps them
    /// ([`use_zone_blocks`]) or gives them up ([`give_up_zone_blocks`]).
    Taken(BlockExtent),
    /// Users have not filled the section, but no zone has free blocks for them. Zones must be
    /// collected (garbage collection) before the request is repeated.
    NeedsCollection,
    /// Users have filled the section: the request fails with ENOSPC.
    Full,
}

/// An extent of a file in a zone, as the reverse map of the zone has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The inode number of the file.
    pub inode: InodeNumber,
    /// The first file block of the extent.
    pub file_block: FileBlock,
    /// The blocks of the realtime section that the extent covers.
    pub extent: BlockExtent,
}

impl RealtimeSpace {
    /// Makes the zones of a volume writable. `records` has the inodes with the reverse maps of the
    /// zones, in the order of the zones. The journal keeps the space from now on. No blocks are
    /// allocated before [`start_zones`](Self::start_zones) is called.
    ///
    /// # Errors
    ///
    /// The device's error; a corruption if a zone has more used blocks than blocks.
    pub fn open_zones(
        journal: &Arc<Journal>,
        superblock: &Superblock,
        records: Vec<Arc<InodeRecord>>,
    ) -> Result<()> {
        let (geometry, mut used, mut groups) = (journal.geometry(), Vec::new(), Vec::new());
        let mut wanted = 0;
        for (number, record) in (0..).zip(records) {
            let length = geometry.realtime.group_length(number);
            let blocks = reserve::reverse_map_blocks(geometry, length);
            let (in_use, own) =
                record.with_core(|core| (core.cow_extent_size_hint_blocks, core.blocks))?;
            if u64::from(in_use) > length {
                return Err(corrupt(RealtimeSpaceCheck::ZoneRecords { end: length, used: in_use }));
            }
            used.push(in_use);
            wanted += blocks.saturating_sub(own);
            groups.push(zone_group(record, length));
        }
        let space = Self {
            groups,
            has_groups: true,
            extent_blocks: 1,
            sequence: xfs_sync::AtomicU64::new(0),
            reserve: BtreeReserve::default(),
            zones: Some(Zones::new(superblock, &used)),
        };
        space.reserve.fill(journal, wanted);
        let _ = journal.extension(|| space);
        Ok(())
    }

    /// Finds the write pointer of each zone: the block after the last one in its reverse map. All
    /// intents of the log must be finished.
    ///
    /// # Errors
    ///
    /// The device's error; a corruption if a zone counts more used blocks than lie before its write
    /// pointer.
    pub fn start_zones(journal: &Arc<Journal>) -> Result<()> {
        let Some(space) = Self::of(journal) else { return Ok(()) };
        let Some(zones) = &space.zones else { return Ok(()) };
        let numbers = 0..journal.geometry().realtime.group_count;
        let written: Result<Vec<u32>> =
            numbers.map(|number| space.write_pointer(journal, number)).collect();
        zones.start(&written?)
    }

    /// Returns whether the section has zones.
    #[must_use]
    pub const fn has_zones(&self) -> bool {
        self.zones.is_some()
    }

    /// Returns the number of blocks of zones that users may fill in all; `None` without zones.
    #[must_use]
    pub fn zone_capacity(&self) -> Option<u64> {
        self.zones.as_ref().map(Zones::capacity)
    }

    pub(super) fn zones(&self) -> Result<&Zones> {
        self.zones.as_ref().ok_or_else(|| Unsupported::RealtimeData.into())
    }

    fn write_pointer(&self, journal: &Arc<Journal>, number: u32) -> Result<u32> {
        let last = self.with_records(journal, number, |editor| {
            let past = RmapKey { start: AgBlock(u32::MAX), owner: u64::MAX, offset: u64::MAX };
            editor(Seek::AtOrBefore(past)).map(|found| found.into_iter().next())
        })?;
        Ok(last.map_or(0, |record| record.end().0))
    }

    /// Calls `read` with a function that seeks a record of zone `number` and returns the records
    /// from there on, at most `RECORDS_AT_ONCE`.
    fn with_records<R>(
        &self,
        journal: &Arc<Journal>,
        number: u32,
        read: impl FnOnce(&mut dyn FnMut(Seek<RmapKey>) -> Result<Vec<Rmap>>) -> Result<R>,
    ) -> Result<R> {
        let record = self.group(number as usize).reverse_map.as_ref();
        let record = record.ok_or(Unsupported::RealtimeData)?;
        // No thread changes the records of the zone while the inode of their btree is latched.
        let mut tx = journal.begin(TransactionKind::ChangeInode, 0)?;
        latch(&mut tx, record);
        let found = edit_tree::<RealtimeReverseMap, _>(&mut tx, &self.reserve, record, |editor| {
            read(&mut |target| {
                let mut found = Vec::new();
                let mut next = editor.seek(target)?;
                while let Some(record) = next.filter(|_| found.len() < RECORDS_AT_ONCE) {
                    found.push(record);
                    next = editor.advance()?;
                }
                Ok(found)
            })
        });
        tx.cancel();
        found
    }
}

/// Returns the realtime group of a zone. It has no bitmap and no summary: only the reverse map in
/// `record` shows which blocks are used.
fn zone_group(record: Arc<InodeRecord>, length: u64) -> RealtimeGroup {
    let sizes = SpaceSizes { extents: length, bitmap_blocks: 0, block_extents: length };
    let files = SpaceFiles { bitmap: Vec::new(), summary: Vec::new(), owners: None };
    let trees = GroupTrees { reverse_map: Some(Arc::clone(&record)), refcounts: None };
    RealtimeGroup::new(record, files, sizes, trees)
}

fn zone_blocks(journal: &Journal, extent: BlockExtent) -> Result<ZoneBlocks> {
    let InGroup { number, blocks } = in_group(journal.geometry(), extent)?;
    Ok(ZoneBlocks { zone: number, start: blocks.start, count: extent.length_blocks })
}

/// Takes up to `wanted` blocks of one zone. `near` is the block that the file used last: its zone
/// is preferred.
///
/// # Errors
///
/// [`Unsupported::RealtimeData`] for a section without zones.
pub fn take_zone_blocks(
    journal: &Journal,
    near: Option<FsBlock>,
    wanted: u32,
    purpose: ZoneUse,
) -> Result<ZoneSpace> {
    let space = space_of(journal)?;
    let realtime = &journal.geometry().realtime;
    let near = near.and_then(|near| realtime.split_block(near)).map(|near| near.group);
    Ok(match space.zones()?.take(near, wanted, purpose) {
        TakenBlocks::Full => ZoneSpace::Full,
        TakenBlocks::NeedsCollection => ZoneSpace::NeedsCollection,
        TakenBlocks::Blocks(ZoneBlocks { zone, start, count }) => {
            let first = u64::from(zone) << realtime.group_blocks_log | u64::from(start);
            ZoneSpace::Taken(BlockExtent { start: FsBlock(first), length_blocks: count })
        }
    })
}

/// Gives up blocks that were taken but will not be mapped into a file, for example after a failed
/// write.
///
/// # Errors
///
/// A corruption if the section has no such blocks.
pub fn give_up_zone_blocks(journal: &Journal, extent: BlockExtent) -> Result<()> {
    space_of(journal)?.zones()?.give_up(zone_blocks(journal, extent)?);
    Ok(())
}

/// Adds blocks that were taken to the used blocks of their zone. The caller maps them into a file
/// in the same transaction step. Latches the inode of the zone, before any header of a group.
///
/// # Errors
///
/// The device's error; a corruption if the zone would have more used blocks than blocks.
#[doc(alias = "xfs_zone_record_blocks")]
pub fn use_zone_blocks(tx: &mut Transaction<'_>, extent: BlockExtent) -> Result<()> {
    let space = space_of(tx.journal())?;
    let blocks = zone_blocks(tx.journal(), extent)?;
    change_used(tx, &space, blocks.zone, |used| used.checked_add(blocks.count))?;
    space.zones()?.use_pending(blocks);
    Ok(())
}

/// Subtracts freed blocks from the used blocks of their zone. The transaction step must not have
/// latched another inode of the realtime section.
#[doc(alias = "xfs_zone_free_blocks")]
pub(super) fn free_zone_blocks(
    tx: &mut Transaction<'_>,
    space: &RealtimeSpace,
    extent: BlockExtent,
) -> Result<()> {
    let blocks = zone_blocks(tx.journal(), extent)?;
    change_used(tx, space, blocks.zone, |used| used.checked_sub(blocks.count))?;
    space.zones()?.free(blocks.zone, blocks.count)
}

/// Changes the number of used blocks in the inode of a zone (Z2).
fn change_used(
    tx: &mut Transaction<'_>,
    space: &RealtimeSpace,
    number: u32,
    change: impl FnOnce(u32) -> Option<u32>,
) -> Result<()> {
    let group = space.group(number as usize);
    group.lock(tx);
    let record = &group.space_record;
    let image = record.image()?;
    let used = image.core.cow_extent_size_hint_blocks;
    let length = tx.geometry().realtime.group_length(number);
    let changed = change(used).filter(|used| u64::from(*used) <= length);
    let changed =
        changed.ok_or_else(|| corrupt(RealtimeSpaceCheck::ZoneRecords { end: length, used }))?;
    tx.change_inode(
        record,
        LoggedFields::empty(),
        || image,
        |image| image.core.cow_extent_size_hint_blocks = changed,
    );
    Ok(())
}

/// The garbage collection of zones: it makes zones empty, so that they can be written again. One
/// thread at a time collects.
pub struct ZoneCollection<'a> {
    journal: &'a Arc<Journal>,
    space: Arc<RealtimeSpace>,
}

/// The right to collect zones, which one thread at a time has, until the guard is dropped.
pub struct CollectionGuard<'a> {
    _lock: MutexGuard<'a, ()>,
}

impl<'a> ZoneCollection<'a> {
    /// Returns the garbage collection of a volume with zones. Nothing is collected yet.
    ///
    /// # Errors
    ///
    /// [`Unsupported::RealtimeData`] for a section without zones.
    pub fn of(journal: &'a Arc<Journal>) -> Result<Self> {
        let space = space_of(journal)?;
        space.zones()?;
        Ok(Self { journal, space })
    }

    /// Waits until no other thread collects zones, and keeps other threads from it until the guard
    /// is dropped.
    ///
    /// # Errors
    ///
    /// [`Unsupported::RealtimeData`] for a section without zones.
    pub fn begin(&self) -> Result<CollectionGuard<'_>> {
        Ok(CollectionGuard { _lock: self.space.zones()?.begin_collection() })
    }

    /// Returns whether a write can take a block without a further collection.
    ///
    /// # Errors
    ///
    /// [`Unsupported::RealtimeData`] for a section without zones.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.space.zones()?.has_zone_for_users())
    }

    /// Resets all full zones without used blocks, and returns `None`. A volume that discards freed
    /// space discards them. If there is no such zone,
    /// returns the zone whose blocks the caller must move next, never one of `kept`. `Some(None)`
    /// means that no zone can be emptied.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    pub fn reset_or_choose(
        &self,
        _guard: &CollectionGuard<'_>,
        kept: &[u32],
    ) -> Result<Option<Option<u32>>> {
        match self.space.zones()?.next_step(kept) {
            CollectionStep::Move(zone) => Ok(Some(Some(zone))),
            CollectionStep::Stuck => Ok(Some(None)),
            CollectionStep::Reset(zones) => {
                // Z3: a crash after this line gives no block back to a file.
                self.journal.force_all()?;
                for zone in zones {
                    if discards(self.journal) {
                        // A discard is only a hint: its error is ignored.
                        drop(self.space.discard_zone(
                            self.journal,
                            zone,
                            FreeSpaceClearing::Discard,
                        ));
                    }
                    self.space.zones()?.reset(zone);
                }
                Ok(None)
            }
        }
    }

    /// Returns the number of used blocks of a zone.
    ///
    /// # Errors
    ///
    /// [`Unsupported::RealtimeData`] for a section without zones.
    pub fn used_blocks(&self, zone: u32) -> Result<u32> {
        Ok(self.space.zones()?.used(zone))
    }

    /// Returns the next records of a zone that start at block `from` of the zone or after it.
    ///
    /// # Errors
    ///
    /// The device's error, or a corrupt record.
    pub fn records(&self, zone: u32, from: u32) -> Result<Vec<ZoneRecord>> {
        let first = RmapKey { start: AgBlock(from), owner: 0, offset: 0 };
        let found = self
            .space
            .with_records(self.journal, zone, |records| records(Seek::AtOrAfter(first)))?;
        let base = u64::from(zone) << self.journal.geometry().realtime.group_blocks_log;
        let record = |found: Rmap| match found.owner {
            RmapOwner::Inode(inode) => Ok(ZoneRecord {
                inode,
                file_block: found.offset,
                extent: BlockExtent {
                    start: FsBlock(base | u64::from(found.start.0)),
                    length_blocks: found.count,
                },
            }),
            // A zone has only contents of files.
            _ => Err(corrupt(RealtimeSpaceCheck::Free { extent: found.start.0.into() })),
        };
        found.into_iter().map(record).collect()
    }
}
