//! Changes of the mapping of a fork: allocating blocks for a range, converting extents, unmapping.
//!
//! Owns: one step of each operation inside a transaction, with the changes of the reverse map,
//! reference counts and free space. Does **not** own the chain of transactions for a long range, or
//! file data.
//!
//! Each step makes all checks that may refuse the change before it changes anything.

use xfs_alloc::{
    BlockExtent, BlockPurpose, FileMapping, RealtimeSpace, Section, allocate_extent, defer_convert,
    defer_free, defer_free_realtime, defer_map, defer_unmap, defer_unshare,
};
use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::btree::BtreeKind;
use xfs_format::extent::{
    Extent, FILE_BLOCK_LIMIT, MAX_ATTR_EXTENTS, MAX_BIG_ATTR_EXTENTS, MAX_BIG_EXTENTS,
    MAX_EXTENT_BLOCKS, MAX_EXTENTS,
};
use xfs_format::inode::{FileType, ForkKind, InodeCore, InodeFlags2};
use xfs_format::reservation::BtreeHeights;
use xfs_format::superblock::Unsupported;
use xfs_format::{FileBlock, Geometry};
use xfs_trans::Transaction;

use super::LiveInode;
use crate::edit::{BlockRange, GroupStarts, NewMapping, plan};
use crate::extent_map::Mapping;
use crate::map_counts::{MapCounts, MapUse};

/// Number of extents that one transaction step unmaps: as many as the log reservation of a
/// truncation allows.
#[doc(alias = "XFS_ITRUNC_MAX_EXTENTS")]
pub(super) const UNMAP_EXTENTS: usize = 2;

/// A request to map blocks to a range of a fork.
#[derive(Clone, Copy, Debug)]
pub struct MapRequest {
    /// The fork to change.
    pub fork: ForkKind,
    /// The range of file blocks in the fork.
    pub range: BlockRange,
    /// Whether newly allocated blocks are unwritten: they read as zeros until they are converted.
    pub unwritten: bool,
}

impl LiveInode {
    /// Maps the start of a range and returns its mapping: the part of the range that one extent
    /// covers. If the range starts with a hole, allocates blocks for it. The transaction must have
    /// reserved the requested blocks and [`map_blocks`] more. If fewer blocks are left, fewer are
    /// allocated.
    ///
    /// # Errors
    ///
    /// [`PosixError::NoSpace`], [`PosixError::FileTooLarge`] with no change made;
    /// [`Unsupported::RealtimeData`]; the device's error; the check that failed;
    /// [`Error::Shutdown`](xfs_buffer::Error::Shutdown) if the map's btree cannot grow.
    #[doc(alias = "xfs_bmapi_write")]
    pub fn map(&self, tx: &mut Transaction<'_>, request: &MapRequest) -> Result<Extent> {
        let MapRequest { fork, range, unwritten } = *request;
        MapCounts::of(tx.journal()).note(MapUse::Write);
        if let Mapping::Extent(extent) = self.find_joined(tx, fork, range.start)? {
            return range.cut(&extent).ok_or_else(|| PosixError::InvalidArgument.into());
        }
        let extent = Extent { unwritten, ..self.take_space(tx, fork, range)? };
        self.put_extent(tx, fork, &extent)?;
        Ok(extent)
    }

