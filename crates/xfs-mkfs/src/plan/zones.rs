//! Computes the sizes of a zoned section, and of the data section before it.

use xfs_format::Geometry;
use xfs_format::realtime::MIN_ZONES;

use super::realtime::RealtimePlan;
use super::sizes::{MIN_REALTIME_EXTENT, Sizes};
use super::{GeometryError, TargetDevice};
use crate::options::Options;

/// The default size of a zone in bytes, on a device that does not report zones.
const ZONE_BYTES: u64 = 256 << 20;
/// Number of zones for garbage collection. A section gets them in addition to its requested size,
/// if the device has room.
const COLLECTED_ZONES: u64 = 4;
/// The smallest default size of the data section before an internal zoned section.
const MIN_DATA_BYTES: u64 = 512 << 20;
/// The share of the device that a data section before an internal zoned section has at least: one
/// in this number.
const DATA_PART: u64 = 100;
/// The largest number of blocks of a zone. The disk form of extents has 32 bits for it.
const MAX_ZONE_BLOCKS: u64 = (1 << 31) - 1;

/// Returns the size of a data section for which no size was requested: the whole device, or the
/// part before `-r start`. Before an internal zoned section it is a hundredth of the device,
/// rounded up to a power of two.
pub(super) fn default_data_bytes(
    options: &Options,
    sizes: &Sizes,
    available: u64,
) -> Result<u64, GeometryError> {
    let realtime = &options.realtime;
    if !realtime.is_internal() {
        return Ok(available);
    }
    match realtime.start {
        Some(start) => Ok(sizes.bytes("-r start", start)?.min(available)),
        None => Ok((available / DATA_PART).next_power_of_two().max(MIN_DATA_BYTES).min(available)),
    }
}

impl RealtimePlan {
    /// Returns the sizes of a zoned section. If the requested size is not a multiple of the zone
    /// size, some blocks count as reserved, as in mkfs.xfs: for zones of a power of two, those that
    /// are missing to the next multiple.
    pub(super) fn zoned(
        options: &Options,
        target: &TargetDevice,
        sizes: &Sizes,
        geometry: &Geometry,
    ) -> Result<Self, GeometryError> {
        let (realtime, block) = (&options.realtime, u64::from(sizes.block));
        if realtime.extent_size.is_some() {
            return Err(GeometryError::Exclusive("-r zoned=1", "-r extsize"));
        }
        if block < u64::from(MIN_REALTIME_EXTENT) {
            return Err(GeometryError::Needs("-r zoned=1", "blocks of at least 4 KiB"));
        }
        let start = match realtime.is_internal() {
            true => section_start(options, sizes, geometry)?,
            false if realtime.start.is_some() => {
                return Err(GeometryError::Exclusive("-r start", "-r rtdev"));
            }
            false => 0,
        };
        let device = if start == 0 { target.realtime_bytes } else { Some(target.data_bytes) };
        let available = (device.unwrap_or(0) / block).saturating_sub(start);
        let wanted = match realtime.size {
            None => available,
            Some(size) => sizes.bytes("-r size", size)? / block,
        };
        if wanted > available {
            let (what, asked) = ("realtime device", wanted * block);
            let available = available * block;
            return Err(GeometryError::DeviceTooShort { what, asked, available });
        }
        let zone = zone_blocks(options, sizes, wanted)?;
        let count = (wanted.div_ceil(zone) + COLLECTED_ZONES).min(available / zone);
        let min = u64::from(MIN_ZONES);
        if count < min {
            return Err(GeometryError::Zones { count, min });
        }
        // For zones that are no power of two, mkfs.xfs takes the remainder of a negative number as
        // that of a number of 64 bits.
        let rest = if wanted.is_multiple_of(zone) { 0 } else { wanted.wrapping_neg() % zone };
        let reserved =
            realtime.reserved.map(|size| sizes.bytes("-r reserved", size)).transpose()?;
        let reserved = rest + reserved.unwrap_or(0) / block;
        let blocks = count * zone;
        if reserved > blocks {
            let (option, value, max) = ("-r reserved", reserved, blocks);
            return Err(GeometryError::Range { option, value, min: 0, max });
        }
        let group_count = u32::try_from(count)
            .map_err(|_| GeometryError::RealtimeGroups { count, max: u32::MAX.into() })?;
        Ok(Self {
            blocks,
            extent_blocks: 1,
            extents: blocks,
            group_count,
            // A zone has fewer than 2^31 blocks.
            group_extents: zone as u32,
            is_zoned: true,
            start,
            reserved,
            ..Self::default()
        })
    }
}

/// Returns the first block of an internal section: the end of the data section, or a later block.
fn section_start(
    options: &Options,
    sizes: &Sizes,
    geometry: &Geometry,
) -> Result<u64, GeometryError> {
    let Some(start) = options.realtime.start else { return Ok(geometry.data_blocks) };
    let (block, start) = (u64::from(sizes.block), sizes.bytes("-r start", start)?);
    let data = geometry.data_blocks * block;
    match start >= data && start.is_multiple_of(block) {
        true => Ok(start / block),
        false => Err(GeometryError::ZonesStart { start, data }),
    }
}

/// Returns the number of blocks of a zone.
fn zone_blocks(options: &Options, sizes: &Sizes, blocks: u64) -> Result<u64, GeometryError> {
    let (realtime, block) = (&options.realtime, u64::from(sizes.block));
    let (option, zone) = match (realtime.group_count, realtime.group_size) {
        (Some(_), Some(_)) => return Err(GeometryError::Exclusive("-r rgcount", "-r rgsize")),
        (Some(count), None) => ("-r rgcount", blocks.div_ceil(count.number)),
        (None, Some(size)) => {
            let (option, what) = ("-r rgsize", "the block size");
            let value = sizes.bytes(option, size)?;
            if !value.is_multiple_of(block) {
                return Err(GeometryError::Multiple { option, value, unit: block, what });
            }
            (option, value / block)
        }
        (None, None) => ("-r rgsize", ZONE_BYTES / block),
    };
    let (min, max) = (2, MAX_ZONE_BLOCKS);
    if !(min..=max).contains(&zone) {
        let (min, max) = (min * block, max * block);
        return Err(GeometryError::Range { option, value: zone.saturating_mul(block), min, max });
    }
    Ok(zone)
}
