//! Deferred changes of space metadata: one transaction step logs the intent to make a change, and a
//! later step makes the change.
//!
//! Owns: freeing extents, changes of the reverse map and of reference counts as deferred work, the
//! contents of their intents, and resuming intents that a crash has left open. Does **not** own the
//! order of the work or the intents' items: the transaction does.
//!
//! | work | intent | one step does |
//! |---|---|---|
//! | [`FreeWork`] | extent free | one extent |
//! | [`RmapWork`] | reverse map | one mapping |
//! | [`CountWork`] | reference counts | up to a limit of records; the rest is requeued |
//!
//! A step latches the header of its group. The group may have a lower number than another group
//! whose header the step has latched. If another thread then holds the header, the work is requeued
//! in a step of its own, so that no thread waits against the order of groups.
//!
//! # What a crash may do
//!
//! While the step that does the work is not durable, the log holds an open intent, and recovery
//! does the work. Once that step is durable, so is the completion in it, and no work is left.
//! Intents that recovery finds are checked like all bytes from disk.

use std::ops::Range;

use xfs_buffer::Result;
use xfs_format::log_item::{
    ExtentFree, LogItemCheck, RefcountAction, RefcountExtent, RmapAction, RmapExtent,
};
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{
    AgNumber, Corruption, FileBlock, FsBlock, Geometry, Group, InodeNumber, RoCompatFeatures,
    Structure, StructureAddress,
};
use xfs_trans::{Deferred, Finish, IntentPayload, Transaction};

use crate::extent::BlockExtent;
use crate::group::GroupSpace;
use crate::mappings::OwnedExtent;
use crate::owner::{BlockPurpose, ExtentOwner, Section};
use crate::realtime::{
    RealtimeCountWork, RealtimeFreeWork, RealtimeRmapWork, RealtimeSpace, resume_realtime,
};
use crate::reference_counts::CountChange;

/// A range of blocks of a file, as the file's extent map holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileMapping {
    /// The inode number of the file.
    pub inode: InodeNumber,
    /// The section that has the blocks.
    pub section: Section,
    /// Whether the blocks belong to the attribute fork.
    pub is_attr: bool,
    /// Whether the file may share blocks with other files.
    pub shares: bool,
    /// The first file block of the mapping, in its fork.
    pub offset: FileBlock,
    /// The block of the volume to which `offset` is mapped.
    pub start: FsBlock,
    /// Number of blocks.
    pub length_blocks: u32,
    /// Whether the blocks are unwritten: allocated, but read as zeros.
    pub is_unwritten: bool,
}

/// Splits an extent into its group and the blocks in that group. Returns `None` if the volume has
/// no such blocks.
fn in_group(geometry: &Geometry, extent: BlockExtent) -> Option<(AgNumber, Range<u32>)> {
    let (number, block) = geometry.split_block(extent.start)?;
    let group = Group::new(geometry, number)?;
    group
        .contains_extent(block, extent.length_blocks)
        .then(|| (number, block.0..block.0 + extent.length_blocks))
}

/// Converts an extent as [`in_group`] does, but returns an error if the volume has no such blocks.
fn checked(geometry: &Geometry, extent: BlockExtent) -> Result<(AgNumber, Range<u32>)> {
    in_group(geometry, extent).ok_or_else(|| out_of_range(geometry, extent).into())
}

/// Returns the address of the group that a block number names, for error messages. The group need
/// not exist.
fn place_of(geometry: &Geometry, start: FsBlock) -> StructureAddress {
    StructureAddress::Group(AgNumber((start.0 >> geometry.ag_blocks_log) as u32))
}

#[cold]
fn out_of_range(geometry: &Geometry, extent: BlockExtent) -> Corruption {
    let check = LogItemCheck::OutOfRange { field: "extent", value: extent.start.0 };
    Corruption::new(Structure::LogItem, place_of(geometry, extent.start), check)
}

/// The owner of the blocks that are to be freed.
#[derive(Clone, Copy, Debug)]
enum FreedOwner {
    /// The blocks belong to this owner. `None` for blocks of a file, whose reverse mapping has been
    /// removed already.
    Of(Option<ExtentOwner>),
    /// The owner is not known: the intent in the log does not name it.
    Unknown,
}

/// The deferred work of freeing an extent.
#[derive(Debug)]
pub(crate) struct FreeWork {
    extent: BlockExtent,
    owner: FreedOwner,
    /// The account to which the freed blocks are added: the volume's free blocks, or the reserve
    /// that the group keeps for its btrees. `None` for a block of the free list, because that block
    /// already counts as free.
    purpose: Option<BlockPurpose>,
}

