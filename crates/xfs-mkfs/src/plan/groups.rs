//! Computes the stripe, and the division of the data into allocation groups.

use std::ops::RangeInclusive;

use super::sizes::Sizes;
use super::zones;
use super::{GeometryError, TargetDevice, Warning};
use crate::options::{Options, Size};

/// Stripe unit and width in blocks. Both are 0 if there is no stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stripe {
    pub(super) unit: u64,
    pub(super) width: u64,
}

/// The size of the data section and its division into groups, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) data_blocks: u64,
    pub(super) blocks: u64,
    pub(super) count: u64,
}

const MIN_GROUP_BYTES: u64 = 16 << 20;
/// Size limit of an allocation group in bytes. The largest group is one block shorter than 1 TiB.
const MAX_GROUP_BYTES: u64 = (1 << 40) - 1;
const MIN_VOLUME_BYTES: u64 = 300 << 20;
const BASIC_BLOCK: u64 = 512;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

impl Stripe {
    pub(super) fn new(options: &Options, sizes: &Sizes) -> Result<Self, GeometryError> {
        let data = &options.data;
        let given = [data.su, data.sw, data.sunit, data.swidth];
        if data.noalign && given.iter().any(Option::is_some) {
            return Err(GeometryError::Exclusive("-d noalign", "a stripe"));
        }
        let in_basic_blocks = |option, size: Size| {
            size.number.checked_mul(BASIC_BLOCK).ok_or(GeometryError::Overflow { option })
        };
        let (unit, width) = match given {
            [None, None, None, None] => return Ok(Self::default()),
            [Some(su), Some(sw), None, None] => {
                let unit = sizes.bytes("-d su", su)?;
                let overflow = GeometryError::Overflow { option: "-d sw" };
                (unit, unit.checked_mul(sw.number).ok_or(overflow)?)
            }
            [None, None, Some(sunit), Some(swidth)] => {
                (in_basic_blocks("-d sunit", sunit)?, in_basic_blocks("-d swidth", swidth)?)
            }
            [Some(_), None, None, None] => return Err(GeometryError::Needs("-d su", "-d sw")),
            [None, Some(_), None, None] => return Err(GeometryError::Needs("-d sw", "-d su")),
            [None, None, Some(_), None] => {
                return Err(GeometryError::Needs("-d sunit", "-d swidth"));
            }
            [None, None, None, Some(_)] => {
                return Err(GeometryError::Needs("-d swidth", "-d sunit"));
            }
            _ => return Err(GeometryError::Exclusive("-d su, sw", "-d sunit, swidth")),
        };
        Self::in_blocks(unit, width, sizes)
    }

    fn in_blocks(unit: u64, width: u64, sizes: &Sizes) -> Result<Self, GeometryError> {
        if (unit, width) == (0, 0) {
            return Ok(Self::default());
        }
        let block = u64::from(sizes.block);
        if !unit.is_multiple_of(sizes.sector.into()) || !unit.is_multiple_of(block) {
            let (option, what) = ("-d su", "the block size");
            return Err(GeometryError::Multiple { option, value: unit, unit: block, what });
        }
        let is_stripe = unit != 0 && width >= unit && width.is_multiple_of(unit);
        // The superblock counts both in blocks, in 32 bits. mkfs.xfs counts bytes in 31 bits.
        if !is_stripe || width > i32::MAX.cast_unsigned().into() {
            return Err(GeometryError::Stripe { unit, width });
        }
        Ok(Self { unit: unit / block, width: width / block })
    }
}

