//! Shrinking a volume that is not open.
//!
//! Owns: which sizes are refused and why, the least size, the order of the steps, and cutting off
//! whole groups. Does **not** own a step inside a group (`xfs-alloc`) or a file (`xfs-inode`).
//!
//! # Order
//!
//! 1. The journal is opened. No block after the new end is allocated from here on. Blocks of files
//!    that stand there move, then those of the group that becomes the last one. The journal is
//!    closed, so that the log has nothing to replay.
//! 2. Whole groups at the end are cut off by one write of the superblock, which is one sector, and
//!    flushed. The volume then ends where a group ends.
//! 3. The journal is opened again, and the end of the last group is cut off in one transaction. The
//!    copies of the superblock are updated.
//!
//! A crash in step 1 leaves the size and the files as they were, with some blocks in other places.
//! A crash in step 2 leaves the old size or that of the remaining groups, a crash in step 3 that
//! size or the new one. A replay of the log never has to make a volume smaller by a group: no
//! kernel was seen that does. The caller shortens the image file last, if at all.

use std::sync::Arc;

use thiserror::Error;
use xfs_alloc::shrink_space;
use xfs_buffer::{Error, PosixError, Result as BufferResult};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::superblock::{Unsupported, VolumeAccess};
use xfs_format::{AgInode, FsBlock, Geometry, InodeNumber, Superblock};
use xfs_inode::{LiveInode, Relocation};
use xfs_trans::Journal;

use super::{Devices, OpenError, read_superblock};

/// The least size of a volume in bytes: two groups of 16 MiB, as mkfs makes at least.
const LEAST_BYTES: u64 = 32 << 20;
/// The least number of groups: the superblock needs a copy.
const LEAST_GROUPS: u64 = 2;
/// The least length in blocks of the last group.
const LEAST_GROUP_BLOCKS: u64 = 64;
/// The least length in bytes of the last group, which xfs_repair reads to find its superblock.
const LEAST_GROUP_BYTES: u64 = 128 << 10;
/// Blocks that must be free in addition to those that move, for btrees that grow meanwhile.
const MARGIN_BLOCKS: u64 = 32;
/// The same as a part of the blocks that move.
const MARGIN_DIVISOR: u64 = 128;
/// Number of larger sizes that are tried if the free space proves too scattered for a size.
const MOST_RETRIES: u32 = 8;

/// The result of shrinking a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shrunk {
    /// Number of blocks that the volume had.
    pub blocks_before: u64,
    /// Number of blocks that the volume has.
    pub blocks: u64,
    /// Number of blocks of files that have moved.
    pub moved_blocks: u64,
}

/// The reason why a volume cannot be smaller than its least size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShrinkLimit {
    /// A volume has at least two groups and 32 MiB.
    #[error("a volume has at least two allocation groups and 32 MiB")]
    Smallest,
    /// The internal log cannot move.
    #[error("the log ends there and cannot move")]
    Log,
    /// An inode cannot move, because its number says where it is.
    #[error("{0} stands before that end and cannot move")]
    Inode(InodeNumber),
    /// Blocks of a quota file, or of another file of the metadata directory, cannot move.
    #[error("a block of the metadata file {0} stands before that end and cannot move")]
    MetadataFile(InodeNumber),
    /// The files need the space.
    #[error("the files need the space")]
    Space,
}

/// Why a volume does not shrink.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShrinkError {
    /// The volume could not be opened, or it is of a kind that cannot shrink.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// More blocks were requested than the volume has.
    #[error("the volume has {has} blocks and cannot shrink to {wanted}; growfs makes it larger")]
    Grows {
        /// Number of blocks of the volume.
        has: u64,
        /// Number of blocks that were requested.
        wanted: u64,
    },
    /// The volume cannot be that small.
    #[error("the volume cannot shrink to {wanted} blocks; the least size is {least}: {limit}")]
    TooSmall {
        /// Number of blocks that were requested.
        wanted: u64,
        /// The least number of blocks.
        least: u64,
        /// The reason for the least size.
        limit: ShrinkLimit,
    },
    /// Blocks after the new end are in use, but no file has them: the volume needs a repair. No
    /// group was cut off.
    #[error("{blocks} blocks after the new end belong to no file; check the volume")]
    Lost {
        /// Number of these blocks.
        blocks: u64,
    },
    /// A step failed. The volume has its old size, its new size, or a size between them.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The least size of a volume, and the reason.
#[derive(Clone, Copy, Debug)]
struct LeastSize {
    blocks: u64,
    limit: ShrinkLimit,
}

