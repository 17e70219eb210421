//! Free space of a realtime section: one bitmap and one summary for a classic section, and one of
//! each for each group of a section with groups. Groups also have a reverse map and reference
//! counts.
//!
//! Owns: allocating and freeing realtime extents in a transaction, the locks of the groups, and the
//! count of free extents. Does **not** own: the maps of the files (the caller reads them), the maps
//! of realtime files, or their contents.
//!
//! In a classic section, a change of a realtime file's map and the change of the bitmap are in one
//! step of a transaction, without intents. With groups, the change of the reverse map and freeing
//! are deferred work ([`work`]). docs/internals/realtime.md has the crash argument and the lock
//! order.
//!
//! # Invariants
//!
//! - **I1** Bitmap, summary and count of a group are changed only by a step that has joined the
//!   record of the bitmap's inode. It joins this record before any header of an allocation group,
//!   and releases it when the step ends. No step changes that inode. The same holds for each btree
//!   and the inode with its root. A step works on one realtime group.
//! - **I2** A step changes the bits of at most `8 · block size` extents for each allocation and
//!   each extent that is freed, so that the log reservation of a write or a truncation holds them.
//! - **I3** An extent is used again only after the step that freed it is durable. Otherwise a crash
//!   could give it back to its old file, with bytes of the new one.

mod discard;
mod group;
mod grow;
mod reserve;
mod runs;
mod sharing;
mod tree;
mod words;
mod work;
mod zone_records;
mod zones;

use core::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::realtime::{RealtimeSpaceCheck, SPACE_HEADER_BYTES, SPACE_WORD_BYTES};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{Superblock, SuperblockDisk, Unsupported};
use xfs_format::{BlockKind, DiskAddr, FsBlock, Geometry, InodeNumber};
use xfs_sync::{AtomicU64, Ordering, Volume};
use xfs_trans::{InodeRecord, Journal, Transaction};

use crate::extent::BlockExtent;
use group::{GroupTrees, RealtimeGroup};
use reserve::BtreeReserve;
use runs::{SpaceSizes, corrupt};
use words::SpaceFiles;
use zones::Zones;

pub use grow::{
    NewSpaceFile, grow_realtime, log_realtime_sizes, next_realtime_size, write_group_blocks,
};
pub use sharing::realtime_sharing_run;
pub(crate) use sharing::recover_realtime_leftovers;
pub(crate) use work::{RealtimeCountWork, RealtimeFreeWork, RealtimeRmapWork, resume_realtime};
pub use zone_records::{
    CollectionGuard, ZoneCollection, ZoneRecord, ZoneSpace, give_up_zone_blocks, take_zone_blocks,
    use_zone_blocks,
};
pub use zones::ZoneUse;

const BITS_PER_BYTE: u64 = 8;

/// The two files that hold the free space of a realtime section or of a realtime group.
#[derive(Debug)]
pub struct RealtimeFiles {
    /// The log record of the inode of the bitmap. Its latch protects both files.
    pub bitmap_record: Arc<InodeRecord>,
    /// The inode number of the summary.
    pub summary_inode: InodeNumber,
    /// The extents of the bitmap, in the order of their file offsets, without holes.
    pub bitmap: Vec<Extent>,
    /// The extents of the summary, in the order of their file offsets, without holes.
    pub summary: Vec<Extent>,
}

/// The files of a realtime group.
#[derive(Debug)]
pub struct RealtimeGroupFiles {
    /// The bitmap and the summary, which record the free space.
    pub space: RealtimeFiles,
    /// The log record of the inode with the root of the reverse map; `None` if the volume has no
    /// reverse map.
    pub reverse_map: Option<Arc<InodeRecord>>,
    /// The log record of the inode with the root of the reference counts; `None` if the volume has
    /// no reference counts.
    pub refcounts: Option<Arc<InodeRecord>>,
}

/// Whether the superblock's count of free realtime extents is used or replaced, when the volume is
/// opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeExtentCount {
    /// The volume was unmounted: the count is up to date.
    Stored,
    /// There was a crash, so the count may be wrong: the free extents are counted again.
    Recounted,
}

/// The free space of the realtime section of a volume that is open for writing.
#[derive(Debug)]
pub struct RealtimeSpace {
    /// The groups; a classic section counts as one group.
    groups: Vec<RealtimeGroup>,
    has_groups: bool,
    extent_blocks: u64,
    /// Number of files that got their first extent since the volume was opened. It decides where
    /// the next file gets its first extent.
    sequence: AtomicU64<Volume>,
    /// Blocks for the btrees of the groups.
    reserve: BtreeReserve,
    /// The zones of a zoned section, in which each realtime group is a zone. `None` for any other
    /// section.
    zones: Option<Zones>,
}