impl Groups {
    pub(super) fn new(
        options: &Options,
        target: &TargetDevice,
        sizes: &Sizes,
        stripe: Stripe,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, GeometryError> {
        let block = u64::from(sizes.block);
        let data_blocks = data_blocks(options, target, sizes, warnings)?;
        let (min, max) = (MIN_GROUP_BYTES / block, MAX_GROUP_BYTES / block);
        let blocks = match (options.data.agcount, options.data.agsize) {
            (Some(_), Some(_)) => {
                return Err(GeometryError::Exclusive("-d agcount", "-d agsize"));
            }
            (Some(_), None) | (None, Some(_)) if options.data.concurrency.is_some() => {
                return Err(GeometryError::Exclusive("-d concurrency", "-d agcount, agsize"));
            }
            (Some(count), None) => {
                let count = count.number;
                let (option, max) = ("-d agcount", u64::from(u32::MAX) - 1);
                if !(1..=max).contains(&count) {
                    return Err(GeometryError::Range { option, value: count, min: 1, max });
                }
                data_blocks.div_ceil(count)
            }
            (None, Some(size)) => {
                let value = sizes.bytes("-d agsize", size)?;
                if !value.is_multiple_of(block) {
                    let (option, what) = ("-d agsize", "the block size");
                    return Err(GeometryError::Multiple { option, value, unit: block, what });
                }
                value / block
            }
            (None, None) if options.minimize && options.data.concurrency.is_none() => {
                two_groups(data_blocks, min, max, stripe.unit)
            }
            (None, None) => {
                let has_stripe = stripe != Stripe::default();
                let blocks = default_blocks(data_blocks * block, has_stripe, block);
                concurrent_blocks(options.data.concurrency, data_blocks, block, blocks)
            }
        };
        if !(min..=max).contains(&blocks) {
            return Err(GeometryError::GroupSize { blocks, min, max });
        }
        let groups = Self { data_blocks, blocks, count: data_blocks.div_ceil(blocks) };
        let mut groups = groups.align(options, stripe, &(min..=max), warnings)?;
        groups.drop_short_last(min);
        groups.verify(options.data.agcount.map(|count| count.number), min)?;
        Ok(groups)
    }

    /// Rounds the group size to a multiple of the stripe unit, but not of the stripe width. With a
    /// multiple of the stripe width, the headers of all groups would lie on the same disk.
    fn align(
        self,
        options: &Options,
        stripe: Stripe,
        sizes: &RangeInclusive<u64>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, GeometryError> {
        let mut groups = self;
        if stripe.unit == 0 {
            return Ok(groups);
        }
        let was_told = options.data.agcount.is_some() || options.data.agsize.is_some();
        if !groups.blocks.is_multiple_of(stripe.unit) {
            let up = groups.blocks.next_multiple_of(stripe.unit);
            let blocks = if up > *sizes.end() { up - stripe.unit } else { up };
            if !sizes.contains(&blocks) {
                let (blocks, unit) = (groups.blocks, stripe.unit);
                return Err(GeometryError::GroupStripe { blocks, unit });
            }
            groups.blocks = blocks;
            groups.count = groups.data_blocks.div_ceil(blocks);
        }
        let is_on_one_disk = groups.blocks.is_multiple_of(stripe.width)
            && stripe.width != stripe.unit
            && groups.count > 1;
        if is_on_one_disk && was_told {
            warnings.push(Warning::GroupsOnOneDisk { better_blocks: groups.blocks - stripe.unit });
        } else if is_on_one_disk {
            let shorter = groups.blocks - stripe.unit;
            groups.blocks =
                if shorter < *sizes.start() { groups.blocks + stripe.unit } else { shorter };
            groups.count = groups.data_blocks.div_ceil(groups.blocks);
        }
        Ok(groups)
    }

    /// Leaves out the last group if it has fewer than `min` blocks.
    fn drop_short_last(&mut self, min: u64) {
        let last = self.data_blocks % self.blocks;
        if last != 0 && last < min && self.count > 1 {
            self.count -= 1;
            self.data_blocks = self.count * self.blocks;
        }
    }

    fn verify(&self, asked: Option<u64>, min: u64) -> Result<(), GeometryError> {
        if self.blocks > self.data_blocks {
            let (blocks, data_blocks) = (self.blocks, self.data_blocks);
            return Err(GeometryError::GroupAboveData { blocks, data_blocks });
        }
        // A requested number of groups is met exactly or refused.
        if asked.is_some_and(|asked| asked != self.count) {
            return Err(GeometryError::LastGroup { blocks: self.data_blocks % self.blocks, min });
        }
        if self.count >= u32::MAX.into() {
            return Err(GeometryError::GroupCount { count: self.count });
        }
        Ok(())
    }
}

fn data_blocks(
    options: &Options,
    target: &TargetDevice,
    sizes: &Sizes,
    warnings: &mut Vec<Warning>,
) -> Result<u64, GeometryError> {
    let (what, available) = ("data device", target.data_bytes);
    let block = u64::from(sizes.block);
    let bytes = match options.data.size {
        None => zones::default_data_bytes(options, sizes, available)?,
        Some(size) => {
            let bytes = sizes.bytes("-d size", size)?;
            if !bytes.is_multiple_of(BASIC_BLOCK) {
                let (option, what) = ("-d size", "a sector");
                let (value, unit) = (bytes, BASIC_BLOCK);
                return Err(GeometryError::Multiple { option, value, unit, what });
            }
            if bytes > available {
                return Err(GeometryError::DeviceTooShort { what, asked: bytes, available });
            }
            if !bytes.is_multiple_of(block) {
                let blocks = bytes / block;
                warnings.push(Warning::Truncated { option: "-d size", bytes, blocks });
            }
            bytes
        }
    };
    let bytes = bytes / block * block;
    if bytes < MIN_GROUP_BYTES {
        return Err(GeometryError::NoGroup { bytes });
    }
    if bytes < MIN_VOLUME_BYTES && !options.allow_small && !options.minimize {
        return Err(GeometryError::TooSmall { bytes });
    }
    Ok(bytes / block)
}

/// Returns the group size in blocks for a volume that `threads` threads will use. It gives at least
/// as many groups as the default, and no group is smaller than 4 GiB. If `threads` is `None`,
/// returns the default size.
fn concurrent_blocks(threads: Option<u64>, data_blocks: u64, block: u64, default: u64) -> u64 {
    let Some(threads) = threads else { return default };
    let count = threads.min(data_blocks * block / (4 * GIB));
    match count > data_blocks / default {
        true => data_blocks / count,
        false => default,
    }
}

/// Returns the group size in blocks of a volume with as few groups as possible: a first group as
/// long as possible, and a last one of `min` blocks. `xfs_repair` needs two. A volume that grows
/// keeps its group size, so a long group leaves it with fewer groups.
fn two_groups(data_blocks: u64, min: u64, max: u64, stripe_unit: u64) -> u64 {
    let longest = data_blocks.saturating_sub(min);
    let unit = stripe_unit.max(1);
    (longest / unit * unit).max(min).min(max)
}

/// Returns the default group size in blocks. A volume without a stripe has 4 groups, but fewer if
/// it is small. From 4 TiB on, its groups have the largest size. A stripe means several disks, so a
/// striped volume below 32 TiB has more and smaller groups.
fn default_blocks(data_bytes: u64, is_striped: bool, block: u64) -> u64 {
    let largest = MAX_GROUP_BYTES / block;
    let data_blocks = data_bytes / block;
    let count = match data_bytes {
        bytes if bytes >= 32 * TIB => return largest,
        bytes if !is_striped && bytes >= 4 * TIB => return largest,
        bytes if !is_striped && bytes >= 128 * MIB => 4,
        bytes if bytes > 512 * GIB => 32,
        bytes if bytes > 8 * GIB => 16,
        bytes if bytes >= 128 * MIB => 8,
        bytes if bytes >= 64 * MIB => 4,
        bytes if bytes >= 32 * MIB => 2,
        _ => 1,
    };
    data_blocks.div_ceil(count).min(largest)
}
