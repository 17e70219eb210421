//! Free space of a classic realtime section: one bitmap and one summary for all of it.
//!
//! Owns: allocating and freeing realtime extents in a transaction, the lock over both files, and
//! the count of free extents. Does **not** own: the maps of the two files (the caller reads them),
//! the maps of realtime files, or their contents. Realtime groups have other structures.
//!
//! A change of a realtime file's map and the change of the bitmap are in one step of a transaction.
//! There are no intents. docs/internals/realtime.md has the crash argument and the lock order.
//!
//! # Invariants
//!
//! - **I1** Bitmap, summary and count are changed only by a step that has joined the record of the
//!   bitmap's inode. It joins this record before any header of a group, and releases it when the
//!   step ends. No step changes that inode.
//! - **I2** A step changes the bits of at most `8 · block size` extents for each allocation and
//!   each extent that is freed, so that the log reservation of a write or a truncation holds them.
//! - **I3** An extent is used again only after the step that freed it is durable. Otherwise a crash
//!   could give it back to its old file, with bytes of the new one.

mod runs;
mod words;

use core::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::realtime::{RealtimeSpaceCheck, SPACE_WORD_BYTES};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::{Superblock, SuperblockDisk, Unsupported};
use xfs_format::{BlockKind, DiskAddr, FsBlock, Geometry};
use xfs_sync::{AtomicU64, Mutex, Ordering, Volume};
use xfs_trans::{InodeRecord, Journal, Transaction};

use crate::deferred::BlockExtent;
use runs::{FreeRuns, SpaceSizes, corrupt};
use words::{CachedWords, JoinedWords};

const BITS_PER_BYTE: u64 = 8;

/// The two files that hold the free space of a realtime section.
#[derive(Debug)]
pub struct RealtimeFiles {
    /// The log record of the inode of the bitmap. Its latch protects both files.
    pub bitmap_record: Arc<InodeRecord>,
    /// The extents of the bitmap, in the order of their file offsets, without holes.
    pub bitmap: Vec<Extent>,
    /// The extents of the summary, in the order of their file offsets, without holes.
    pub summary: Vec<Extent>,
}

/// Whether the count of free realtime extents in the superblock is up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeExtentCount {
    /// The volume was unmounted: the count is up to date.
    Stored,
    /// A crash came: the free extents are counted.
    Recounted,
}

/// The free space of the realtime section of a volume that is open for writing.
#[derive(Debug)]
pub struct RealtimeSpace {
    files: RealtimeFiles,
    sizes: SpaceSizes,
    extent_blocks: u64,
    /// Number of free realtime extents.
    free: AtomicU64<Volume>,
    /// Number of files that got their first extent since the volume was opened.
    sequence: AtomicU64<Volume>,
    busy: Mutex<Vec<BusyRun>, Volume>,
}

/// Extents that were freed by a step that may not be durable yet.
#[derive(Debug)]
struct BusyRun {
    extents: Range<u64>,
    /// The checkpoint with the step that freed the extents. `None`: the step is not committed yet.
    sequence: Option<u64>,
}

/// Numbers of blocks that the two files of a classic realtime section must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealtimeFileSizes {
    /// Number of blocks of the bitmap.
    pub bitmap_blocks: u64,
    /// Number of blocks of the summary.
    pub summary_blocks: u64,
}

impl RealtimeFileSizes {
    /// Returns the sizes of the two files of a classic realtime section.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let sizes = sizes(superblock);
        let counters = u64::from(sizes.levels()) * sizes.bitmap_blocks;
        let per_block = u64::from(superblock.geometry.block_size) / SPACE_WORD_BYTES as u64;
        let summary_blocks = counters.div_ceil(per_block);
        Self { bitmap_blocks: sizes.bitmap_blocks, summary_blocks }
    }
}

