//! Computes the size and the location of the log.

use xfs_format::reservation::minimum_log_blocks;
use xfs_format::{AgBlock, AgNumber, Geometry};

use super::groups::Stripe;
use super::sizes::Sizes;
use super::{GeometryError, TargetDevice, Warning};
use crate::layout::first_free_block;
use crate::options::Options;

/// Size, location and stripe unit of the log, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPlan {
    /// The group and the block at which an internal log starts. `None` for an external log.
    pub(super) start: Option<(AgNumber, AgBlock)>,
    pub(super) blocks: u64,
    pub(super) sector: u32,
    /// The stripe unit of the log in blocks; 0 if there is none.
    pub(super) unit: u64,
}

const MIN_BLOCKS: u64 = 512;
const MAX_BLOCKS: u64 = 1 << 20;
const MAX_BYTES: u64 = (2 << 30) - (10 << 20);
/// The size, in bytes, from which on a volume gets a default log of at least `MIN_USEFUL_BYTES`.
const USEFUL_LOG_FROM_BYTES: u64 = 300 << 20;
/// The smallest default log, in bytes, of a volume of at least `USEFUL_LOG_FROM_BYTES`.
const MIN_USEFUL_BYTES: u64 = 64 << 20;
/// The smallest external log, in bytes, of a volume of 1 GiB or more.
const MIN_EXTERNAL_BYTES: u64 = 10 << 20;
/// The length of the volume divided by that of its default log.
const VOLUME_PER_LOG: u64 = 2048;
const MAX_UNIT_BYTES: u64 = 256 << 10;
/// The stripe unit, in bytes, that a log gets if the requested stripe unit, or that of the data, is
/// too large for a log.
const DEFAULT_UNIT_BYTES: u64 = 32 << 10;
/// Number of blocks that each group reserves for its free list.
#[doc(alias = "XFS_ALLOC_AGFL_RESERVE")]
const RESERVED_BLOCKS: u64 = 4;

/// The parts of the plan that the log depends on, and that are therefore computed before it.
pub(super) struct DataPlan<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) stripe: Stripe,
    pub(super) geometry: &'a Geometry,
}