/// Numbers of blocks that the bitmap and the summary of a section or of a group must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealtimeFileSizes {
    /// Number of blocks of the bitmap.
    pub bitmap_blocks: u64,
    /// Number of blocks of the summary.
    pub summary_blocks: u64,
}

impl RealtimeFileSizes {
    /// Returns the sizes of the two files of a classic realtime section, or of each group of a
    /// section with groups. A last group that is shorter has files of the same sizes.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let mut sizes = sizes(superblock, 0);
        if superblock.has_realtime_groups() {
            sizes.extents = superblock.realtime_group_extents.into();
        }
        let counters = u64::from(sizes.levels()) * sizes.bitmap_blocks;
        let per_block = block_bytes(superblock) / SPACE_WORD_BYTES as u64;
        let summary_blocks = counters.div_ceil(per_block);
        Self { bitmap_blocks: sizes.bitmap_blocks, summary_blocks }
    }
}

/// Returns the number of bytes for words in each block of the bitmap and of the summary.
fn block_bytes(superblock: &Superblock) -> u64 {
    let header = if superblock.has_realtime_groups() { SPACE_HEADER_BYTES as u64 } else { 0 };
    u64::from(superblock.geometry.block_size) - header
}

/// Returns the sizes of the bitmap of a group. A classic section is group 0.
fn sizes(superblock: &Superblock, group: u32) -> SpaceSizes {
    let geometry = &superblock.geometry;
    let extents = match superblock.has_realtime_groups() {
        true => {
            let unit = u64::from(geometry.realtime_extent_blocks).max(1);
            geometry.realtime.group_length(group) / unit
        }
        false => superblock.realtime_extents,
    };
    SpaceSizes {
        extents,
        bitmap_blocks: superblock.realtime_bitmap_blocks.into(),
        block_extents: block_bytes(superblock) * BITS_PER_BYTE,
    }
}

impl RealtimeSpace {
    /// Makes the classic realtime section of a volume writable. The journal keeps the space from
    /// now on.
    ///
    /// # Errors
    ///
    /// The device's error; a corruption if a file is too short, or if there are fewer free extents
    /// than counted.
    #[doc(alias = "xfs_rtmount_inodes")]
    pub fn open(
        journal: &Arc<Journal>,
        superblock: &Superblock,
        files: RealtimeFiles,
        count: FreeExtentCount,
    ) -> Result<()> {
        let files = RealtimeGroupFiles { space: files, reverse_map: None, refcounts: None };
        let space = Self::of_files(journal, superblock, vec![files])?;
        let stored = superblock.free_realtime_extents;
        space.group(0).set_free_extents(stored);
        if count == FreeExtentCount::Recounted {
            let found = space.recount(journal.cache())?;
            space.group(0).set_free_extents(found);
            if found != stored {
                let tx = journal.begin(TransactionKind::Superblock, 0)?;
                tx.commit_or_cancel(|tx| log_free_extents(tx, found))?;
            }
        }
        space.attach(journal);
        Ok(())
    }

    /// Makes the realtime groups of a volume writable. `files` has the files of each group, in the
    /// order of the groups. The journal keeps the space from now on. The superblock's count of free
    /// extents is not used: the bitmaps are counted, which have to be read in any case.
    ///
    /// # Errors
    ///
    /// The device's error; a corruption if a file is too short.
    pub fn open_groups(
        journal: &Arc<Journal>,
        superblock: &Superblock,
        files: Vec<RealtimeGroupFiles>,
    ) -> Result<()> {
        let space = Self::of_files(journal, superblock, files)?;
        let geometry = journal.geometry();
        let mut wanted = 0;
        for (number, group) in (0..).zip(&space.groups) {
            group.set_free_extents(group.recount(journal.cache())?);
            let blocks = geometry.realtime.group_length(number);
            let used = |record: &Arc<InodeRecord>| record.with_core(|core| core.blocks);
            if let Some(record) = &group.reverse_map {
                let all = reserve::reverse_map_blocks(geometry, blocks);
                wanted += all.saturating_sub(used(record)?);
            }
            if let Some(record) = &group.refcounts {
                wanted += reserve::refcount_blocks(geometry, blocks).saturating_sub(used(record)?);
            }
        }
        space.reserve.fill(journal, wanted);
        let space = Arc::clone(space.attach(journal));
        journal.set_realtime_count(Box::new(move || space.free_extents()));
        Ok(())
    }