impl LeastSize {
    /// Raises the least size to `blocks`, if it is smaller.
    fn raise(&mut self, blocks: u64, limit: ShrinkLimit) {
        if blocks > self.blocks {
            *self = Self { blocks, limit };
        }
    }
}

impl Devices {
    /// Shrinks the volume to `blocks` blocks, or as far as possible. A last group of fewer than 64
    /// blocks or 128 KiB is left out, so the result may be smaller than requested. Blocks of files
    /// that stand after the new end move. The devices must have been opened [to
    /// write](super::OpenOptions::write). A dirty log is recovered first. The new size is durable
    /// on return; the device keeps its length. A crash leaves the old size, the new size, or a size
    /// between them, with all files.
    ///
    /// # Errors
    ///
    /// [`ShrinkError`]. Volumes with a realtime section are refused, and sizes below the least one.
    #[doc(alias = "XFS_IOC_FSGROWFSDATA")]
    pub fn shrink(&self, blocks: Option<u64>) -> Result<Shrunk, ShrinkError> {
        let superblock = read_superblock(&self.data).map_err(OpenError::Volume)?;
        if let Some(reason) = superblock.refusal(VolumeAccess::Write) {
            return Err(OpenError::Volume(reason.into()).into());
        }
        if superblock.has_realtime() {
            return Err(OpenError::Volume(Unsupported::RealtimeShrink.into()).into());
        }
        let has = superblock.geometry.data_blocks;
        if let Some(wanted) = blocks.filter(|wanted| *wanted > has) {
            return Err(ShrinkError::Grows { has, wanted });
        }
        let (target, moved_blocks) = self.with_journal(|journal| evacuate(journal, blocks))?;
        let whole = u64::from(target.ag_count) * u64::from(target.ag_blocks);
        let groups = sized(&superblock.geometry, whole);
        if groups.data_blocks < has {
            self.cut_groups(&groups)?;
        }
        if target.data_blocks < has {
            self.with_journal(|journal| cut_last_group(journal, &target))?;
        }
        Ok(Shrunk { blocks_before: has, blocks: target.data_blocks, moved_blocks })
    }

    /// Opens the journal, does `work`, and closes the journal with a clean log.
    fn with_journal<R>(
        &self,
        work: impl FnOnce(&Arc<Journal>) -> Result<R, ShrinkError>,
    ) -> Result<R, ShrinkError> {
        let (_, journal, opened) = self.open_journal(VolumeAccess::Write)?;
        let quota = opened.start_quota(&journal)?;
        let done = work(&journal);
        let ended = journal.unmount();
        drop(quota);
        let done = done?;
        ended?;
        Ok(done)
    }

    /// Cuts off whole groups (step 2). Those of `geometry` stay. The log must be clean.
    fn cut_groups(&self, geometry: &Geometry) -> Result<(), Error> {
        let superblock = read_superblock(&self.data)?;
        let smaller = Superblock { geometry: geometry.clone(), ..superblock };
        xfs_alloc::cut_groups(&self.cache(self.data.clone(), &smaller))
    }
}

/// Moves all blocks in use that stand after the new end (step 1). Returns the geometry of the
/// smaller volume, which is that of the volume if it cannot shrink, and the number of blocks that
/// have moved.
fn evacuate(journal: &Arc<Journal>, wanted: Option<u64>) -> Result<(Geometry, u64), ShrinkError> {
    let before = journal.geometry();
    let least = least_size(journal)?;
    let mut target = target_of(before, wanted, least)?;
    // From here on every block on the device is up to date, and blocks are read directly.
    journal.freeze()?;
    journal.thaw();
    journal.dissolve_pool();
    let mut relocation = Relocation::new(first_lost(before, &target));
    for retry in 0.. {
        if target.data_blocks >= before.data_blocks {
            return Ok((before.clone(), relocation.moved_blocks()));
        }
        relocation.set_end(first_lost(before, &target));
        match move_all(journal, &target, &mut relocation) {
            Ok(()) => break,
            Err(Error::Posix(PosixError::NoSpace)) if !journal.is_shut_down() => {}
            Err(error) => return Err(error.into()),
        }
        // The free space is too scattered for this size, or one group lacks it.
        let step = (target.data_blocks / 128).max(LEAST_GROUP_BLOCKS) << retry;
        let larger = rounded_up(before, target.data_blocks + step);
        if let Some(wanted) = wanted {
            let limit = ShrinkLimit::Space;
            return Err(ShrinkError::TooSmall { wanted, least: larger, limit });
        }
        let larger = if retry < MOST_RETRIES { larger } else { before.data_blocks };
        target = sized(before, larger);
    }
    let left = shrink_space(journal.cache(), journal.superblock(), &target)?;
    let left = left.map_or(0, |space| space.moving_blocks);
    if left != 0 {
        return Err(ShrinkError::Lost { blocks: left });
    }
    Ok((target, relocation.moved_blocks()))
}

