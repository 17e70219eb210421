//! Functions that check one superblock by itself, without reading other structures.

mod realtime;

use super::{CRC_OFFSET, SuperblockDisk};
use crate::checks::superblock::SuperblockCheck;
use crate::corruption::Check;
use crate::envelope;
use crate::features::{Features2, FormatVersion, IncompatFeatures, VersionFlags};
use crate::geometry::MIN_LAST_AG_BLOCKS;

const MIN_BLOCK: u32 = 1 << 10;
/// Length of the smallest block of a v4 volume, in bytes.
const MIN_BLOCK_V4: u32 = 1 << 9;
const MAX_BLOCK: u32 = 1 << 16;
const MIN_SECTOR: u32 = 1 << 9;
const MAX_SECTOR: u32 = 1 << 15;
const MIN_INODE: u32 = 1 << 9;
/// Length of the smallest inode of a v4 volume, in bytes.
const MIN_INODE_V4: u32 = 1 << 8;
const MAX_INODE: u32 = 1 << 11;
/// Length of the smallest allocation group, in bytes.
const MIN_AG_BYTES: u64 = 16 << 20;
/// Length of the largest allocation group, in bytes.
const MAX_AG_BYTES: u64 = 1 << 40;
/// Length of the shortest log, in filesystem blocks.
pub(super) const MIN_LOG_BLOCKS: u32 = 512;
const MAX_LOG_BLOCKS: u32 = 1 << 20;
const MAX_LOG_BYTES: u64 = 1 << 31;
const MAX_LOG_STRIPE_UNIT: u32 = 256 << 10;
const MAX_DIRECTORY_BLOCK_LOG: u8 = 16;

pub(super) fn verify_checksum(disk: &SuperblockDisk, sector: &[u8]) -> Result<(), Check> {
    let size = usize::from(disk.sector_size.get());
    let whole = sector.get(..size).ok_or(envelope::truncated(sector, size))?;
    envelope::verify_checksum(whole, CRC_OFFSET)
}

pub(super) fn verify_fields(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    verify_version(disk)?;
    verify_sizes(disk)?;
    verify_groups(disk)?;
    verify_inodes(disk)?;
    verify_log(disk)?;
    verify_stripe(disk)?;
    realtime::verify(disk)
}

fn verify_version(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    match disk.format_version() {
        FormatVersion::V4 => verify_version_4(disk)?,
        FormatVersion::V5 => verify_version_5(disk)?,
    }
    match disk.shared_version {
        0 => Ok(()),
        version => Err(SuperblockCheck::SharedVersion { version }),
    }
}

/// Checks that a v4 volume has no unknown feature. A missing feature is not corruption:
/// [`refusal`](super::refusal) refuses it by name.
fn verify_version_4(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let version = disk.version.get();
    if version & !(VersionFlags::all().bits() | 0xf) != 0 {
        return Err(SuperblockCheck::Version { version });
    }
    let features2 = disk.features2();
    let known = Features2::LAZYSBCOUNT
        .union(Features2::ATTR2)
        .union(Features2::PROJID32)
        .union(Features2::FTYPE);
    if !known.contains(features2) {
        return Err(SuperblockCheck::Features2 { features2: features2.bits() });
    }
    Ok(())
}

fn verify_version_5(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let version = disk.version.get();
    let flags = disk.version_flags();
    let required = VersionFlags::NLINK
        .union(VersionFlags::ALIGN)
        .union(VersionFlags::LOGV2)
        .union(VersionFlags::EXTFLG)
        .union(VersionFlags::DIRV2)
        .union(VersionFlags::MOREBITS);
    if version & 0xf != 5 || !flags.contains(required) {
        return Err(SuperblockCheck::Version { version });
    }
    let features2 = disk.features2.get();
    let bits = Features2::from_bits_truncate(features2);
    if !bits.contains(Features2::CRC | Features2::PROJID32 | Features2::LAZYSBCOUNT) {
        return Err(SuperblockCheck::Features2 { features2 });
    }
    Ok(())
}

fn verify_power(
    field: &'static str,
    size: u32,
    log: u8,
    min: u32,
    max: u32,
) -> Result<(), SuperblockCheck> {
    if !(min..=max).contains(&size) {
        return Err(SuperblockCheck::SizeRange { field, size, min, max });
    }
    if 1_u32.checked_shl(u32::from(log)) != Some(size) {
        return Err(SuperblockCheck::SizeAgainstLog { field, size, log });
    }
    Ok(())
}

fn verify_sizes(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let block_size = disk.block_size.get();
    let sector_size = u32::from(disk.sector_size.get());
    let inode_size = disk.inode_size.get();
    let (min_block, min_inode) = match disk.format_version() {
        FormatVersion::V4 => (MIN_BLOCK_V4, MIN_INODE_V4),
        FormatVersion::V5 => (MIN_BLOCK, MIN_INODE),
    };
    verify_power("block size", block_size, disk.block_log, min_block, MAX_BLOCK)?;
    verify_power("sector size", sector_size, disk.sector_log, MIN_SECTOR, MAX_SECTOR)?;
    if sector_size > block_size {
        let (field, size) = ("sector size", sector_size);
        return Err(SuperblockCheck::SizeRange { field, size, min: MIN_SECTOR, max: block_size });
    }
    verify_power("inode size", inode_size.into(), disk.inode_log, min_inode, MAX_INODE)?;
    let inodes = disk.inodes_per_block.get();
    let inodes_match = u32::from(inodes) * u32::from(inode_size) == block_size
        && disk.block_log.checked_sub(disk.inode_log) == Some(disk.inodes_per_block_log);
    if inodes == 0 || !inodes_match {
        return Err(SuperblockCheck::InodesPerBlock { inodes, block_size, inode_size });
    }
    match disk.block_log.checked_add(disk.directory_block_log) {
        Some(log) if log <= MAX_DIRECTORY_BLOCK_LOG => Ok(()),
        _ => Err(SuperblockCheck::DirectoryBlock { log: disk.directory_block_log }),
    }
}

