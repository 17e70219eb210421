//! Computes the sizes of blocks, sectors, inodes and directory blocks.

use super::{GeometryError, TargetDevice};
use crate::options::{Options, Size, Unit};

/// Sizes of blocks, sectors, inodes and directory blocks in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) block: u32,
    pub(super) sector: u32,
    pub(super) inode: u32,
    pub(super) directory_block: u32,
    pub(super) realtime_extent: u32,
}

const DEFAULT_BLOCK: u32 = 4096;
const DEFAULT_DIRECTORY_BLOCK: u32 = 4096;
const DEFAULT_INODE: u32 = 512;
const MAX_BLOCK: u32 = 64 << 10;
const MAX_SECTOR: u32 = 32 << 10;
const MAX_INODE: u32 = 2048;
pub(super) const MIN_REALTIME_EXTENT: u32 = 4096;
const MAX_REALTIME_EXTENT: u32 = 1 << 30;
/// The smallest number of inodes per block.
const MIN_INODES_PER_BLOCK: u32 = 2;

impl Sizes {
    pub(super) fn new(options: &Options, target: &TargetDevice) -> Result<Self, GeometryError> {
        let block = match options.block_size {
            Some(size) => power_of_two("-b size", size, 1024, MAX_BLOCK)?,
            None => DEFAULT_BLOCK,
        };
        let sector = match options.sector_size {
            Some(size) => power_of_two("-s size", size, 512, MAX_SECTOR)?,
            None => target.sector_size.max(512),
        };
        if sector < target.sector_size {
            let (sector, device) = (sector.into(), target.sector_size.into());
            return Err(GeometryError::SectorBelowDevice { sector, device });
        }
        if sector > block {
            let (sector, block) = (sector.into(), block.into());
            return Err(GeometryError::SectorAboveBlock { sector, block });
        }
        let directory_block = match options.directory_block_size {
            Some(size) => {
                let min = block.max(DEFAULT_DIRECTORY_BLOCK);
                power_of_two("-n size", size, min, MAX_BLOCK)?
            }
            None => block.max(DEFAULT_DIRECTORY_BLOCK),
        };
        let inode = inode_size(options, block)?;
        let sizes = Self { block, sector, inode, directory_block, realtime_extent: 0 };
        Ok(Self { realtime_extent: sizes.realtime_extent(options)?, ..sizes })
    }

    fn realtime_extent(&self, options: &Options) -> Result<u32, GeometryError> {
        let option = "-r extsize";
        let Some(size) = options.realtime.extent_size else {
            return Ok(MIN_REALTIME_EXTENT.max(self.block));
        };
        let value = self.bytes(option, size)?;
        let (min, max) = (MIN_REALTIME_EXTENT, MAX_REALTIME_EXTENT);
        match u32::try_from(value) {
            Ok(bytes) if (min..=max).contains(&bytes) && bytes.is_multiple_of(self.block) => {
                Ok(bytes)
            }
            Ok(bytes) if (min..=max).contains(&bytes) => {
                let (unit, what) = (self.block.into(), "the block size");
                Err(GeometryError::Multiple { option, value, unit, what })
            }
            _ => Err(GeometryError::Range { option, value, min: min.into(), max: max.into() }),
        }
    }

    /// Returns the number of bytes that `size`, the value of an option, stands for.
    pub(super) fn bytes(&self, option: &'static str, size: Size) -> Result<u64, GeometryError> {
        size.to_bytes(self.block, self.sector).ok_or(GeometryError::Overflow { option })
    }
}

fn inode_size(options: &Options, block: u32) -> Result<u32, GeometryError> {
    let (min, max) = (512, MAX_INODE.min(block / MIN_INODES_PER_BLOCK));
    match (options.inode.size, options.inode.perblock) {
        (Some(_), Some(_)) => Err(GeometryError::Exclusive("-i size", "-i perblock")),
        (Some(size), None) => power_of_two("-i size", size, min, max),
        (None, Some(count)) => {
            let most = block / min;
            let count = power_of_two("-i perblock", count, MIN_INODES_PER_BLOCK, most)?;
            power_of_two("-i perblock", Size::bytes(u64::from(block / count)), min, max)
        }
        (None, None) => Ok(DEFAULT_INODE),
    }
}

/// Returns the number of bytes of a block, sector or inode size, which must be a power of two from
/// `min` to `max`. Returns an error if the size is given in sectors or blocks.
fn power_of_two(
    option: &'static str,
    size: Size,
    min: u32,
    max: u32,
) -> Result<u32, GeometryError> {
    let value = size.number;
    let range = GeometryError::Range { option, value, min: min.into(), max: max.into() };
    match u32::try_from(value) {
        Ok(bytes) if size.unit == Unit::One && (min..=max).contains(&bytes) => {
            if bytes.is_power_of_two() {
                Ok(bytes)
            } else {
                Err(GeometryError::PowerOfTwo { option, value })
            }
        }
        _ => Err(range),
    }
}