fn sizes(superblock: &Superblock) -> SpaceSizes {
    SpaceSizes {
        extents: superblock.realtime_extents,
        bitmap_blocks: superblock.realtime_bitmap_blocks.into(),
        block_extents: u64::from(superblock.geometry.block_size) * BITS_PER_BYTE,
    }
}

impl RealtimeSpace {
    /// Makes the realtime section of a volume writable. The journal keeps the space from now on.
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
        let needed = RealtimeFileSizes::of(superblock);
        for (extents, blocks) in
            [(&files.bitmap, needed.bitmap_blocks), (&files.summary, needed.summary_blocks)]
        {
            check_file(journal.geometry(), extents, blocks)?;
        }
        let stored = superblock.free_realtime_extents;
        let space = Self {
            files,
            sizes: sizes(superblock),
            extent_blocks: superblock.geometry.realtime_extent_blocks.into(),
            free: AtomicU64::new(stored),
            sequence: AtomicU64::new(0),
            busy: Mutex::default(),
        };
        if count == FreeExtentCount::Recounted {
            let found = space.recount(journal.cache())?;
            space.free.store(found, Ordering::Relaxed);
            if found != stored {
                let tx = journal.begin(TransactionKind::Superblock, 0)?;
                tx.commit_or_cancel(|tx| log_free_extents(tx, found))?;
            }
        }
        let _ = journal.extension(|| space);
        Ok(())
    }

    /// Returns the realtime space of a volume; `None` if the volume has no realtime section that
    /// can be written.
    #[must_use]
    pub fn of(journal: &Journal) -> Option<&Arc<Self>> {
        if journal.geometry().realtime.is_present() { journal.find_extension() } else { None }
    }

    /// Returns the number of free realtime extents.
    #[must_use]
    pub fn free_extents(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
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
        let most = self.sizes.block_extents.saturating_mul(self.extent_blocks);
        let most = most.min(u64::from(MAX_EXTENT_BLOCKS));
        most - most % self.extent_blocks
    }

    /// Counts the free extents in the bitmap.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn recount(&self, cache: &BufferCache) -> Result<u64> {
        FreeRuns::new(&mut CachedWords::new(cache, &self.files), self.sizes).count()
    }

    /// Returns the extent near which a file without extents gets its first one. The extents of
    /// successive files lie at 0, 1/2, 1/4, 3/4, 1/8 … of the section, so that files can grow.
    #[doc(alias = "xfs_rtpick_extent")]
    fn pick(&self) -> u64 {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let Some(log) = number.checked_ilog2() else { return 0 };
        let odd = u128::from(number - (1 << log)) * 2 + 1;
        ((u128::from(self.sizes.extents) * odd) >> (log + 1)) as u64
    }

    /// Returns the realtime extents that these blocks cover.
    fn extents_of(&self, blocks: BlockExtent) -> Result<Range<u64>> {
        let (start, end) = (blocks.start.0, blocks.start.0 + u64::from(blocks.length_blocks));
        if !start.is_multiple_of(self.extent_blocks) || !end.is_multiple_of(self.extent_blocks) {
            return Err(corrupt(RealtimeSpaceCheck::Unaligned { start, end }));
        }
        Ok(start / self.extent_blocks..end / self.extent_blocks)
    }

    /// Notes extents that this step frees, until the step is durable (I3).
    fn note_busy(self: &Arc<Self>, tx: &mut Transaction<'_>, extents: Range<u64>) {
        let durable = tx.journal().durable_sequence();
        let mut busy = self.busy.lock();
        busy.retain(|run| run.sequence.is_none_or(|sequence| sequence > durable));
        busy.push(BusyRun { extents, sequence: None });
        drop(busy);
        let space = Arc::clone(self);
        tx.on_commit(move |committed| {
            // The lock of the section excludes uncommitted steps of other threads (I1).
            for run in &mut *space.busy.lock() {
                run.sequence = run.sequence.or(Some(committed.sequence));
            }
        });
    }

    /// Waits until the extents of a run may be used again (I3).
    fn wait_until_free(&self, journal: &Journal, extents: &Range<u64>) -> Result<()> {
        let meets =
            |run: &BusyRun| run.extents.start < extents.end && extents.start < run.extents.end;
        let newest = {
            let busy = self.busy.lock();
            busy.iter().filter(|run| meets(run)).filter_map(|run| run.sequence).max()
        };
        match newest {
            Some(sequence) if sequence > journal.durable_sequence() => journal.force(sequence),
            _ => Ok(()),
        }
    }

    fn change_free(&self, tx: &mut Transaction<'_>, free: u64) -> Result<()> {
        log_free_extents(tx, free)?;
        self.free.store(free, Ordering::Relaxed);
        Ok(())
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

/// Latches the free space of the realtime section until the end of the current step (I1). A step
/// that changes the map of a realtime file and may change headers of groups calls this first.
///
/// The latch does not outlast the step: a roll may wait for log space. Another thread that waits
/// for the latch may hold the inode whose old log entry occupies that space.
///
/// # Errors
///
/// [`Unsupported::RealtimeData`] if the realtime section cannot be written.
#[doc(alias = "xfs_rtbitmap_lock")]
pub fn lock_realtime(tx: &mut Transaction<'_>) -> Result<Arc<RealtimeSpace>> {
    let space = RealtimeSpace::of(tx.journal()).ok_or(Unsupported::RealtimeData)?;
    tx.join(&space.files.bitmap_record);
    tx.leave(&space.files.bitmap_record);
    Ok(Arc::clone(space))
}

/// Allocates whole realtime extents: up to `wanted_blocks` blocks, at block `near` if that is free.
/// `None` for `near` is the first allocation of a file. Returns `None` if no extent is free.
///
/// # Errors
///
/// [`Unsupported::RealtimeData`]; the device's error; the check that failed.
#[doc(alias = "xfs_rtallocate")]
pub fn allocate_realtime(
    tx: &mut Transaction<'_>,
    near: Option<FsBlock>,
    wanted_blocks: u64,
) -> Result<Option<BlockExtent>> {
    let space = lock_realtime(tx)?;
    let unit = space.extent_blocks;
    let wanted = wanted_blocks.min(space.step_blocks()).div_ceil(unit).max(1);
    let near = near.map_or_else(|| space.pick(), |block| block.0 / unit);
    let mut words = CachedWords::new(tx.cache(), &space.files);
    let found = FreeRuns::new(&mut words, space.sizes).find(near, wanted)?;
    let Some(run) = found else { return Ok(None) };
    let taken = run.end - run.start;
    let (counted, found) = (space.free_extents(), taken);
    let Some(free) = counted.checked_sub(taken) else {
        return Err(corrupt(RealtimeSpaceCheck::FreeCount { counted, found }));
    };
    // I3: a crash must not undo the freeing of extents that are in use again.
    space.wait_until_free(tx.journal(), &run)?;
    FreeRuns::new(&mut JoinedWords::new(tx, &space.files), space.sizes).take(&run)?;
    space.change_free(tx, free)?;
    let length_blocks = u32::try_from(taken * unit);
    let length_blocks = length_blocks.expect("a step allocates at most the longest extent");
    Ok(Some(BlockExtent { start: FsBlock(run.start * unit), length_blocks }))
}

/// Frees whole realtime extents: at most [`RealtimeSpace::step_blocks`] blocks.
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
    let extents = space.extents_of(blocks)?;
    let free = space.free_extents() + (extents.end - extents.start);
    FreeRuns::new(&mut JoinedWords::new(tx, &space.files), space.sizes).release(&extents)?;
    space.note_busy(tx, extents);
    space.change_free(tx, free)
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

/// Reports that the bitmap or the summary has no such block.
#[cold]
fn outside(block: u64) -> Error {
    corrupt(RealtimeSpaceCheck::Hole { block, needed: block + 1 })
}
