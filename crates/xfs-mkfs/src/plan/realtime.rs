//! Computes the sizes of the realtime section and of the files that describe it.

use xfs_format::{Geometry, IncompatFeatures};

use super::sizes::Sizes;
use super::{GeometryError, TargetDevice, Warning};
use crate::options::Options;

/// The sizes of the realtime section. All sizes are 0 without a section, except `extent_blocks` and
/// `group_extents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RealtimePlan {
    /// Number of blocks of the section.
    pub(crate) blocks: u64,
    /// Number of blocks of a realtime extent.
    pub(crate) extent_blocks: u32,
    /// Number of realtime extents.
    pub(crate) extents: u64,
    /// Number of realtime groups; 0 for a section without groups.
    pub(crate) group_count: u32,
    /// Number of realtime extents of a group; 0 on a volume without metadata directory.
    pub(crate) group_extents: u32,
    /// Number of blocks of a bitmap file.
    pub(crate) bitmap_blocks: u32,
    /// Number of blocks of a summary file.
    pub(crate) summary_blocks: u32,
    /// Whether each group is a zone. A zone has no record of its free blocks.
    pub(crate) is_zoned: bool,
    /// The first block of a section on the data device; 0 for a device of its own.
    pub(crate) start: u64,
    /// Number of blocks of zones that users cannot fill.
    pub(crate) reserved: u64,
}

/// Size in bytes of a realtime group on a volume that has a metadata directory but no realtime
/// section yet.
const ABSENT_GROUP_BYTES: u64 = 1 << 40;
/// The smallest length in bytes of a realtime section that has several groups by default.
const MIN_DIVIDED_BYTES: u64 = 128 << 20;
/// Number of groups of a section of at least `MIN_DIVIDED_BYTES` bytes, before the group size is
/// rounded to a power of two.
const DEFAULT_GROUPS: u64 = 4;
/// The largest number of blocks of a group. The disk form of extents has 32 bits for it.
const MAX_GROUP_BLOCKS: u64 = (1 << 31) - 1;
/// Number of bytes of the header of each block of a bitmap or summary file of a group.
pub(crate) const FILE_HEADER_BYTES: u32 = 48;
const BASIC_BLOCK: u64 = 512;

