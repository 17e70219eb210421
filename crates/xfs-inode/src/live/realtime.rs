//! The contents of a realtime file: whole realtime extents.
//!
//! Owns: which realtime extents a file takes and frees, and the units that follow from their size.
//! Does **not** own: the bitmap and the summary (`xfs-alloc`), or the contents.
//!
//! Space is allocated and freed in whole realtime extents. The file blocks of one realtime extent
//! may be in several records of the map, because some are written and some are not. Such an extent
//! is made unwritten before it is freed, so that one record covers it.

use std::sync::Arc;

use xfs_alloc::{
    BlockExtent, RealtimeFileSizes, RealtimeFiles, RealtimeGroupFiles, RealtimeSpace, Section,
    allocate_realtime, defer_convert, free_realtime, lock_realtime,
};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::extent::{Extent, ExtentCheck};
use xfs_format::inode::{FileType, ForkKind, InodeCore, InodeFlags2};
use xfs_format::realtime::{
    BITMAP_METATYPE, MetadataRootLayout, RealtimeSpaceCheck, SUMMARY_METATYPE,
};
use xfs_format::superblock::{Superblock, Unsupported};
use xfs_format::{
    Corruption, FileBlock, FsBlock, Geometry, InodeNumber, Structure, StructureAddress,
};
use xfs_trans::{InodeRecord, Journal, Transaction};

use super::LiveInode;
use super::copy::blocks;
use super::map::UNMAP_EXTENTS;
use crate::edit::{BlockRange, NewMapping, plan};
use crate::extent_map::ExtentMap;

impl LiveInode {
    /// Whether the contents are in the realtime section.
    #[must_use]
    pub fn is_realtime(&self, geometry: &Geometry) -> bool {
        if !geometry.realtime.is_present() {
            return false;
        }
        let inode = self.inode();
        inode.core().is_realtime() && inode.file_type() == FileType::Regular
    }

    /// Returns the number of blocks in which the file's space is freed: the realtime extent size
    /// for a realtime file, else 1.
    pub(super) fn freed_unit(&self, geometry: &Geometry) -> u64 {
        let is_realtime = self.is_realtime(geometry);
        if is_realtime { u64::from(geometry.realtime_extent_blocks).max(1) } else { 1 }
    }

    /// Returns the first file block past `size` that can be freed: the rest of the last block, and
    /// of the last realtime extent, stays.
    pub(super) fn first_past(&self, geometry: &Geometry, size: u64) -> FileBlock {
        let block = size.div_ceil(geometry.block_size.into());
        FileBlock(block.next_multiple_of(self.freed_unit(geometry)))
    }

    /// Returns an error unless this is a regular file with its contents on the data device.
    pub(crate) fn check_on_data_device(&self) -> Result<()> {
        let inode = self.inode();
        match inode.file_type() {
            FileType::Regular if inode.core().is_realtime() => {
                Err(Unsupported::RealtimeExchange.into())
            }
            FileType::Regular => Ok(()),
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Returns an error unless this is a regular file whose blocks may be shared or exchanged with
    /// those of `other`: both have their contents on the data device, or both in realtime groups
    /// with realtime extents of one block.
    pub(crate) fn check_shareable(&self, journal: &Journal, other: &Self) -> Result<()> {
        let geometry = journal.geometry();
        let sections = [self, other].map(|live| live.section(geometry, ForkKind::Data));
        match sections {
            [Section::Data, Section::Data] => {
                self.check_on_data_device()?;
                other.check_on_data_device()
            }
            [Section::Realtime, Section::Realtime] => {
                let space = RealtimeSpace::of(journal).ok_or(Unsupported::RealtimeData)?;
                match space.has_groups() && !space.has_zones() && space.extent_blocks() == 1 {
                    true => Ok(()),
                    false => Err(Unsupported::RealtimeExchange.into()),
                }
            }
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }

    /// Allocates realtime extents for the start of `hole`, without mapping them. `at` is the block
    /// from which on the caller wants blocks; the extent may start before it.
    pub(super) fn take_realtime(
        &self,
        tx: &mut Transaction<'_>,
        at: FileBlock,
        hole: BlockRange,
    ) -> Result<Extent> {
        let unit = self.freed_unit(tx.geometry());
        let wanted = hole.aligned(unit);
        let before = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), ForkKind::Data)?;
            let next = map.iter_from(wanted.start).next();
            let is_taken = next.is_some_and(|extent| extent.file_block < wanted.end());
            if is_taken {
                return Err(self.unaligned(wanted));
            }
            map.last_before(at)
        };
        let near = before.and_then(|before| before.start.checked_add(before.length_blocks.into()));
        let space =
            allocate_realtime(tx, near, wanted.length_blocks)?.ok_or(PosixError::NoSpace)?;
        let BlockExtent { start, length_blocks } = space;
        Ok(Extent { file_block: wanted.start, start, length_blocks, unwritten: false })
    }

