//! Deferred work in realtime groups: freeing extents, changes of the reverse map and of reference
//! counts, and resuming this work after a crash.
//!
//! Owns: the contents of the intents, and the step that does the work. Does **not** own the order
//! of the work (the transaction does), or the changes of free space and records.
//!
//! A step of this work latches one inode of one realtime group, before any header of an allocation
//! group, and nothing else of the realtime section. So no two threads wait for each other.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::log_item::{
    ExtentFree, LogItemCheck, RefcountAction, RefcountExtent, RmapAction, RmapExtent,
};
use xfs_format::realtime::{RealtimeRefcounts, RealtimeReverseMap};
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::superblock::Unsupported;
use xfs_format::{
    AgNumber, Corruption, DiskAddr, FsBlock, Geometry, Group, Structure, StructureAddress,
};
use xfs_trans::{Deferred, Finish, InodeRecord, IntentPayload, Journal, Transaction};

use super::tree::edit_tree;
use super::zone_records::free_zone_blocks;
use super::{RealtimeGroup, RealtimeSpace};
use crate::deferred::decode_count;
use crate::extent::BlockExtent;
use crate::mappings::{MappingEditor, OwnedExtent};
use crate::owner::ExtentOwner;
use crate::reference_counts::{CountChange, CountEditor};

/// The blocks of an extent in its realtime group.
pub(super) struct InGroup {
    pub(super) number: u32,
    pub(super) blocks: Range<u32>,
}

pub(super) fn in_group(geometry: &Geometry, extent: BlockExtent) -> Result<InGroup> {
    let BlockExtent { start, length_blocks } = extent;
    let outside = || {
        let check = LogItemCheck::OutOfRange { field: "realtime extent", value: start.0 };
        Corruption::new(Structure::LogItem, StructureAddress::Disk(DiskAddr(0)), check)
    };
    let realtime = &geometry.realtime;
    let split = realtime.split_block(start).ok_or_else(outside)?;
    let first = u32::try_from(split.block).map_err(|_| outside())?;
    if !realtime.contains_extent(start, length_blocks.into()) {
        return Err(outside().into());
    }
    Ok(InGroup { number: split.group, blocks: first..first + length_blocks })
}

/// Returns the realtime space of a volume with realtime groups.
pub(super) fn space_of(journal: &Journal) -> Result<Arc<RealtimeSpace>> {
    let space = RealtimeSpace::of(journal).filter(|space| space.has_groups);
    Ok(Arc::clone(space.ok_or(Unsupported::RealtimeData)?))
}

/// Latches the inode of a btree until the end of the step.
pub(super) fn latch(tx: &mut Transaction<'_>, record: &Arc<InodeRecord>) {
    tx.join(record);
    tx.leave(record);
}

/// The deferred work of freeing realtime extents.
#[derive(Debug)]
pub(crate) struct RealtimeFreeWork {
    pub(crate) extent: BlockExtent,
}

impl Deferred for RealtimeFreeWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        Some(IntentPayload::RealtimeFree(ExtentFree { start, length_blocks }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let space = space_of(tx.journal())?;
        if space.has_zones() {
            free_zone_blocks(tx, &space, self.extent)?;
            return Ok(Finish::Done);
        }
        // The kernel frees long extents at once, but a step of ours has a bound (I2 of
        // `realtime`).
        // A bound above `u32::MAX` bounds nothing: `length_blocks` is a `u32`.
        let step = u32::try_from(space.step_blocks()).unwrap_or(u32::MAX);
        let BlockExtent { start, length_blocks } = self.extent;
        let now = BlockExtent { start, length_blocks: length_blocks.min(step) };
        let (number, extents) = space.extents_of(tx.geometry(), now)?;
        space.group(number as usize).lock(tx);
        space.release(tx, number, extents)?;
        Ok(match length_blocks - now.length_blocks {
            0 => Finish::Done,
            length_blocks => {
                let start = FsBlock(start.0 + u64::from(now.length_blocks));
                Finish::Again(Box::new(Self { extent: BlockExtent { start, length_blocks } }))
            }
        })
    }
}

/// The deferred work of changing the reverse map of a realtime group.
#[derive(Debug)]
pub(crate) struct RealtimeRmapWork {
    pub(crate) action: RmapAction,
    pub(crate) owner: ExtentOwner,
    pub(crate) extent: BlockExtent,
}

impl Deferred for RealtimeRmapWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        let ExtentOwner { owner, offset, flags } = self.owner;
        let (owner, flags) = (owner.to_raw(), self.action.encode(flags));
        Some(IntentPayload::RealtimeRmap(RmapExtent { owner, start, offset, length_blocks, flags }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let space = space_of(tx.journal())?;
        let InGroup { number, blocks } = in_group(tx.geometry(), self.extent)?;
        let group = space.group(number as usize);
        let Some(record) = &group.reverse_map else { return Ok(Finish::Done) };
        latch(tx, record);
        let (overlaps, place) = (group.refcounts.is_some(), place_of(record));
        let mapping = OwnedExtent::new(self.owner, blocks);
        edit_tree::<RealtimeReverseMap, ()>(tx, &space.reserve, record, |editor| {
            let mut map = MappingEditor { editor, overlaps, place };
            match self.action {
                RmapAction::Map | RmapAction::MapShared | RmapAction::Allocate => map.add(&mapping),
                RmapAction::Unmap | RmapAction::UnmapShared | RmapAction::Free => {
                    map.remove(&mapping)
                }
                RmapAction::Convert | RmapAction::ConvertShared => map.convert(&mapping),
            }
        })?;
        Ok(Finish::Done)
    }
}

