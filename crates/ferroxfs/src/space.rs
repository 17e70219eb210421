//! Free space and free inodes of a volume, as `statfs` shows them.

use std::ops::Range;

use xfs_alloc::{FreeSpaceClearing, RealtimeSpace, VolumeCounters, available_blocks};
use xfs_format::IncompatFeatures;
use xfs_format::inode::InodeFlags;
use xfs_quota::{Quota, QuotaType, Usage};
use xfs_vfs::Capabilities;

use crate::volume_ref::VolumeRef;
use crate::{Node, Result, Volume};

/// Space and inodes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks for data and metadata, without the internal log.
    pub total_blocks: u64,
    /// Free blocks, summed up over the allocation groups.
    pub free_blocks: u64,
    /// Free blocks that files can use, as `statfs` shows them on a mounted volume. The remaining
    /// free blocks are reserved: for btrees, and for operations that must not fail for lack of
    /// space.
    pub available_blocks: u64,
    /// Allocated inodes, free ones included.
    pub inodes: u64,
    /// Number of free inodes among the allocated inodes.
    pub free_inodes: u64,
    /// How many inodes the volume can have, as `statfs` shows it: the allocated ones, and those
    /// that the free space could hold, up to the limit that mkfs set.
    #[doc(alias = "f_files")]
    pub files: u64,
    /// The blocks of the realtime section. `None` if the volume has no such section, or a zoned
    /// one, whose free space is not counted.
    pub realtime: Option<RealtimeBlocks>,
}

/// The blocks of a realtime section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RealtimeBlocks {
    /// Number of all blocks.
    pub total: u64,
    /// Number of free blocks.
    #[doc(alias = "sb_frextents")]
    pub free: u64,
}

impl Space {
    /// Returns how many files can be made, as `statfs` shows it.
    #[doc(alias = "f_ffree")]
    #[must_use]
    pub const fn free_files(&self) -> u64 {
        self.files.saturating_sub(self.inodes.saturating_sub(self.free_inodes))
    }

    /// Returns this space with the blocks of the realtime section in place of the blocks of the
    /// data device. Returns it unchanged if `realtime` is `None`.
    #[doc(alias = "xfs_statfs_rt")]
    fn of_realtime(self) -> Self {
        let Some(RealtimeBlocks { total, free }) = self.realtime else { return self };
        Self { total_blocks: total, free_blocks: free, available_blocks: free, ..self }
    }

    /// Returns this space, reduced to the limits of a project where they are smaller. If the
    /// project has a soft limit, that limit counts instead of the hard one. `of_blocks` has the
    /// project's usage and limits of the blocks that this space counts: data or realtime blocks.
    fn within(mut self, quota: &Quota, of_blocks: &Usage) -> Self {
        let limit = |usage: &Usage| if usage.soft != 0 { usage.soft } else { usage.hard };
        let blocks = limit(of_blocks);
        if blocks != 0 {
            let left = blocks.saturating_sub(of_blocks.used);
            self.total_blocks = self.total_blocks.min(blocks);
            self.free_blocks = self.free_blocks.min(left);
            self.available_blocks = self.available_blocks.min(left);
        }
        let inodes = limit(&quota.inodes);
        if inodes != 0 && self.files > inodes {
            self.files = inodes;
            (self.inodes, self.free_inodes) = (quota.inodes.used, 0);
        }
        self
    }
}

/// How free blocks become zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FreeSpaceZeros {
    /// As holes of the image file; where its host or the device cannot make holes, as written
    /// zeros.
    #[default]
    Holes,
    /// As written zeros, so that the space stays allocated on the host. A hole stays a hole.
    Written,
}

impl Volume {
    /// Discards the free space in a range of the device, in extents of at least `minimum_bytes`,
    /// and returns how many bytes were discarded. The volume stays in use meanwhile. Earlier
    /// changes are made durable first, so that no block is discarded that a crash would bring back.
    /// In the range, the realtime section follows the data section, as in the kernel, wherever it
    /// lies. Zones without blocks of files are reset, and discarded if they lie in the range.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; the
    /// device's error, after a part may have been discarded; the error of the log.
    #[doc(alias = "FITRIM")]
    pub fn trim(&self, range: Range<u64>, minimum_bytes: u64) -> Result<u64> {
        self.clear_free_space(range, minimum_bytes, FreeSpaceClearing::Discard)
    }

    /// Makes all free blocks read as zeros, and returns their number of bytes. A file gets holes,
    /// if its host can make holes. [`FreeSpaceZeros::Written`] writes zeros instead. The volume
    /// stays in use meanwhile. Earlier changes are made durable first. Blocks in zones that hold
    /// other blocks of files stay as they are.
    ///
    /// # Errors
    ///
    /// The errors of [`trim`](Self::trim).
    pub fn zero_free_space(&self, zeros: FreeSpaceZeros) -> Result<u64> {
        let clearing = match zeros {
            FreeSpaceZeros::Holes => FreeSpaceClearing::Holes,
            FreeSpaceZeros::Written => FreeSpaceClearing::Zeros,
        };
        self.clear_free_space(0..u64::MAX, 0, clearing)
    }