    /// Unmaps up to two extents at the end of a range of a realtime file. A classic section frees
    /// them in the same step; in a section with groups this is deferred work. Returns the part of
    /// the range that remains, as [`unmap`](Self::unmap) does.
    pub(super) fn unmap_realtime(
        &self,
        tx: &mut Transaction<'_>,
        range: BlockRange,
    ) -> Result<Option<BlockRange>> {
        // Before any header of a group, which the map's btree may need.
        let space = lock_realtime(tx)?;
        let unit = self.freed_unit(tx.geometry());
        let mut rest = range;
        for _ in 0..UNMAP_EXTENTS {
            let Some(extent) = self.last_in(tx.cache(), ForkKind::Data, rest)? else {
                return Ok(None);
            };
            let Some(piece) = last_units(&extent, unit, space.step_blocks()) else {
                self.join_unit(tx, &extent, unit)?;
                return Ok(Some(rest));
            };
            if piece.file_block > range.start {
                // A hole in the middle of an extent splits it into two.
                self.check_growth(ForkKind::Data, 1)?;
            }
            if space.has_groups() {
                self.take_extent(tx, ForkKind::Data, &piece)?;
                self.free_blocks(tx, ForkKind::Data, &piece);
            } else {
                free_realtime(tx, blocks(&piece))?;
                self.take_extent(tx, ForkKind::Data, &piece)?;
            }
            rest = BlockRange::between(range.start, piece.file_block);
        }
        Ok(self.last_in(tx.cache(), ForkKind::Data, rest)?.map(|_| rest))
    }

    /// Makes the last unit of `extent` unwritten, so that one record of the map covers the whole
    /// unit, in place of several contiguous ones. The number of records grows only if the unit lies
    /// inside two records, of which it cuts off parts.
    fn join_unit(&self, tx: &mut Transaction<'_>, extent: &Extent, unit: u64) -> Result<()> {
        let end = extent.end();
        let start = FileBlock((end.0 - 1) / unit * unit);
        let whole = BlockRange { start, length_blocks: unit };
        let (change, written) = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), ForkKind::Data)?;
            let first =
                unit_start(map, whole, tx.geometry()).ok_or_else(|| self.unaligned(whole))?;
            let target = NewMapping::Blocks { start: first, unwritten: true };
            let starts = self.group_starts(tx.geometry(), ForkKind::Data);
            let parts = map.iter_from(whole.start).map_while(|part| whole.cut(part));
            let written: Vec<Extent> = parts.filter(|part| !part.unwritten).collect();
            (plan(map, whole, target, starts), written)
        };
        self.check_growth(ForkKind::Data, change.growth())?;
        self.change_map(tx, ForkKind::Data, &change, 0)?;
        for part in written {
            defer_convert(tx, &self.file_mapping(tx.geometry(), ForkKind::Data, &part));
        }
        Ok(())
    }

    /// Returns the error for a range whose mapping does not consist of whole realtime extents.
    #[cold]
    fn unaligned(&self, range: BlockRange) -> Error {
        let check = RealtimeSpaceCheck::Unaligned { start: range.start.0, end: range.end().0 };
        let at = StructureAddress::Data(self.number(), range.start);
        Corruption::new(Structure::Extent, at, check).into()
    }
}

/// Returns the first block of the space of a unit; `None` if the unit is not mapped to one run of
/// blocks that starts at a whole realtime extent.
fn unit_start(map: &ExtentMap, unit: BlockRange, geometry: &Geometry) -> Option<FsBlock> {
    let mut parts = map.iter_from(unit.start).map_while(|part| unit.cut(part));
    let first = parts.next().filter(|part| part.file_block == unit.start)?;
    let (mut next, mut block) = (first.end(), first.start.0 + u64::from(first.length_blocks));
    for part in parts {
        if part.file_block != next || part.start.0 != block {
            return None;
        }
        next = part.end();
        block += u64::from(part.length_blocks);
    }
    let in_group = geometry.realtime.split_block(first.start)?.block;
    let is_whole = next == unit.end() && in_group.is_multiple_of(unit.length_blocks);
    is_whole.then_some(first.start)
}

/// Returns the part of an extent with its last whole units, at most `most` blocks. Returns `None`
/// if the extent has no whole unit at its end.
fn last_units(extent: &Extent, unit: u64, most: u64) -> Option<Extent> {
    let end = extent.end().0;
    let start = extent.file_block.0.next_multiple_of(unit).max(end.saturating_sub(most));
    let start = start.next_multiple_of(unit);
    if start >= end || !end.is_multiple_of(unit) {
        return None;
    }
    BlockRange::between(FileBlock(start), FileBlock(end)).cut(extent)
}

/// Returns [`PosixError::NoSpace`] if the section has fewer free extents than `blocks` blocks need.
pub(super) fn check_realtime_room(journal: &Journal, blocks: u64) -> Result<()> {
    let space = RealtimeSpace::of(journal).ok_or(Unsupported::RealtimeData)?;
    let needed = blocks.div_ceil(space.extent_blocks());
    if needed > space.free_extents() { Err(PosixError::NoSpace.into()) } else { Ok(()) }
}