    /// Attaches this state to the journal, where [`of`](Self::of) finds it.
    fn attach(self, journal: &Journal) -> &Arc<Self> {
        assert!(journal.find_extension::<Self>().is_none(), "the realtime space is opened once");
        journal.extension(|| self)
    }

    fn of_files(
        journal: &Journal,
        superblock: &Superblock,
        files: Vec<RealtimeGroupFiles>,
    ) -> Result<Self> {
        let (needed, has_groups) =
            (RealtimeFileSizes::of(superblock), superblock.has_realtime_groups());
        let mut groups = Vec::with_capacity(files.len());
        for (number, RealtimeGroupFiles { space, reverse_map, refcounts }) in (0..).zip(files) {
            for (extents, blocks) in
                [(&space.bitmap, needed.bitmap_blocks), (&space.summary, needed.summary_blocks)]
            {
                check_file(journal.geometry(), extents, blocks)?;
            }
            let RealtimeFiles { bitmap_record, summary_inode, bitmap, summary } = space;
            let owners = has_groups.then(|| [bitmap_record.number(), summary_inode]);
            let files = SpaceFiles { bitmap, summary, owners };
            let trees = GroupTrees { reverse_map, refcounts };
            let sizes = sizes(superblock, number);
            groups.push(RealtimeGroup::new(bitmap_record, files, sizes, trees));
        }
        Ok(Self {
            groups,
            has_groups,
            extent_blocks: superblock.geometry.realtime_extent_blocks.into(),
            sequence: AtomicU64::new(0),
            reserve: BtreeReserve::default(),
            zones: None,
        })
    }

    /// Returns the realtime space of a volume; `None` if the volume has no realtime section that
    /// can be written.
    #[must_use]
    pub fn of(journal: &Journal) -> Option<&Arc<Self>> {
        if journal.geometry().realtime.is_present() { journal.find_extension() } else { None }
    }

    /// Returns whether the section is divided into groups.
    #[must_use]
    pub const fn has_groups(&self) -> bool {
        self.has_groups
    }

    /// Returns the number of free realtime extents. In a zoned section, returns the number of
    /// blocks that files may still take.
    #[must_use]
    pub fn free_extents(&self) -> u64 {
        if let Some(zones) = &self.zones {
            return zones.room();
        }
        self.groups.iter().map(RealtimeGroup::free_extents).sum()
    }

    /// Returns the number of blocks of a realtime extent.
    #[must_use]
    pub const fn extent_blocks(&self) -> u64 {
        self.extent_blocks
    }

    /// Returns the largest number of blocks that one call of [`allocate_realtime`] or
    /// [`free_realtime`] takes (I2): a multiple of the realtime extent size.
    #[must_use]
    pub fn step_blocks(&self) -> u64 {
        let block_extents = self.group(0).sizes.block_extents;
        let most = block_extents.saturating_mul(self.extent_blocks);
        let most = most.min(u64::from(MAX_EXTENT_BLOCKS));
        most - most % self.extent_blocks
    }