impl FreeWork {
    /// Creates the work of freeing a block of the free-inode btree or of the reference count btree.
    /// The block goes back to the group's reserve for these btrees.
    pub(crate) const fn metadata(block: FsBlock, owner: ExtentOwner) -> Self {
        let extent = BlockExtent { start: block, length_blocks: 1 };
        Self { extent, owner: FreedOwner::Of(Some(owner)), purpose: Some(BlockPurpose::Metadata) }
    }

    /// Creates the work of freeing a block that the free list of a group has in excess.
    pub(crate) const fn of_free_list(block: FsBlock) -> Self {
        Self { purpose: None, ..Self::metadata(block, ExtentOwner::GROUP) }
    }

    pub(crate) fn boxed(self) -> Box<dyn Deferred> {
        Box::new(self)
    }
}

impl Deferred for FreeWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        Some(IntentPayload::ExtentFree(ExtentFree { start, length_blocks }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let (number, range) = checked(tx.geometry(), self.extent)?;
        let Some(mut group) = GroupSpace::open(tx, number)? else {
            return Ok(Finish::Again(self));
        };
        match self.owner {
            FreedOwner::Of(owner) => group.free(tx, range, owner, self.purpose)?,
            FreedOwner::Unknown => group.free_unknown(tx, range)?,
        }
        group.close(tx);
        Ok(Finish::Done)
    }
}

/// The deferred work of changing the reverse map.
#[derive(Debug)]
struct RmapWork {
    action: RmapAction,
    owner: ExtentOwner,
    extent: BlockExtent,
}

impl Deferred for RmapWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        let ExtentOwner { owner, offset, flags } = self.owner;
        let (owner, flags) = (owner.to_raw(), self.action.encode(flags));
        Some(IntentPayload::Rmap(RmapExtent { owner, start, offset, length_blocks, flags }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let (number, range) = checked(tx.geometry(), self.extent)?;
        let Some(mut group) = GroupSpace::open(tx, number)? else {
            return Ok(Finish::Again(self));
        };
        group.fill_free_list(tx)?;
        let mapping = OwnedExtent::new(self.owner, range);
        match self.action {
            RmapAction::Map | RmapAction::MapShared | RmapAction::Allocate => {
                group.add_mapping(tx, &mapping)?;
            }
            RmapAction::Unmap | RmapAction::UnmapShared | RmapAction::Free => {
                group.remove_mapping(tx, &mapping)?;
            }
            RmapAction::Convert | RmapAction::ConvertShared => {
                group.convert_mapping(tx, &mapping)?;
            }
        }
        group.close(tx);
        Ok(Finish::Done)
    }
}

/// The deferred work of changing reference counts.
#[derive(Debug)]
struct CountWork {
    change: CountChange,
    extent: BlockExtent,
}

impl Deferred for CountWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let BlockExtent { start, length_blocks } = self.extent;
        let flags = encode_count(self.change).encode();
        Some(IntentPayload::Refcount(RefcountExtent { start, length_blocks, flags }))
    }

    fn finish(self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let (number, range) = checked(tx.geometry(), self.extent)?;
        let Some(mut group) = GroupSpace::open(tx, number)? else {
            return Ok(Finish::Again(self));
        };
        group.fill_free_list(tx)?;
        let counted = group.count_references(tx, self.change, range.clone())?;
        if self.change == CountChange::Decrease {
            let end = counted.rest.as_ref().map_or(range.end, |rest| rest.start);
            group.mark_busy(tx, range.start..end);
        }
        for range in counted.unreferenced {
            let extent = group.extent(tx, range);
            defer_free(tx, extent, None, BlockPurpose::File);
        }
        let rest = counted.rest.map(|range| group.extent(tx, range));
        group.close(tx);
        Ok(match rest {
            Some(extent) => Finish::Again(Box::new(Self { extent, ..*self })),
            None => Finish::Done,
        })
    }
}

/// Frees blocks in a later transaction step. For blocks of metadata, `owner` is their owner; their
/// reverse mapping is removed with them, and their buffers must be invalid already. For blocks of a
/// file, `owner` is `None`, and the blocks must be unmapped already.
#[doc(alias = "xfs_free_extent_later")]
pub fn defer_free(
    tx: &mut Transaction<'_>,
    extent: BlockExtent,
    owner: Option<ExtentOwner>,
    purpose: BlockPurpose,
) {
    let purpose = Some(purpose);
    tx.defer(FreeWork { extent, owner: FreedOwner::Of(owner), purpose }.boxed());
}