    /// Allocates blocks for the start of a range that is a hole, without mapping them.
    pub(super) fn take_space(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        range: BlockRange,
    ) -> Result<Extent> {
        let mapping = self.find_joined(tx, fork, range.start)?;
        let hole = BlockRange::between(range.start, mapping.end().min(range.end()));
        let is_hole = matches!(mapping, Mapping::Hole { .. });
        if range.end().0 > FILE_BLOCK_LIMIT || hole.is_empty() || !is_hole {
            return Err(PosixError::FileTooLarge.into());
        }
        self.check_growth(fork, 1)?;
        if self.is_realtime_fork(tx, fork) {
            return self.take_realtime(tx, range.start, hole);
        }
        let overhead = map_blocks(tx.geometry(), fork);
        let left = tx.blocks_left().saturating_sub(overhead).max(1);
        let wanted = hole.length_blocks.min(left).min(MAX_EXTENT_BLOCKS.into()) as u32;
        for request in self.requests(tx.journal(), fork, range.start, wanted) {
            let request = request.with_minimum_left(overhead as u32);
            if let Some(BlockExtent { start, length_blocks }) = allocate_extent(tx, &request)? {
                let file_block = range.start;
                return Ok(Extent { file_block, start, length_blocks, unwritten: false });
            }
        }
        Err(PosixError::NoSpace.into())
    }