/// Reads the maps of the bitmap and the summary of a classic realtime section.
///
/// # Errors
///
/// The device's error; a corruption if one of the inodes is not a regular file of enough blocks on
/// the data device, or if both are one inode.
pub fn realtime_files(journal: &Journal, superblock: &Superblock) -> Result<RealtimeFiles> {
    let sizes = RealtimeFileSizes::of(superblock);
    if superblock.realtime_bitmap_inode == superblock.realtime_summary_inode {
        return Err(wrong_file(superblock.realtime_summary_inode));
    }
    let bitmap = LiveInode::load(journal, superblock.realtime_bitmap_inode)?;
    let summary = LiveInode::load(journal, superblock.realtime_summary_inode)?;
    files_of(journal, &bitmap, &summary, sizes)
}

pub(super) fn files_of(
    journal: &Journal,
    bitmap: &LiveInode,
    summary: &LiveInode,
    sizes: RealtimeFileSizes,
) -> Result<RealtimeFiles> {
    Ok(RealtimeFiles {
        bitmap: file_extents(journal, bitmap, sizes.bitmap_blocks)?,
        summary: file_extents(journal, summary, sizes.summary_blocks)?,
        summary_inode: summary.number(),
        bitmap_record: Arc::clone(bitmap.log_item()),
    })
}

/// The inodes of a realtime group, as the metadata directory names them.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeGroupInodes {
    /// The inode of the bitmap.
    pub bitmap: InodeNumber,
    /// The inode of the summary.
    pub summary: InodeNumber,
    /// The inode with the root of the reverse map, if the volume has one.
    pub reverse_map: Option<InodeNumber>,
    /// The inode with the root of the reference counts, if the volume has them.
    pub refcounts: Option<InodeNumber>,
}

/// Reads the files of a realtime group, and checks that they are those of group `group`.
///
/// # Errors
///
/// The device's error; a corruption if one of the inodes is not the file of this group for which
/// `inodes` names it.
pub fn realtime_group_files(
    journal: &Journal,
    superblock: &Superblock,
    group: u32,
    inodes: RealtimeGroupInodes,
) -> Result<RealtimeGroupFiles> {
    let load = |number, metatype| {
        let live = LiveInode::load(journal, number)?;
        check_metadata_file(live.inode().core(), group, metatype)?;
        Ok::<_, Error>(live)
    };
    let bitmap = load(inodes.bitmap, BITMAP_METATYPE)?;
    let summary = load(inodes.summary, SUMMARY_METATYPE)?;
    let tree = |number: Option<InodeNumber>, kind: BtreeKind| {
        let Some(number) = number else { return Ok(None) };
        let record = journal.inode(number)?;
        let metatype =
            MetadataRootLayout::metatype(kind).expect("a btree of a realtime group has a metatype");
        check_metadata_file(&record.core()?, group, metatype)?;
        Ok::<_, Error>(Some(record))
    };
    Ok(RealtimeGroupFiles {
        space: files_of(journal, &bitmap, &summary, RealtimeFileSizes::of(superblock))?,
        reverse_map: tree(inodes.reverse_map, BtreeKind::RealtimeReverseMap)?,
        refcounts: tree(inodes.refcounts, BtreeKind::RealtimeRefcount)?,
    })
}

/// Checks that inode `number` holds the reverse map of zone `zone`, and returns the log record of
/// the inode.
///
/// # Errors
///
/// The device's error; a corruption if the inode is another file.
pub fn zone_record(journal: &Journal, zone: u32, number: InodeNumber) -> Result<Arc<InodeRecord>> {
    let record = journal.inode(number)?;
    let metatype = MetadataRootLayout::metatype(BtreeKind::RealtimeReverseMap).unwrap_or(0);
    check_metadata_file(&record.core()?, zone, metatype)?;
    Ok(record)
}

/// Checks that an inode is a file of the metadata directory with this type, of this group.
fn check_metadata_file(core: &InodeCore, group: u32, metatype: u16) -> Result<()> {
    let is_it = core.flags2.contains(InodeFlags2::METADATA)
        && core.metafile_type == metatype
        && core.project_id == group;
    if is_it { Ok(()) } else { Err(wrong_file(core.number)) }
}

fn file_extents(journal: &Journal, live: &LiveInode, blocks: u64) -> Result<Vec<Extent>> {
    let inode = live.inode();
    let size = blocks.checked_mul(journal.geometry().block_size.into());
    let is_metadata = inode.file_type() == FileType::Regular && !inode.core().is_realtime();
    if !is_metadata || size.is_none_or(|size| inode.core().size < size) {
        return Err(wrong_file(live.number()));
    }
    let map = inode.extent_map(journal.cache(), ForkKind::Data)?;
    Ok(map.iter().copied().collect())
}

#[cold]
fn wrong_file(number: InodeNumber) -> Error {
    let check = ExtentCheck::NotMapped { file_block: FileBlock(0) };
    Corruption::new(Structure::Extent, StructureAddress::Inode(number), check).into()
}