/// Frees blocks of a file in a realtime group in a later transaction step. The blocks must be
/// unmapped already.
pub fn defer_free_realtime(tx: &mut Transaction<'_>, extent: BlockExtent) {
    tx.defer(Box::new(RealtimeFreeWork { extent }));
}

/// Adds the mapping of a file's blocks to the reverse map in a later transaction step, if the
/// volume has a reverse map.
#[doc(alias = "xfs_rmap_map_extent")]
pub fn defer_map(tx: &mut Transaction<'_>, mapping: &FileMapping) {
    defer_mapping(tx, mapping, [RmapAction::Map, RmapAction::MapShared]);
}

/// Removes the mapping of a file's blocks from the reverse map in a later transaction step, if the
/// volume has a reverse map.
#[doc(alias = "xfs_rmap_unmap_extent")]
pub fn defer_unmap(tx: &mut Transaction<'_>, mapping: &FileMapping) {
    defer_mapping(tx, mapping, [RmapAction::Unmap, RmapAction::UnmapShared]);
}

/// Converts the reverse mapping of a file's blocks from written to unwritten, or back, in a later
/// transaction step. `mapping` is the state before the conversion; the intent in the log holds the
/// state after it.
#[doc(alias = "xfs_rmap_convert_extent")]
pub fn defer_convert(tx: &mut Transaction<'_>, mapping: &FileMapping) {
    let new = FileMapping { is_unwritten: !mapping.is_unwritten, ..*mapping };
    defer_mapping(tx, &new, [RmapAction::Convert, RmapAction::ConvertShared]);
}

fn defer_mapping(tx: &mut Transaction<'_>, mapping: &FileMapping, actions: [RmapAction; 2]) {
    let [unshared, shared] = actions;
    let is_shared = mapping.shares && !mapping.is_attr;
    let action = if is_shared { shared } else { unshared };
    let mut flags = RmapFlags::empty();
    flags.set(RmapFlags::ATTR, mapping.is_attr);
    flags.set(RmapFlags::UNWRITTEN, mapping.is_unwritten);
    let FileMapping { inode, offset, start, length_blocks, .. } = *mapping;
    let owner = ExtentOwner { owner: RmapOwner::Inode(inode), offset, flags };
    let extent = BlockExtent { start, length_blocks };
    defer_map_work(tx, mapping.section, RmapWork { action, owner, extent });
}

fn defer_map_work(tx: &mut Transaction<'_>, section: Section, work: RmapWork) {
    if !tx.geometry().has_ro_compat(RoCompatFeatures::RMAPBT) {
        return;
    }
    match section {
        Section::Data => tx.defer(Box::new(work)),
        Section::Realtime if has_realtime_groups(tx) => {
            let RmapWork { action, owner, extent } = work;
            tx.defer(Box::new(RealtimeRmapWork { action, owner, extent }));
        }
        Section::Realtime => {}
    }
}

/// Returns whether changes of the reverse map and the reference counts of realtime groups must be
/// made. A recovery in memory does not make them, because its readers do not need these structures.
fn has_realtime_groups(tx: &Transaction<'_>) -> bool {
    RealtimeSpace::of(tx.journal()).is_some_and(|space| space.has_groups())
}

/// Adds one reference to these blocks in a later transaction step: one more file contains them.
#[doc(alias = "xfs_refcount_increase_extent")]
pub fn defer_share(tx: &mut Transaction<'_>, section: Section, extent: BlockExtent) {
    defer_count(tx, section, CountChange::Increase, extent);
}

/// Removes one reference from these blocks in a later transaction step. Blocks without any
/// reference left are freed.
#[doc(alias = "xfs_refcount_decrease_extent")]
pub fn defer_unshare(tx: &mut Transaction<'_>, section: Section, extent: BlockExtent) {
    defer_count(tx, section, CountChange::Decrease, extent);
}

/// Marks newly allocated blocks as staged for copy-on-write in a later transaction step. If a crash
/// comes before they are unstaged, recovery frees them.
#[doc(alias = "xfs_refcount_alloc_cow_extent")]
pub fn defer_stage(tx: &mut Transaction<'_>, section: Section, extent: BlockExtent) {
    defer_count(tx, section, CountChange::Stage, extent);
    let owner = ExtentOwner::STAGING;
    defer_map_work(tx, section, RmapWork { action: RmapAction::Allocate, owner, extent });
}

/// Removes the staging mark from blocks in a later transaction step. The caller must map the blocks
/// into a file next, or free them.
#[doc(alias = "xfs_refcount_free_cow_extent")]
pub fn defer_unstage(tx: &mut Transaction<'_>, section: Section, extent: BlockExtent) {
    let owner = ExtentOwner::STAGING;
    defer_map_work(tx, section, RmapWork { action: RmapAction::Free, owner, extent });
    defer_count(tx, section, CountChange::Unstage, extent);
}