/// Moves the blocks of all inodes, and then those of the group that becomes the last one.
fn move_all(
    journal: &Arc<Journal>,
    target: &Geometry,
    relocation: &mut Relocation,
) -> BufferResult<()> {
    xfs_alloc::withhold(journal, target)?;
    for_each_inode(journal, |number| {
        let live = Arc::new(LiveInode::load(journal, number)?);
        relocation.move_inode(journal, &live)
    })?;
    // The freed blocks of the end must not be busy when the group is cut.
    journal.force_all()?;
    xfs_alloc::move_group_blocks(journal, target)
}

/// Cuts off the end of the last group, if `target` ends inside it, and updates the copies of the
/// superblock (step 3).
fn cut_last_group(journal: &Arc<Journal>, target: &Geometry) -> Result<(), ShrinkError> {
    journal.dissolve_pool();
    let shortens = target.data_blocks < journal.geometry().data_blocks;
    if shortens {
        xfs_alloc::withhold(journal, target)?;
        xfs_alloc::move_group_blocks(journal, target)?;
    }
    journal.freeze()?;
    let done = cut_frozen(journal, target, shortens);
    journal.thaw();
    done
}

fn cut_frozen(
    journal: &Arc<Journal>,
    target: &Geometry,
    shortens: bool,
) -> Result<(), ShrinkError> {
    if shortens && !xfs_alloc::shorten_last_group(journal, target)? {
        let left = shrink_space(journal.cache(), journal.superblock(), target)?;
        return Err(ShrinkError::Lost { blocks: left.map_or(0, |space| space.moving_blocks) });
    }
    Ok(xfs_alloc::update_superblock_copies(journal)?)
}

/// Returns the geometry to which the volume shrinks.
fn target_of(
    before: &Geometry,
    wanted: Option<u64>,
    least: LeastSize,
) -> Result<Geometry, ShrinkError> {
    let LeastSize { blocks: least, limit } = least;
    let too_small = |wanted| ShrinkError::TooSmall { wanted, least, limit };
    let most = least.min(before.data_blocks);
    match wanted {
        // Not every such size has a geometry.
        Some(wanted) if wanted < most => Err(too_small(wanted)),
        Some(wanted) => {
            let target = sized(before, wanted);
            if target.data_blocks < most { Err(too_small(wanted)) } else { Ok(target) }
        }
        None => Ok(sized(before, least)),
    }
}

/// Returns the geometry of the volume with `blocks` blocks, without a last group that is too short.
fn sized(before: &Geometry, blocks: u64) -> Geometry {
    let rest = blocks % u64::from(before.ag_blocks);
    let is_short = blocks < before.data_blocks && rest < least_group_blocks(before);
    let blocks = if is_short { blocks - rest } else { blocks.min(before.data_blocks) };
    let sized = before.grown_to(blocks);
    sized.expect("a smaller volume has numbers for its blocks")
}

/// Returns the lowest possible size of at least `blocks` blocks.
fn rounded_up(geometry: &Geometry, blocks: u64) -> u64 {
    let rest = blocks % u64::from(geometry.ag_blocks);
    let missing = if rest == 0 { 0 } else { least_group_blocks(geometry).saturating_sub(rest) };
    (blocks + missing).min(geometry.data_blocks)
}

/// Returns the least length in blocks of the last group.
fn least_group_blocks(geometry: &Geometry) -> u64 {
    LEAST_GROUP_BLOCKS.max(LEAST_GROUP_BYTES >> geometry.block_log)
}

/// Returns the first block that the volume will lose.
fn first_lost(before: &Geometry, target: &Geometry) -> FsBlock {
    let group = u64::from(before.ag_blocks);
    let (number, block) = (target.data_blocks / group, target.data_blocks % group);
    FsBlock(number << before.ag_blocks_log | block)
}

/// Returns the number of blocks from the start of the volume up to and including this one.
fn blocks_up_to(geometry: &Geometry, block: FsBlock) -> u64 {
    let split = geometry.split_block(block);
    split.map_or(geometry.data_blocks, |(group, block)| {
        u64::from(group.0) * u64::from(geometry.ag_blocks) + u64::from(block.0) + 1
    })
}