fn verify_groups(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let ag_blocks = disk.ag_blocks.get();
    let ag_bytes = u64::from(ag_blocks) << disk.block_log;
    if !(MIN_AG_BYTES..=MAX_AG_BYTES).contains(&ag_bytes) {
        return Err(SuperblockCheck::AgBlocks { ag_blocks });
    }
    let log = disk.ag_blocks_log;
    if ag_blocks.next_power_of_two().trailing_zeros() != u32::from(log) {
        return Err(SuperblockCheck::AgBlocksLog { ag_blocks, log });
    }
    let (ag_count, data_blocks) = (disk.ag_count.get(), disk.data_blocks.get());
    let full = u64::from(ag_count) * u64::from(ag_blocks);
    let shortest = full - u64::from(ag_blocks) * u64::from(ag_count != 0) + MIN_LAST_AG_BLOCKS;
    if ag_count == 0 || data_blocks > full || data_blocks < shortest {
        return Err(SuperblockCheck::AgCount { ag_count, ag_blocks, data_blocks });
    }
    let free = disk.free_blocks.get();
    if !disk.in_progress_is_set() && free > data_blocks {
        return Err(SuperblockCheck::Counter { what: "blocks", free, count: data_blocks });
    }
    Ok(())
}

fn verify_inodes(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    if disk.inode_max_percent > 100 {
        return Err(SuperblockCheck::InodeMaxPercent { percent: disk.inode_max_percent });
    }
    let incompat = disk.incompat();
    let blocks = disk.inode_alignment_blocks.get();
    // The alignment is 0 if a chunk is smaller than a block.
    let chunk_bytes = 64 * u64::from(disk.inode_size.get());
    let chunk_blocks = chunk_bytes >> disk.block_log;
    if incompat.contains(IncompatFeatures::SPARSE_INODES) && u64::from(blocks) != chunk_blocks {
        return Err(SuperblockCheck::SparseAlignment { blocks });
    }
    let root = disk.root_inode.get();
    let inode_bits = u32::from(disk.ag_blocks_log) + u32::from(disk.inodes_per_block_log);
    let root_is_set = root != u64::MAX;
    if root_is_set && (root == 0 || root >> inode_bits >= u64::from(disk.ag_count.get())) {
        return Err(SuperblockCheck::RootInode { root });
    }
    let (count, free) = (disk.inode_count.get(), disk.free_inodes.get());
    if !disk.in_progress_is_set() && free > count {
        return Err(SuperblockCheck::Counter { what: "inodes", free, count });
    }
    Ok(())
}

fn verify_log(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let blocks = disk.log_blocks.get();
    let bytes = u64::from(blocks) << disk.block_log;
    if !(MIN_LOG_BLOCKS..=MAX_LOG_BLOCKS).contains(&blocks) || bytes > MAX_LOG_BYTES {
        return Err(SuperblockCheck::LogBlocks { blocks });
    }
    let start = disk.log_start.get();
    let in_group = start & ((1 << disk.ag_blocks_log) - 1);
    let ends = in_group + u64::from(blocks);
    let group = start >> disk.ag_blocks_log;
    let ag_blocks = u64::from(disk.ag_blocks.get());
    // The last group may be shorter than the others. `verify_groups` has checked that every group
    // starts inside the volume.
    let outside = group >= u64::from(disk.ag_count.get())
        || ends > ag_blocks.min(disk.data_blocks.get() - group * ag_blocks);
    if start != 0 && outside {
        return Err(SuperblockCheck::LogOutside { start, blocks });
    }
    let (size, log) = (disk.log_sector_size.get(), disk.log_sector_log);
    let with_sectors =
        VersionFlags::from_bits_truncate(disk.version.get()).contains(VersionFlags::SECTOR);
    let sector_is_right = if with_sectors {
        verify_power("log sector size", size.into(), log, MIN_SECTOR, MAX_SECTOR).is_ok()
    } else {
        size == 0 && log == 0
    };
    if !sector_is_right {
        return Err(SuperblockCheck::LogSector { size, log });
    }
    let unit = disk.log_stripe_unit_bytes.get();
    let unit_is_right =
        unit <= 1 || (unit <= MAX_LOG_STRIPE_UNIT && unit.is_multiple_of(disk.block_size.get()));
    if !unit_is_right {
        return Err(SuperblockCheck::LogStripeUnit { bytes: unit });
    }
    Ok(())
}

fn verify_stripe(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let (unit, width) = (disk.stripe_unit_blocks.get(), disk.stripe_width_blocks.get());
    let flagged =
        VersionFlags::from_bits_truncate(disk.version.get()).contains(VersionFlags::DALIGN);
    let is_right = match (flagged, unit) {
        (false, _) => unit == 0 && width == 0,
        (true, 0) => width == 0,
        (true, unit) => width >= unit && width.is_multiple_of(unit),
    };
    if is_right { Ok(()) } else { Err(SuperblockCheck::Stripe { unit, width }) }
}

impl SuperblockDisk {
    /// Returns whether `sb_inprogress` is set. In secondary superblocks the field stays set, and
    /// the counters stay as mkfs wrote them.
    fn in_progress_is_set(&self) -> bool {
        self.in_progress != 0
    }
}