    fn clear_free_space(
        &self,
        range: Range<u64>,
        minimum_bytes: u64,
        clearing: FreeSpaceClearing,
    ) -> Result<u64> {
        self.require(Capabilities::SYS_ADMIN)?;
        let guard = self.volume_ref().mount()?.write_guard();
        let journal = &guard.mount().journal;
        let geometry = self.geometry();
        let block = u64::from(geometry.block_size);
        let blocks = range.start.div_ceil(block)..range.end / block;
        let minimum = u32::try_from(minimum_bytes.div_ceil(block)).unwrap_or(u32::MAX);
        let discarded = xfs_alloc::discard_free_space(journal, blocks, minimum, clearing)?;
        Ok(discarded << geometry.block_log)
    }
}

impl Node {
    /// Returns space and inodes as `statfs` shows them for this file. On a volume that enforces the
    /// limits of projects, a directory whose new files inherit its project shows the limits of the
    /// project in place of the volume's space, where the limits are smaller. A realtime file, and a
    /// directory whose new files are realtime files, show the blocks of the realtime section.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Volume::space`].
    #[doc(alias = "xfs_qm_statvfs")]
    pub fn space(&self) -> Result<Space> {
        let volume = self.volume_ref();
        let (flags, project) = {
            let view = self.view();
            (view.core().flags, view.core().project_id)
        };
        let mut space = count(volume)?;
        let is_realtime = space.realtime.is_some()
            && flags.intersects(InodeFlags::REALTIME | InodeFlags::RTINHERIT);
        if is_realtime {
            space = space.of_realtime();
        }
        let inherits = flags.contains(InodeFlags::PROJINHERIT);
        let Some(engine) = volume.quota().filter(|_| inherits) else { return Ok(space) };
        let kind = QuotaType::Project;
        if !engine.enforces(kind) {
            return Ok(space);
        }
        let quota = engine.quota(&volume.mount()?.journal, kind, project)?;
        let Some(quota) = quota else { return Ok(space) };
        Ok(space.within(&quota, if is_realtime { &quota.rt_blocks } else { &quota.blocks }))
    }
}

/// Sums up free space and inodes over the headers of all allocation groups. The counters of the
/// superblock are not used: they may be lazy counters, which can be out of date.
pub(crate) fn count(core: &VolumeRef) -> Result<Space> {
    let superblock = core.superblock();
    let geometry = core.cache().geometry();
    let counters = VolumeCounters::sum(core.cache())?;
    let available_blocks = match core.threads() {
        Some(threads) => threads.mount().free_blocks(),
        None => available_blocks(core.cache(), superblock)?,
    };
    Ok(Space {
        block_size: geometry.block_size,
        total_blocks: data_blocks_without_log(core),
        free_blocks: counters.free_blocks,
        available_blocks,
        inodes: counters.inodes,
        free_inodes: counters.free_inodes,
        files: files(core, counters.inodes, available_blocks),
        realtime: realtime_blocks(core),
    })
}

/// Returns the blocks of the realtime section. On a volume that is open for reading, the superblock
/// has the count of free extents: the replay of a dirty log has counted them.
fn realtime_blocks(core: &VolumeRef) -> Option<RealtimeBlocks> {
    let superblock = core.superblock();
    if !superblock.has_realtime() || superblock.has_incompat(IncompatFeatures::ZONED) {
        return None;
    }
    let open = core.threads().and_then(|threads| RealtimeSpace::of(&threads.mount().journal));
    let extents = match open {
        Some(space) => space.free_extents(),
        None => superblock.free_realtime_extents,
    };
    let unit = u64::from(superblock.geometry.realtime_extent_blocks);
    let (total, free) = (superblock.realtime_blocks, extents.saturating_mul(unit));
    Some(RealtimeBlocks { total, free: free.min(total) })
}

fn files(core: &VolumeRef, inodes: u64, available_blocks: u64) -> u64 {
    let geometry = core.cache().geometry();
    let more = available_blocks.saturating_mul(1 << geometry.inodes_per_block_log);
    let limit = core.superblock().inode_limit(geometry.data_blocks).unwrap_or(u64::MAX);
    // A volume may have a few more than the limit.
    inodes.saturating_add(more).min(limit).max(inodes)
}

fn data_blocks_without_log(core: &VolumeRef) -> u64 {
    let (superblock, blocks) = (core.superblock(), core.cache().geometry().data_blocks);
    if superblock.has_external_log() { blocks } else { blocks - u64::from(superblock.log_blocks) }
}

#[cfg(test)]
mod tests;