impl RealtimePlan {
    pub(super) fn new(
        options: &Options,
        target: &TargetDevice,
        sizes: &Sizes,
        geometry: &Geometry,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, GeometryError> {
        let has_groups = geometry.incompat.contains(IncompatFeatures::METADIR);
        let extent_blocks = sizes.realtime_extent / sizes.block;
        if options.realtime.zoned {
            return Self::zoned(options, target, sizes, geometry);
        }
        for (option, value) in
            [("-r start", options.realtime.start), ("-r reserved", options.realtime.reserved)]
        {
            if value.is_some() {
                return Err(GeometryError::Needs(option, "-r zoned=1"));
            }
        }
        if options.realtime.device.is_none() {
            return Self::absent(options, sizes, has_groups);
        }
        let blocks = section_blocks(options, target, sizes, warnings)?;
        let extents = blocks / u64::from(extent_blocks);
        if extents == 0 {
            return Err(GeometryError::EmptyRealtime { bytes: blocks * u64::from(sizes.block) });
        }
        let section = Self { blocks, extent_blocks, extents, ..Self::default() };
        if !has_groups {
            return section.with_files(extents, sizes.block);
        }
        let group_extents = group_extents(options, sizes, blocks)?;
        let count = extents.div_ceil(group_extents);
        let group_count = u32::try_from(count)
            .map_err(|_| GeometryError::RealtimeGroups { count, max: u32::MAX.into() })?;
        // A group has fewer than 2^31 blocks.
        let section = Self { group_count, group_extents: group_extents as u32, ..section };
        section.with_files(group_extents, sizes.block - FILE_HEADER_BYTES)
    }

    /// Returns the sizes of a volume without a realtime section.
    fn absent(options: &Options, sizes: &Sizes, has_groups: bool) -> Result<Self, GeometryError> {
        let realtime = &options.realtime;
        if realtime.size.is_some() {
            return Err(GeometryError::Needs("-r size", "-r rtdev"));
        }
        let has_group_size = realtime.group_count.is_some() || realtime.group_size.is_some();
        if has_groups && has_group_size {
            return Err(GeometryError::Needs("-r rgcount, rgsize", "-r rtdev"));
        }
        let extents = ABSENT_GROUP_BYTES / u64::from(sizes.realtime_extent);
        Ok(Self {
            extent_blocks: sizes.realtime_extent / sizes.block,
            // An extent has at least 4 KiB.
            group_extents: if has_groups { extents as u32 } else { 0 },
            ..Self::default()
        })
    }

    /// Adds the sizes of the files that describe `extents` extents. Each block of a file has
    /// `payload` bytes for its contents.
    fn with_files(self, extents: u64, payload: u32) -> Result<Self, GeometryError> {
        let bitmap_blocks = extents.div_ceil(u64::from(payload) * 8);
        let levels = u64::from(extents.ilog2()) + 1;
        let summary_bytes = levels * bitmap_blocks * 4;
        let fit = |blocks: u64| {
            u32::try_from(blocks).map_err(|_| GeometryError::NoRoomForRealtime { blocks })
        };
        let summary_blocks = fit(summary_bytes.div_ceil(u64::from(payload)))?;
        Ok(Self { bitmap_blocks: fit(bitmap_blocks)?, summary_blocks, ..self })
    }

    /// Returns the number of free extents, which is not stored for zones. All extents are free,
    /// except the first extent of a section with groups, which holds the realtime superblock.
    pub(crate) fn free_extents(&self) -> u64 {
        if self.is_zoned {
            return 0;
        }
        self.extents - u64::from(self.group_count != 0)
    }

    /// Returns the binary logarithm of the number of blocks of a group, rounded up.
    pub(crate) fn group_blocks_log(&self) -> u8 {
        let blocks = u64::from(self.group_extents) * u64::from(self.extent_blocks);
        if blocks == 0 { 0 } else { blocks.next_power_of_two().ilog2() as u8 }
    }

    /// Returns the number of extents of a group. A section without groups counts as one group.
    pub(crate) fn extents_of(&self, group: u32) -> u64 {
        let size = match self.group_count {
            0 => return self.extents,
            _ => u64::from(self.group_extents),
        };
        self.extents.saturating_sub(u64::from(group) * size).min(size)
    }
}

fn section_blocks(
    options: &Options,
    target: &TargetDevice,
    sizes: &Sizes,
    warnings: &mut Vec<Warning>,
) -> Result<u64, GeometryError> {
    let available = target.realtime_bytes.unwrap_or(0);
    let block = u64::from(sizes.block);
    let Some(size) = options.realtime.size else { return Ok(available / block) };
    let (option, what) = ("-r size", "realtime device");
    let bytes = sizes.bytes(option, size)?;
    if !bytes.is_multiple_of(BASIC_BLOCK) {
        let (unit, what) = (BASIC_BLOCK, "a sector");
        return Err(GeometryError::Multiple { option, value: bytes, unit, what });
    }
    if bytes > available {
        return Err(GeometryError::DeviceTooShort { what, asked: bytes, available });
    }
    if !bytes.is_multiple_of(block) {
        warnings.push(Warning::Truncated { option, bytes, blocks: bytes / block });
    }
    Ok(bytes / block)
}

/// Returns the number of extents of a realtime group.
fn group_extents(options: &Options, sizes: &Sizes, blocks: u64) -> Result<u64, GeometryError> {
    let (block, extent) = (u64::from(sizes.block), u64::from(sizes.realtime_extent));
    let extent_blocks = extent / block;
    let realtime = &options.realtime;
    let (option, group_blocks) = match (realtime.group_count, realtime.group_size) {
        (Some(_), Some(_)) => return Err(GeometryError::Exclusive("-r rgcount", "-r rgsize")),
        (Some(count), None) => ("-r rgcount", blocks.div_ceil(count.number)),
        (None, Some(size)) => {
            let (option, what) = ("-r rgsize", "a realtime extent");
            let value = sizes.bytes(option, size)?;
            if !value.is_multiple_of(extent) {
                return Err(GeometryError::Multiple { option, value, unit: extent, what });
            }
            (option, value / block)
        }
        (None, None) if !extent_blocks.is_power_of_two() => {
            let extents = "-r extsize that is not a power of two";
            return Err(GeometryError::Needs(extents, "-r rgcount or rgsize"));
        }
        (None, None) => ("-r rgsize", default_group_blocks(blocks, block)),
    };
    let (min, max) = (2 * extent_blocks, MAX_GROUP_BLOCKS);
    if !(min..=max).contains(&group_blocks) {
        let (min, max) = (min * block, max * block);
        let value = group_blocks.saturating_mul(block);
        return Err(GeometryError::Range { option, value, min, max });
    }
    if !group_blocks.is_multiple_of(extent_blocks) {
        let (value, what) = (group_blocks * block, "a realtime extent");
        return Err(GeometryError::Multiple { option, value, unit: extent, what });
    }
    Ok(group_blocks / extent_blocks)
}

/// Returns the default number of blocks of a group: a quarter of the section, or all of a section
/// with fewer than `MIN_DIVIDED_BYTES` bytes, rounded down to a power of two. If the section would
/// consist of equal groups of this size, another size is used. It is twice the section if the
/// length of the section is a power of two, and otherwise the largest power of two below the length
/// of the section.
fn default_group_blocks(blocks: u64, block: u64) -> u64 {
    let groups = if blocks * block >= MIN_DIVIDED_BYTES { DEFAULT_GROUPS } else { 1 };
    let below = |number: u64| 1_u64 << number.max(1).ilog2();
    let size = below(blocks / groups);
    if !blocks.is_multiple_of(size) {
        return size;
    }
    if blocks.is_power_of_two() { blocks.saturating_mul(2) } else { below(blocks) }
}