    /// Maps an extent, whose blocks the caller has allocated, into a hole.
    pub(crate) fn put_extent(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        extent: &Extent,
    ) -> Result<()> {
        let target = NewMapping::Blocks { start: extent.start, unwritten: extent.unwritten };
        let change = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), fork)?;
            plan(map, BlockRange::of(extent), target, self.group_starts(tx.geometry(), fork))
        };
        self.change_map(tx, fork, &change, extent.length_blocks.into())?;
        MapCounts::of(tx.journal()).note(MapUse::Insertion);
        defer_map(tx, &self.file_mapping(tx.geometry(), fork, extent));
        Ok(())
    }

    /// Removes an extent, or a part of one, from the extent map. The caller must then free its
    /// blocks or use them elsewhere.
    pub(crate) fn take_extent(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        extent: &Extent,
    ) -> Result<()> {
        let change = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), fork)?;
            let starts = self.group_starts(tx.geometry(), fork);
            plan(map, BlockRange::of(extent), NewMapping::Hole, starts)
        };
        self.change_map(tx, fork, &change, -i64::from(extent.length_blocks))?;
        MapCounts::of(tx.journal()).note(MapUse::Deletion);
        defer_unmap(tx, &self.file_mapping(tx.geometry(), fork, extent));
        Ok(())
    }

    /// Converts one extent: the first one in a range that is not yet in the requested state,
    /// written or unwritten. Returns the file block after this extent, or the end of the range if
    /// there is no such extent.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    #[doc(alias = "xfs_bmapi_convert_unwritten")]
    pub fn convert(
        &self,
        tx: &mut Transaction<'_>,
        range: BlockRange,
        unwritten: bool,
    ) -> Result<FileBlock> {
        let fork = ForkKind::Data;
        MapCounts::of(tx.journal()).note(MapUse::Write);
        self.find_joined(tx, fork, range.start)?;
        let (extent, change) = {
            let inode = self.inode();
            let map = inode.extent_map(tx.cache(), fork)?;
            let inside = map.iter_from(range.start).map_while(|extent| range.cut(extent));
            let Some(extent) = inside.into_iter().find(|extent| extent.unwritten != unwritten)
            else {
                return Ok(range.end());
            };
            let starts = self.group_starts(tx.geometry(), fork);
            let target = NewMapping::Converted { unwritten };
            (extent, plan(map, BlockRange::of(&extent), target, starts))
        };
        self.check_growth(fork, change.growth())?;
        self.change_map(tx, fork, &change, 0)?;
        defer_convert(tx, &self.file_mapping(tx.geometry(), fork, &extent));
        Ok(extent.end())
    }

    /// Unmaps up to two extents at the end of a range and frees their blocks. Returns the part of
    /// the range that remains for the next step; `None` once nothing in the range is mapped.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    #[doc(alias = "xfs_bunmapi")]
    pub fn unmap(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        range: BlockRange,
    ) -> Result<Option<BlockRange>> {
        MapCounts::of(tx.journal()).note(MapUse::Unmap);
        self.find_joined(tx, fork, range.start)?;
        if self.is_realtime_fork(tx, fork) {
            return self.unmap_realtime(tx, range);
        }
        let mut rest = range;
        for _ in 0..UNMAP_EXTENTS {
            let Some(extent) = self.last_in(tx.cache(), fork, rest)? else { return Ok(None) };
            if extent.file_block > range.start {
                // A hole in the middle of an extent splits it into two.
                self.check_growth(fork, 1)?;
            }
            self.take_extent(tx, fork, &extent)?;
            self.free_blocks(tx, fork, &extent);
            rest = BlockRange::between(range.start, extent.file_block);
        }
        Ok(self.last_in(tx.cache(), fork, rest)?.map(|_| rest))
    }

    /// Returns the last extent in a range, cut to the range; `None` if nothing in the range is
    /// mapped.
    pub(crate) fn last_in(
        &self,
        cache: &BufferCache,
        fork: ForkKind,
        range: BlockRange,
    ) -> Result<Option<Extent>> {
        let inode = self.inode();
        let map = inode.extent_map(cache, fork)?;
        Ok(map.last_before(range.end()).and_then(|extent| range.cut(&extent)))
    }

    /// Returns the first part of a range of the data fork that is one extent or one hole. Also
    /// returns the extent of this part; `None` for a hole. The range must not be empty.
    pub(super) fn head_of(
        &self,
        cache: &BufferCache,
        range: BlockRange,
    ) -> Result<(BlockRange, Option<Extent>)> {
        let mapping = self.inode().find(cache, ForkKind::Data, range.start)?;
        let head = BlockRange::between(range.start, mapping.end().min(range.end()));
        Ok(match mapping {
            Mapping::Extent(extent) => {
                let found = head.cut(&extent);
                (head, Some(found.expect("the extent at the start of a range is in it")))
            }
            Mapping::Hole { .. } => (head, None),
        })
    }

    /// Frees the blocks of an extent that was unmapped before. If the blocks may be shared, removes
    /// one reference of each block instead. A block is freed with its last reference.
    pub(crate) fn free_blocks(&self, tx: &mut Transaction<'_>, fork: ForkKind, extent: &Extent) {
        let blocks = BlockExtent { start: extent.start, length_blocks: extent.length_blocks };
        let section = self.section(tx.geometry(), fork);
        match section {
            _ if self.shares(fork) => defer_unshare(tx, section, blocks),
            Section::Data => defer_free(tx, blocks, None, BlockPurpose::File),
            Section::Realtime => defer_free_realtime(tx, blocks),
        }
    }

    /// Joins the inode to the transaction, loads the extent map, and returns the mapping of a
    /// block.
    pub(crate) fn find_joined(
        &self,
        tx: &mut Transaction<'_>,
        fork: ForkKind,
        block: FileBlock,
    ) -> Result<Mapping> {
        tx.join(self.log_item());
        let inode = self.inode();
        if fork == ForkKind::Data && inode.core().is_realtime() {
            RealtimeSpace::of(tx.journal()).ok_or(Unsupported::RealtimeData)?;
        }
        inode.find(tx.cache(), fork, block)
    }

    /// Returns an error if the fork, with `growth` more extents, would have more extents than the
    /// inode can count. The caller calls this before its first change, with all extents that its
    /// operation may add.
    ///
    /// # Errors
    ///
    /// [`PosixError::FileTooLarge`] if the extents would be too many.
    #[doc(alias = "xfs_iext_count_may_overflow")]
    pub fn check_growth(&self, fork: ForkKind, growth: i64) -> Result<()> {
        let inode = self.inode();
        let count = inode.core().fork_extents(fork).checked_add_signed(growth);
        let count = count.expect("a change removes only extents of its fork");
        if growth > 0 && count > most_extents(inode.core(), fork) {
            return Err(PosixError::FileTooLarge.into());
        }
        Ok(())
    }

    /// Whether the blocks of the fork are in the realtime section.
    fn is_realtime_fork(&self, tx: &Transaction<'_>, fork: ForkKind) -> bool {
        self.section(tx.geometry(), fork) == Section::Realtime
    }

    /// Returns the section that has the blocks of the fork.
    pub(super) fn section(&self, geometry: &Geometry, fork: ForkKind) -> Section {
        match fork == ForkKind::Data && self.is_realtime(geometry) {
            true => Section::Realtime,
            false => Section::Data,
        }
    }

    /// Returns the blocks at which no extents of the fork may be joined.
    pub(super) fn group_starts(&self, geometry: &Geometry, fork: ForkKind) -> GroupStarts {
        match self.section(geometry, fork) {
            Section::Data => GroupStarts::NONE,
            Section::Realtime => GroupStarts::of_realtime(&geometry.realtime),
        }
    }

    /// Whether blocks of the fork may be shared with other files.
    pub(crate) fn shares(&self, fork: ForkKind) -> bool {
        fork == ForkKind::Data && self.inode().core().flags2.contains(InodeFlags2::REFLINK)
    }

    pub(crate) fn file_mapping(
        &self,
        geometry: &Geometry,
        fork: ForkKind,
        extent: &Extent,
    ) -> FileMapping {
        FileMapping {
            inode: self.number(),
            section: self.section(geometry, fork),
            is_attr: fork == ForkKind::Attr,
            shares: self.shares(fork),
            offset: extent.file_block,
            start: extent.start,
            length_blocks: extent.length_blocks,
            is_unwritten: extent.unwritten,
        }
    }

    /// Returns an error unless this is a regular file whose contents are on a device of the volume.
    pub(crate) fn check_regular(&self, geometry: &Geometry) -> Result<()> {
        let inode = self.inode();
        match inode.file_type() {
            FileType::Regular if inode.core().is_realtime() => check_section(geometry),
            FileType::Regular => Ok(()),
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Err(PosixError::InvalidArgument.into()),
        }
    }
}