    /// Counts the free extents in all bitmaps.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn recount(&self, cache: &BufferCache) -> Result<u64> {
        self.groups.iter().map(|group| group.recount(cache)).sum()
    }

    /// Adds free extents by which the section has grown while the volume is not in use. They count
    /// with the last group, whichever group has them: only the sum is used until the volume is
    /// opened again.
    pub fn count_growth(&self, extents: u64) {
        let last = self.group(self.groups.len() - 1);
        last.set_free_extents(last.free_extents() + extents);
    }

    fn group(&self, number: usize) -> &RealtimeGroup {
        self.groups
            .get(number)
            .expect("a realtime section has a group of each number below its count")
    }

    /// Returns the extent of a classic section near which a file without extents gets its first
    /// one. The extents of successive files lie at 0, 1/2, 1/4, 3/4, 1/8 … of the section, so that
    /// files can grow.
    #[doc(alias = "xfs_rtpick_extent")]
    fn pick(&self) -> u64 {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let Some(log) = number.checked_ilog2() else { return 0 };
        let odd = u128::from(number - (1 << log)) * 2 + 1;
        ((u128::from(self.group(0).sizes.extents) * odd) >> (log + 1)) as u64
    }

    /// Returns the group, and the extent in the group, near which a request for blocks near `near`
    /// is served.
    fn target(&self, geometry: &Geometry, near: Option<FsBlock>) -> (usize, u64) {
        let split = near.and_then(|near| geometry.realtime.split_block(near));
        match split {
            Some(split) => (split.group as usize, split.block / self.extent_blocks),
            // The file before may end at the end of the section, or of a group.
            None if near.is_some() => (0, 0),
            None if self.has_groups => {
                let number = self.sequence.fetch_add(1, Ordering::Relaxed);
                ((number % self.groups.len() as u64) as usize, 0)
            }
            None => (0, self.pick()),
        }
    }

    /// Returns the group and the realtime extents that these blocks cover.
    fn extents_of(&self, geometry: &Geometry, blocks: BlockExtent) -> Result<(u32, Range<u64>)> {
        let length = u64::from(blocks.length_blocks);
        let (start, end) = (blocks.start.0, blocks.start.0.saturating_add(length));
        let unaligned = || corrupt(RealtimeSpaceCheck::Unaligned { start, end });
        let split = geometry.realtime.split_block(blocks.start).ok_or_else(unaligned)?;
        let end = split.block + length;
        let unit = self.extent_blocks;
        let is_whole = split.block.is_multiple_of(unit) && end.is_multiple_of(unit);
        if !is_whole || !geometry.realtime.contains_extent(blocks.start, length) {
            return Err(unaligned());
        }
        Ok((split.group, split.block / unit..end / unit))
    }

    /// Returns the blocks of a run of extents of a group.
    fn blocks_of(&self, geometry: &Geometry, number: usize, run: &Range<u64>) -> BlockExtent {
        let first = run.start * self.extent_blocks;
        let start = FsBlock((number as u64) << geometry.realtime.group_blocks_log | first);
        let length_blocks = u32::try_from((run.end - run.start) * self.extent_blocks);
        let length_blocks = length_blocks.expect("a step allocates at most the longest extent");
        BlockExtent { start, length_blocks }
    }

    /// Discards on the device the freed extents of a group that the step has locked.
    fn discard_expired(&self, tx: &Transaction<'_>, number: usize) {
        let Some(bytes) = self.bytes_of(tx.geometry(), number) else { return };
        self.group(number).discard_expired(tx.journal(), &bytes);
    }

    /// Discards the freed extents of all groups that were not discarded yet. The caller has forced
    /// the log.
    ///
    /// # Errors
    ///
    /// The error that stopped the log.
    pub(crate) fn discard_remaining(&self, journal: &Arc<Journal>) -> Result<()> {
        for number in 0..self.groups.len() {
            let mut tx = journal.begin(TransactionKind::ChangeInode, 0)?;
            self.group(number).lock(&mut tx);
            self.discard_expired(&tx, number);
            tx.cancel();
        }
        Ok(())
    }

    /// Frees realtime extents of a group that the step has locked.
    fn release(
        self: &Arc<Self>,
        tx: &mut Transaction<'_>,
        number: u32,
        extents: Range<u64>,
    ) -> Result<()> {
        self.group(number as usize).release(tx, &extents)?;
        self.note_busy(tx, number, extents);
        self.log_count(tx)
    }

    /// Notes extents of a group that no file may overwrite or get before this step is durable.
    fn note_busy(self: &Arc<Self>, tx: &mut Transaction<'_>, number: u32, extents: Range<u64>) {
        let (space, group) = (Arc::clone(self), number as usize);
        let ticket = self.group(group).note_busy(tx, extents);
        tx.on_commit(move |committed| {
            space.group(group).settle_busy(ticket, committed.sequence);
        });
    }

    /// Logs the number of free extents of a classic section. In a section with groups, the
    /// superblock gets this number later: when the log is covered, or at unmount.
    fn log_count(&self, tx: &mut Transaction<'_>) -> Result<()> {
        if self.has_groups { Ok(()) } else { log_free_extents(tx, self.free_extents()) }
    }
}

/// Checks that the extents of a file cover its first `blocks` blocks.
fn check_file(geometry: &Geometry, extents: &[Extent], blocks: u64) -> Result<()> {
    let mut next = 0;
    for extent in extents {
        let is_inside = geometry.contains_extent(extent.start, extent.length_blocks.into());
        if extent.file_block.0 != next || extent.unwritten || !is_inside {
            break;
        }
        next = extent.end().0;
    }
    if next < blocks {
        return Err(corrupt(RealtimeSpaceCheck::Hole { block: next, needed: blocks }));
    }
    Ok(())
}