fn defer_count(
    tx: &mut Transaction<'_>,
    section: Section,
    change: CountChange,
    extent: BlockExtent,
) {
    if !tx.geometry().has_ro_compat(RoCompatFeatures::REFLINK) {
        return;
    }
    match section {
        Section::Data => tx.defer(Box::new(CountWork { change, extent })),
        Section::Realtime if has_realtime_groups(tx) => {
            tx.defer(Box::new(RealtimeCountWork { change, extent }));
        }
        Section::Realtime => {}
    }
}

/// Returns the work of an intent that a crash has left open. Returns `None` if the intent is not
/// one of this crate: extents to free, changes of the reverse map, or changes of reference counts.
///
/// # Errors
///
/// Returns an error if the intent is invalid on this volume.
pub fn resume(geometry: &Geometry, promise: &IntentPayload) -> Result<Option<Box<dyn Deferred>>> {
    let work: Box<dyn Deferred> = match promise {
        IntentPayload::ExtentFree(free) => Box::new(resume_free(geometry, free)?),
        IntentPayload::Rmap(change) => Box::new(resume_map(geometry, change)?),
        IntentPayload::Refcount(change) => Box::new(resume_count(geometry, change)?),
        _ => return resume_realtime(geometry, promise),
    };
    Ok(Some(work))
}

fn resume_free(geometry: &Geometry, free: &ExtentFree) -> Result<FreeWork> {
    let ExtentFree { start, length_blocks } = *free;
    let extent = BlockExtent { start, length_blocks };
    checked(geometry, extent)?;
    Ok(FreeWork { extent, owner: FreedOwner::Unknown, purpose: Some(BlockPurpose::File) })
}

fn resume_map(geometry: &Geometry, change: &RmapExtent) -> Result<RmapWork> {
    let RmapExtent { owner, start, offset, length_blocks, flags } = *change;
    let extent = BlockExtent { start, length_blocks };
    let place = place_of(geometry, start);
    let wrong = |check: LogItemCheck| Corruption::new(Structure::LogItem, place, check);
    let (number, _) = checked(geometry, extent)?;
    let (action, map_flags) = RmapAction::decode(flags).map_err(wrong)?;
    let group = Group::new(geometry, number).ok_or_else(|| out_of_range(geometry, extent))?;
    let unknown = LogItemCheck::OutOfRange { field: "owner", value: owner };
    let owner = RmapOwner::from_raw(owner, &group).ok_or_else(|| wrong(unknown))?;
    if !geometry.has_ro_compat(RoCompatFeatures::RMAPBT) {
        return Err(wrong(LogItemCheck::Action { flags }).into());
    }
    let has_offset =
        matches!(owner, RmapOwner::Inode(_)) && !map_flags.contains(RmapFlags::FORK_BTREE);
    if offset.0 >> 54 != 0 || (!has_offset && offset.0 != 0) {
        return Err(wrong(LogItemCheck::OutOfRange { field: "offset", value: offset.0 }).into());
    }
    Ok(RmapWork { action, owner: ExtentOwner { owner, offset, flags: map_flags }, extent })
}

fn resume_count(geometry: &Geometry, change: &RefcountExtent) -> Result<CountWork> {
    let RefcountExtent { start, length_blocks, flags } = *change;
    let extent = BlockExtent { start, length_blocks };
    let wrong =
        |check: LogItemCheck| Corruption::new(Structure::LogItem, place_of(geometry, start), check);
    checked(geometry, extent)?;
    if !geometry.has_ro_compat(RoCompatFeatures::REFLINK) {
        return Err(wrong(LogItemCheck::Action { flags }).into());
    }
    let change = decode_count(RefcountAction::decode(flags).map_err(wrong)?);
    Ok(CountWork { change, extent })
}

pub(crate) const fn encode_count(change: CountChange) -> RefcountAction {
    match change {
        CountChange::Increase => RefcountAction::Increase,
        CountChange::Decrease => RefcountAction::Decrease,
        CountChange::Stage => RefcountAction::Stage,
        CountChange::Unstage => RefcountAction::Unstage,
    }
}

pub(crate) const fn decode_count(action: RefcountAction) -> CountChange {
    match action {
        RefcountAction::Increase => CountChange::Increase,
        RefcountAction::Decrease => CountChange::Decrease,
        RefcountAction::Stage => CountChange::Stage,
        RefcountAction::Unstage => CountChange::Unstage,
    }
}