/// Finds the least size of the volume.
fn least_size(journal: &Arc<Journal>) -> Result<LeastSize, ShrinkError> {
    let (geometry, superblock) = (journal.geometry(), journal.superblock());
    let groups = LEAST_GROUPS.min(geometry.ag_count.into());
    let two_groups = (groups - 1) * u64::from(geometry.ag_blocks) + least_group_blocks(geometry);
    let blocks = two_groups.max(LEAST_BYTES >> geometry.block_log);
    let mut least = LeastSize { blocks, limit: ShrinkLimit::Smallest };
    if superblock.log_start.0 != 0 {
        let end = blocks_up_to(geometry, superblock.log_start) - 1;
        least.raise(end + u64::from(superblock.log_blocks), ShrinkLimit::Log);
    }
    pin_inodes(journal, &mut least)?;
    pin_metadata_files(journal, &mut least)?;
    if least.blocks >= geometry.data_blocks {
        return Ok(LeastSize { blocks: geometry.data_blocks, ..least });
    }
    least.blocks = rounded_up(geometry, least.blocks);
    let (mut low, mut high) = (least.blocks, geometry.data_blocks);
    if has_room(journal, low)? {
        return Ok(least);
    }
    // `low` has no room, and `high` has.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if has_room(journal, middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    least.raise(rounded_up(geometry, high), ShrinkLimit::Space);
    Ok(least)
}

/// Whether the blocks after the end of a volume of `blocks` blocks have room before that end.
fn has_room(journal: &Journal, blocks: u64) -> Result<bool, ShrinkError> {
    let target = sized(journal.geometry(), blocks);
    let space = shrink_space(journal.cache(), journal.superblock(), &target)?;
    Ok(space.is_some_and(|space| {
        let margin = MARGIN_BLOCKS.max(space.moving_blocks / MARGIN_DIVISOR);
        space.available_blocks >= space.moving_blocks + margin
    }))
}

/// Raises the least size to the end of the last chunk of inodes. The inodes of a sparse chunk may
/// end before it. But a group in which its rest has no room has no valid numbers for its inodes:
/// the kernel and xfs_repair round the end of a group down to the alignment of chunks.
fn pin_inodes(journal: &Journal, least: &mut LeastSize) -> Result<(), ShrinkError> {
    let geometry = journal.geometry();
    for group in geometry.groups().rev() {
        let mut last = None;
        for chunk in xfs_alloc::inode_chunks(journal.cache(), group)? {
            last = Some(chunk?);
        }
        let Some(chunk) = last else { continue };
        let first = chunk.present().trailing_zeros();
        let at = |position| AgInode(chunk.start.0 + position);
        let start = geometry.join_block(group, geometry.ag_inode_block(at(0)));
        let end = blocks_up_to(geometry, start) - 1 + u64::from(geometry.chunk_blocks());
        least.raise(end, ShrinkLimit::Inode(geometry.join_inode(group, at(first))));
        break;
    }
    Ok(())
}

/// Raises the least size to the last block of a quota file, or of another file of the metadata
/// directory.
fn pin_metadata_files(journal: &Arc<Journal>, least: &mut LeastSize) -> Result<(), ShrinkError> {
    let superblock = journal.superblock();
    let quota = superblock.quota_inodes;
    let mut pin = |number: InodeNumber| -> BufferResult<()> {
        let live = LiveInode::load(journal, number)?;
        let inode = live.inode();
        let is_quota = quota.contains(&Some(number));
        let is_metadata = inode.core().metafile_type != 0;
        if inode.file_type() != FileType::Regular || !(is_quota || is_metadata) {
            return Ok(());
        }
        for extent in inode.extent_map(journal.cache(), ForkKind::Data)?.iter() {
            let last = FsBlock(extent.start.0 + u64::from(extent.length_blocks) - 1);
            let blocks = blocks_up_to(journal.geometry(), last);
            least.raise(blocks, ShrinkLimit::MetadataFile(number));
        }
        Ok(())
    };
    if superblock.metadata_directory_inode.is_some() {
        for_each_inode(journal, pin)?;
    } else {
        quota.into_iter().flatten().try_for_each(&mut pin)?;
    }
    Ok(())
}

/// Calls `work` with the number of each inode in use.
fn for_each_inode(
    journal: &Arc<Journal>,
    mut work: impl FnMut(InodeNumber) -> BufferResult<()>,
) -> BufferResult<()> {
    let geometry = journal.geometry();
    for group in geometry.groups() {
        // The records are read before the work, which may move the blocks of the btree.
        let chunks: Vec<_> =
            xfs_alloc::inode_chunks(journal.cache(), group)?.collect::<Result<_, _>>()?;
        for chunk in chunks {
            let allocated = chunk.allocated();
            for position in (0..u64::BITS).filter(|position| allocated >> position & 1 != 0) {
                work(geometry.join_inode(group, AgInode(chunk.start.0 + position)))?;
            }
        }
    }
    Ok(())
}