impl LogPlan {
    pub(super) fn new(
        options: &Options,
        target: &TargetDevice,
        DataPlan { sizes, stripe, geometry }: DataPlan<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, GeometryError> {
        let is_external = is_external(options)?;
        let sector = sector_size(options, sizes, is_external)?;
        let unit = match requested_unit(options, sizes)? {
            Some(unit) => unit,
            None if is_external => sector_unit(sector),
            None => internal_unit(stripe, sizes.block.into(), sector, warnings),
        };
        let min = minimum_log_blocks(geometry, unit_bytes(unit, sizes.block)).max(MIN_BLOCKS);
        let blocks = match options.log.size {
            None => None,
            Some(size) => {
                let bytes = sizes.bytes("-l size", size)?;
                Some(whole_blocks(bytes, sizes.block.into(), warnings)?)
            }
        };
        let bounds = LogBounds { geometry, unit, min, is_smallest: options.minimize };
        let (start, blocks) = match is_external {
            true => (None, bounds.external(blocks, target.log_bytes.unwrap_or(0))?),
            false => {
                let group = log_group(options, geometry)?;
                let (start, blocks) = bounds.internal(blocks, group, stripe)?;
                (Some((group, start)), blocks)
            }
        };
        let bytes = blocks << geometry.block_log;
        if bytes < MIN_USEFUL_BYTES && !options.allow_small && !options.minimize {
            // Requested groups may be too small for a larger log; the kernel mounts such a volume.
            let is_all_there_is = options.log.size.is_none() && !is_external && has_groups(options);
            if !is_all_there_is {
                return Err(GeometryError::SmallLog { bytes });
            }
            warnings.push(Warning::ShortLog { bytes });
        }
        Ok(Self { start, blocks, sector, unit })
    }

    /// Returns the stripe unit in bytes as the superblock has it: 1 means no stripe unit.
    pub(super) fn unit_bytes(&self, block: u32) -> u32 {
        unit_bytes(self.unit, block)
    }
}

fn unit_bytes(unit: u64, block: u32) -> u32 {
    // A unit is at most 256 KiB.
    if unit == 0 { 1 } else { (unit * u64::from(block)) as u32 }
}

/// Returns whether the options request a number of allocation groups or a group size.
fn has_groups(options: &Options) -> bool {
    options.data.agcount.is_some() || options.data.agsize.is_some()
}

fn is_external(options: &Options) -> Result<bool, GeometryError> {
    let log = &options.log;
    match (&log.device, log.internal) {
        (Some(_), Some(true)) => Err(GeometryError::Exclusive("-l logdev", "-l internal")),
        (Some(_), _) if log.agnum.is_some() => {
            Err(GeometryError::Exclusive("-l logdev", "-l agnum"))
        }
        (Some(_), _) => Ok(true),
        (None, Some(false)) => Err(GeometryError::Needs("-l internal=0", "-l logdev")),
        (None, _) => Ok(false),
    }
}

fn sector_size(options: &Options, sizes: &Sizes, is_external: bool) -> Result<u32, GeometryError> {
    let option = "-l sectsize";
    let Some(size) = options.log.sectsize else { return Ok(sizes.sector) };
    let value = sizes.bytes(option, size)?;
    let (min, max) = match is_external {
        true => (512, u64::from(sizes.block.min(32 << 10))),
        false => (sizes.sector.into(), sizes.sector.into()),
    };
    if !(min..=max).contains(&value) {
        return Err(GeometryError::Range { option, value, min, max });
    }
    if !value.is_power_of_two() {
        return Err(GeometryError::PowerOfTwo { option, value });
    }
    Ok(value as u32)
}

/// Returns the requested stripe unit of the log in blocks, or `None` if none is requested.
fn requested_unit(options: &Options, sizes: &Sizes) -> Result<Option<u64>, GeometryError> {
    let block = u64::from(sizes.block);
    let (option, value) = match (options.log.su, options.log.sunit) {
        (Some(_), Some(_)) => return Err(GeometryError::Exclusive("-l su", "-l sunit")),
        (Some(su), None) => ("-l su", sizes.bytes("-l su", su)?),
        (None, Some(sunit)) => {
            let overflow = GeometryError::Overflow { option: "-l sunit" };
            ("-l sunit", sunit.number.checked_mul(512).ok_or(overflow)?)
        }
        (None, None) => return Ok(None),
    };
    if !value.is_multiple_of(block) {
        return Err(GeometryError::Multiple { option, value, unit: block, what: "the block size" });
    }
    if !(block..=MAX_UNIT_BYTES).contains(&value) {
        return Err(GeometryError::Range { option, value, min: block, max: MAX_UNIT_BYTES });
    }
    Ok(Some(value / block))
}

/// Returns the default stripe unit of an internal log in blocks: the stripe unit of the data, or a
/// smaller one if the data's unit is too large for a log.
fn internal_unit(stripe: Stripe, block: u64, sector: u32, warnings: &mut Vec<Warning>) -> u64 {
    let bytes = stripe.unit * block;
    if bytes > MAX_UNIT_BYTES {
        warnings.push(Warning::LogStripe { bytes, instead: DEFAULT_UNIT_BYTES });
        // Larger blocks leave the log without a unit, as with mkfs.xfs.
        return DEFAULT_UNIT_BYTES / block;
    }
    if stripe.unit == 0 { sector_unit(sector) } else { stripe.unit }
}

/// Returns the stripe unit in blocks that a log without a stripe gets. It is 0 for sectors of 512
/// bytes. For larger sectors it is one block, since a log record must fill whole sectors.
fn sector_unit(sector: u32) -> u64 {
    u64::from(sector > 512)
}

fn whole_blocks(bytes: u64, block: u64, warnings: &mut Vec<Warning>) -> Result<u64, GeometryError> {
    let option = "-l size";
    if !bytes.is_multiple_of(512) {
        return Err(GeometryError::Multiple { option, value: bytes, unit: 512, what: "a sector" });
    }
    if !bytes.is_multiple_of(block) {
        warnings.push(Warning::Truncated { option, bytes, blocks: bytes / block });
    }
    Ok(bytes / block)
}

fn log_group(options: &Options, geometry: &Geometry) -> Result<AgNumber, GeometryError> {
    let Some(asked) = options.log.agnum else {
        // The last of two groups may be too short for the log.
        let group = if options.minimize { 0 } else { geometry.ag_count / 2 };
        return Ok(AgNumber(group));
    };
    match u32::try_from(asked.number) {
        Ok(group) if group < geometry.ag_count => Ok(AgNumber(group)),
        _ => {
            let (group, count) = (asked.number, geometry.ag_count.into());
            Err(GeometryError::LogGroup { group, count })
        }
    }
}

/// The values that limit the size of the log.
struct LogBounds<'a> {
    geometry: &'a Geometry,
    unit: u64,
    min: u64,
    /// Whether the default is the smallest log.
    is_smallest: bool,
}

