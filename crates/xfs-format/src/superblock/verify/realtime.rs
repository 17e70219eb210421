//! Functions that check the fields of a superblock about the realtime section and the metadata
//! directory.

use super::SuperblockDisk;
use crate::checks::superblock::SuperblockCheck;
use crate::features::IncompatFeatures;

const MAX_EXTENT_BYTES: u64 = 1 << 30;
/// The largest number of blocks of a realtime group.
#[doc(alias = "XFS_MAX_RGBLOCKS")]
const MAX_GROUP_BLOCKS: u64 = (1 << 31) - 1;
/// Length of the header of a bitmap block of a realtime group, in bytes.
const GROUP_BITMAP_HEADER_BYTES: u64 = 48;

pub(super) fn verify(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let incompat = disk.incompat();
    let has_metadir = incompat.contains(IncompatFeatures::METADIR);
    verify_metadata_directory(disk, has_metadir)?;
    let is_zoned = incompat.contains(IncompatFeatures::ZONED);
    if is_zoned && (!has_metadir || disk.realtime_extent_blocks.get() != 1) {
        return Err(SuperblockCheck::Zoned);
    }
    verify_extents(disk)?;
    if has_metadir {
        verify_groups(disk)?;
        verify_start(disk, is_zoned)?;
    }
    verify_bitmap(disk, has_metadir, is_zoned)
}

fn verify_metadata_directory(
    disk: &SuperblockDisk,
    has_metadir: bool,
) -> Result<(), SuperblockCheck> {
    let inode = disk.metadata_directory_inode.get();
    let inode_bits = u32::from(disk.ag_blocks_log) + u32::from(disk.inodes_per_block_log);
    // mkfs leaves the number unset in the copies.
    let is_set = inode != u64::MAX && !(inode == 0 && disk.in_progress_is_set());
    if has_metadir && is_set && (inode == 0 || inode >> inode_bits >= disk.ag_count.get().into()) {
        return Err(SuperblockCheck::MetadataDirectory { inode });
    }
    Ok(())
}

fn verify_extents(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let (blocks, extents) = (disk.realtime_blocks.get(), disk.realtime_extents.get());
    let extent_blocks = disk.realtime_extent_blocks.get();
    let extent_bytes = u64::from(extent_blocks) << disk.block_log;
    let is_right = if blocks == 0 {
        extents == 0
    } else {
        extent_blocks != 0
            && extent_bytes <= MAX_EXTENT_BYTES
            && extents == blocks / u64::from(extent_blocks)
            && blocks <= i64::MAX.cast_unsigned() >> disk.block_log
    };
    if is_right {
        Ok(())
    } else {
        Err(SuperblockCheck::Realtime { blocks, extents, extent_blocks })
    }
}

fn verify_groups(disk: &SuperblockDisk) -> Result<(), SuperblockCheck> {
    let (groups, extents) = (disk.realtime_group_count.get(), disk.realtime_group_extents.get());
    let log = disk.realtime_group_blocks_log;
    let group_blocks = u64::from(extents) * u64::from(disk.realtime_extent_blocks.get());
    let is_right = if disk.realtime_blocks.get() == 0 {
        groups == 0
    } else {
        (1..=MAX_GROUP_BLOCKS).contains(&group_blocks)
            && group_blocks.next_power_of_two().trailing_zeros() == u32::from(log)
            && u64::from(groups) == disk.realtime_extents.get().div_ceil(extents.into())
    };
    if is_right { Ok(()) } else { Err(SuperblockCheck::RealtimeGroups { groups, extents, log }) }
}

/// Checks the block of the data device at which an internal realtime section starts, and the number
/// of reserved blocks. Both must be 0 unless the section is zoned.
fn verify_start(disk: &SuperblockDisk, is_zoned: bool) -> Result<(), SuperblockCheck> {
    let (start, reserved) = (disk.realtime_start.get(), disk.realtime_reserved.get());
    let (data_blocks, blocks) = (disk.data_blocks.get(), disk.realtime_blocks.get());
    let end_fits = start
        .checked_add(blocks.saturating_mul(2))
        .is_some_and(|end| end <= i64::MAX.cast_unsigned() >> disk.block_log);
    let is_right = if is_zoned && blocks != 0 {
        (start == 0 || start >= data_blocks) && reserved <= blocks && end_fits
    } else {
        start == 0 && reserved == 0
    };
    if is_right {
        Ok(())
    } else {
        Err(SuperblockCheck::RealtimeStart { start, data_blocks, reserved })
    }
}

/// Checks the values that follow from the number of realtime extents, such as the size of the
/// bitmap. On volumes without a realtime section these values are not checked.
fn verify_bitmap(
    disk: &SuperblockDisk,
    has_metadir: bool,
    is_zoned: bool,
) -> Result<(), SuperblockCheck> {
    if disk.realtime_blocks.get() == 0 {
        return Ok(());
    }
    let extents = disk.realtime_extents.get();
    let (log, bitmap_blocks) = (disk.realtime_extents_log, disk.realtime_bitmap_blocks.get());
    let block_bytes = u64::from(disk.block_size.get());
    let expected = if is_zoned {
        0
    } else if has_metadir {
        let group_extents = u64::from(disk.realtime_group_extents.get());
        group_extents.div_ceil(8 * (block_bytes - GROUP_BITMAP_HEADER_BYTES))
    } else {
        extents.div_ceil(8 * block_bytes)
    };
    if u64::from(bitmap_blocks) != expected
        || u32::from(log) != extents.checked_ilog2().unwrap_or(0)
    {
        return Err(SuperblockCheck::RealtimeSizes { log, bitmap_blocks });
    }
    Ok(())
}