/// Returns an error if the volume has no realtime section.
fn check_section(geometry: &Geometry) -> Result<()> {
    if geometry.realtime.is_present() { Ok(()) } else { Err(Unsupported::RealtimeData.into()) }
}

/// Returns the largest number of extents that the inode can count in a fork.
fn most_extents(core: &InodeCore, fork: ForkKind) -> u64 {
    match (fork, core.flags2.contains(InodeFlags2::NREXT64)) {
        (ForkKind::Data, true) => MAX_BIG_EXTENTS,
        (ForkKind::Data, false) => MAX_EXTENTS,
        (ForkKind::Attr, true) => MAX_BIG_ATTR_EXTENTS,
        (ForkKind::Attr, false) => MAX_ATTR_EXTENTS,
    }
}

/// Returns the number of blocks by which the extent map's btree may grow for one more extent: a
/// split of each level.
#[doc(alias = "XFS_EXTENTADD_SPACE_RES")]
#[must_use]
pub fn map_blocks(geometry: &Geometry, fork: ForkKind) -> u64 {
    u64::from(BtreeHeights::of_extents(geometry, fork).saturating_sub(1))
}

/// Returns the number of blocks by which the btree of a file's extent map may grow if `blocks`
/// blocks of contents are added. Each of them may be an extent of its own.
#[doc(alias = "xfs_bmap_worst_indlen")]
#[must_use]
pub fn map_blocks_at_worst(geometry: &Geometry, blocks: u64) -> u64 {
    if blocks == 0 {
        return 0;
    }
    let layout = BtreeKind::Extent.layout();
    // A block of the tree is at least half full.
    let per_block = |level: u64| {
        let most = match level {
            0 => layout.max_records(geometry.block_size),
            _ => layout.max_pointers(geometry.block_size),
        };
        (most as u64 / 2).max(1)
    };
    let levels = map_blocks(geometry, ForkKind::Data) + 1;
    let mut left = blocks;
    (0..levels)
        .map(|level| {
            left = left.div_ceil(per_block(level));
            left
        })
        .sum()
}