impl LogBounds<'_> {
    fn most(&self) -> u64 {
        MAX_BLOCKS.min(MAX_BYTES >> self.geometry.block_log)
    }

    fn check(&self, blocks: u64, max: u64) -> Result<u64, GeometryError> {
        if blocks < self.min {
            return Err(GeometryError::ShortLog { blocks, min: self.min });
        }
        if blocks > max {
            return Err(GeometryError::LongLog { blocks, max });
        }
        if self.unit != 0 && !blocks.is_multiple_of(self.unit) {
            let (option, what) = ("-l size", "the log's stripe unit");
            let (value, unit) = (blocks, self.unit);
            return Err(GeometryError::Multiple { option, value, unit, what });
        }
        Ok(blocks)
    }

    fn external(&self, asked: Option<u64>, device_bytes: u64) -> Result<u64, GeometryError> {
        let block_log = self.geometry.block_log;
        let available = device_bytes >> block_log;
        if let Some(asked) = asked.filter(|asked| *asked > available) {
            let (what, asked, available) = ("log device", asked << block_log, device_bytes);
            return Err(GeometryError::DeviceTooShort { what, asked, available });
        }
        let is_large = self.geometry.data_blocks << block_log >= 1 << 30;
        let floor = if is_large { MIN_EXTERNAL_BYTES >> block_log } else { 0 };
        let min = self.min.max(floor);
        if available < min {
            return Err(GeometryError::ShortLog { blocks: available, min });
        }
        match asked {
            Some(blocks) => self.check(blocks, self.most()),
            None if self.unit == 0 => self.check(available, self.most()),
            None => self.check(available / self.unit * self.unit, self.most()),
        }
    }

    fn internal(
        &self,
        asked: Option<u64>,
        group: AgNumber,
        stripe: Stripe,
    ) -> Result<(AgBlock, u64), GeometryError> {
        let geometry = self.geometry;
        let first = u64::from(first_free_block(geometry).0);
        let roots = first - u64::from(geometry.header_blocks());
        let taken = u64::from(geometry.header_blocks()) + roots + RESERVED_BLOCKS;
        let usable = u64::from(geometry.ag_blocks).saturating_sub(taken + 1);
        if usable < self.min {
            return Err(GeometryError::NoRoomForLog { min: self.min, max: usable });
        }
        let alignment = if self.unit == 0 { stripe.unit } else { self.unit }.max(1);
        // The block number in the volume is aligned, while the number in the group need not be.
        // mkfs.xfs does the same.
        let base = geometry.join_block(group, AgBlock(0)).0;
        let start = (base + first).next_multiple_of(alignment) - base;
        let room = u64::from(geometry.ag_length(group)).saturating_sub(start);
        let max = usable.min(self.most());
        let blocks = match asked {
            Some(blocks) => self.check(blocks, max)?,
            None => {
                let blocks = self.default_blocks().max(self.min).min(max);
                // Rounded up, or down if that is too long.
                let up = blocks.next_multiple_of(alignment);
                if up > max { blocks / alignment * alignment } else { up }
            }
        };
        if blocks > room {
            return Err(GeometryError::LongLog { blocks, max: room });
        }
        if blocks < self.min {
            return Err(GeometryError::ShortLog { blocks, min: self.min });
        }
        // A group has fewer than 2^32 blocks.
        Ok((AgBlock(start as u32), blocks))
    }

    fn default_blocks(&self) -> u64 {
        let geometry = self.geometry;
        let volume_bytes = geometry.data_blocks << geometry.block_log;
        if self.is_smallest || volume_bytes < USEFUL_LOG_FROM_BYTES {
            return self.min;
        }
        (volume_bytes / VOLUME_PER_LOG).max(MIN_USEFUL_BYTES) >> geometry.block_log
    }
}