/// Latches the free space of a classic realtime section until the end of the current step (I1). A
/// step that changes the map of a realtime file and may change headers of groups calls this first.
///
/// The latch does not outlast the step: a roll may wait for log space. Another thread that waits
/// for the latch may hold the inode whose old log entry occupies that space.
///
/// # Errors
///
/// [`Unsupported::RealtimeData`] if the realtime section cannot be written.
#[doc(alias = "xfs_rtbitmap_lock")]
pub fn lock_realtime(tx: &mut Transaction<'_>) -> Result<Arc<RealtimeSpace>> {
    let space = Arc::clone(RealtimeSpace::of(tx.journal()).ok_or(Unsupported::RealtimeData)?);
    if !space.has_groups {
        space.group(0).lock(tx);
    }
    Ok(space)
}

/// Allocates whole realtime extents: up to `wanted_blocks` blocks, at block `near` if that is free.
/// `None` for `near` is the first allocation of a file. Returns `None` if no extent is free. The
/// extents lie in one group.
///
/// # Errors
///
/// [`Unsupported::RealtimeData`]; [`Unsupported::ZonedAllocation`] in zones; the device's error;
/// the check that failed.
#[doc(alias = "xfs_rtallocate")]
pub fn allocate_realtime(
    tx: &mut Transaction<'_>,
    near: Option<FsBlock>,
    wanted_blocks: u64,
) -> Result<Option<BlockExtent>> {
    let space = lock_realtime(tx)?;
    if space.has_zones() {
        return Err(Unsupported::ZonedAllocation.into());
    }
    let geometry = tx.geometry();
    let wanted = wanted_blocks.min(space.step_blocks()).div_ceil(space.extent_blocks).max(1);
    let (first, near) = space.target(geometry, near);
    let count = space.groups.len();
    // Groups that have the wanted number of free extents come first.
    for is_picky in [true, false] {
        for number in (first..count).chain(0..first) {
            let group = space.group(number);
            if group.free_extents() < if is_picky { wanted } else { 1 } {
                continue;
            }
            group.lock(tx);
            space.discard_expired(tx, number);
            let near = if number == first { near } else { 0 };
            if let Some(run) = group.take(tx, near, wanted)? {
                space.log_count(tx)?;
                return Ok(Some(space.blocks_of(geometry, number, &run)));
            }
            // I1: the step works on one group.
            tx.unjoin(&group.space_record);
        }
    }
    Ok(None)
}

/// Frees whole realtime extents of a classic section: at most [`RealtimeSpace::step_blocks`]
/// blocks.
///
/// # Panics
///
/// Panics if there are more blocks.
///
/// # Errors
///
/// A corruption if an extent is free already, or if the blocks are not whole extents: nothing is
/// changed then. The device's error and a wrong counter of the summary may come after the first
/// change, so the transaction must be cancelled, as after the errors of [`allocate_realtime`].
#[doc(alias = "xfs_rtfree_extent")]
pub fn free_realtime(tx: &mut Transaction<'_>, blocks: BlockExtent) -> Result<()> {
    let space = lock_realtime(tx)?;
    assert!(
        u64::from(blocks.length_blocks) <= space.step_blocks(),
        "a step frees no more realtime extents than its reservation holds (I2)"
    );
    let (number, extents) = space.extents_of(tx.geometry(), blocks)?;
    space.release(tx, number, extents)
}

/// Logs the number of free realtime extents in the superblock. A classic section has no lazy
/// counter: each change is in the log.
fn log_free_extents(tx: &mut Transaction<'_>, free: u64) -> Result<()> {
    let length_bytes = tx.geometry().sector_size;
    let buffer = tx.read(DiskAddr(0), length_bytes, BlockKind::Superblock)?;
    let start = offset_of!(SuperblockDisk, free_realtime_extents);
    tx.change(&buffer, start..start + size_of::<u64>(), |bytes| {
        bytes.copy_from_slice(&free.to_be_bytes());
    });
    Ok(())
}

/// Returns the error for a block that the file of the bitmap or of the summary does not have.
#[cold]
fn outside(block: u64) -> Error {
    corrupt(RealtimeSpaceCheck::Hole { block, needed: block + 1 })
}