fn place_of(record: &InodeRecord) -> StructureAddress {
    StructureAddress::Inode(record.number())
}

/// The deferred work of changing reference counts of a realtime group.
#[derive(Debug)]
pub(crate) struct RealtimeCountWork {
    pub(crate) change: CountChange,
    pub(crate) extent: BlockExtent,
}

impl RealtimeCountWork {
    /// Returns an extent of the group of this work.
    fn part(&self, geometry: &Geometry, number: u32, blocks: Range<u32>) -> BlockExtent {
        let start = u64::from(number) << geometry.realtime.group_blocks_log;
        let length_blocks = blocks.end - blocks.start;
        BlockExtent { start: FsBlock(start | u64::from(blocks.start)), length_blocks }
    }
}

impl Deferred for RealtimeCountWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        let flags = crate::deferred::encode_count(self.change).encode();
        Some(IntentPayload::RealtimeRefcount(RefcountExtent { start, length_blocks, flags }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let space = space_of(tx.journal())?;
        let geometry = tx.geometry();
        let InGroup { number, blocks } = in_group(geometry, self.extent)?;
        let group: &RealtimeGroup = space.group(number as usize);
        let record = group.refcounts.as_ref().ok_or(Unsupported::RealtimeData)?;
        latch(tx, record);
        let (change, place) = (self.change, place_of(record));
        let counted = edit_tree::<RealtimeRefcounts, _>(tx, &space.reserve, record, |editor| {
            CountEditor { editor, place }.change(change, blocks.clone())
        })?;
        if change == CountChange::Decrease {
            let end = counted.rest.as_ref().map_or(blocks.end, |rest| rest.start);
            // Reference counts need realtime extents of one block.
            space.note_busy(tx, number, blocks.start.into()..end.into());
        }
        for range in counted.unreferenced {
            let extent = self.part(geometry, number, range);
            tx.defer(Box::new(RealtimeFreeWork { extent }));
        }
        let rest = counted.rest.map(|range| self.part(geometry, number, range));
        Ok(match rest {
            Some(extent) => Finish::Again(Box::new(Self { extent, ..*self })),
            None => Finish::Done,
        })
    }
}

/// Returns the work of an intent about a realtime group that a crash has left open. Returns `None`
/// for another intent.
///
/// # Errors
///
/// Returns an error if the intent is invalid on this volume.
pub(crate) fn resume_realtime(
    geometry: &Geometry,
    promise: &IntentPayload,
) -> Result<Option<Box<dyn Deferred>>> {
    let work: Box<dyn Deferred> = match promise {
        IntentPayload::RealtimeFree(ExtentFree { start, length_blocks }) => {
            let extent = BlockExtent { start: *start, length_blocks: *length_blocks };
            in_group(geometry, extent)?;
            Box::new(RealtimeFreeWork { extent })
        }
        IntentPayload::RealtimeRmap(change) => Box::new(resume_map(geometry, change)?),
        IntentPayload::RealtimeRefcount(RefcountExtent { start, length_blocks, flags }) => {
            let extent = BlockExtent { start: *start, length_blocks: *length_blocks };
            in_group(geometry, extent)?;
            let change = decode_count(RefcountAction::decode(*flags).map_err(wrong)?);
            Box::new(RealtimeCountWork { change, extent })
        }
        _ => return Ok(None),
    };
    Ok(Some(work))
}

fn resume_map(geometry: &Geometry, change: &RmapExtent) -> Result<RealtimeRmapWork> {
    let RmapExtent { owner, start, offset, length_blocks, flags } = *change;
    let extent = BlockExtent { start, length_blocks };
    in_group(geometry, extent)?;
    let (action, flags) = RmapAction::decode(flags).map_err(wrong)?;
    let unknown = LogItemCheck::OutOfRange { field: "owner", value: owner };
    let group = Group::new(geometry, AgNumber(0)).ok_or_else(|| wrong(unknown))?;
    let owner = RmapOwner::from_raw(owner, &group).ok_or_else(|| wrong(unknown))?;
    let has_offset = matches!(owner, RmapOwner::Inode(_));
    if flags.intersects(RmapFlags::ATTR | RmapFlags::FORK_BTREE)
        || offset.0 >> 54 != 0
        || (!has_offset && offset.0 != 0)
    {
        return Err(wrong(LogItemCheck::OutOfRange { field: "offset", value: offset.0 }).into());
    }
    Ok(RealtimeRmapWork { action, owner: ExtentOwner { owner, offset, flags }, extent })
}

fn wrong(check: LogItemCheck) -> Corruption {
    Corruption::new(Structure::LogItem, StructureAddress::Disk(DiskAddr(0)), check)
}
