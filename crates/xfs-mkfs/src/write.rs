//! Writes a planned volume to its devices.
//!
//! Owns: the order of writes. Does **not** own any decision: the [`Plan`] has made them all.
//!
//! # State after a crash
//!
//! 1. The old contents are erased first: the first bytes of the device are zeroed and flushed. From
//!    here on no program recognises the old contents.
//! 2. Log, headers, roots and first inodes are written in any order. The primary superblock is
//!    marked "in progress". A program that finds this superblock refuses the volume. A program that
//!    finds no superblock sees no volume.
//! 3. Flush. Only then the primary superblock is written again, as one sector, without the mark,
//!    and made durable. So every volume that can be opened is complete.
//!
//! The copies of the superblock keep the mark for ever, as do the copies that mkfs.xfs makes.

mod bytes;
mod erase;
mod files;
mod inodes;
mod log_record;

use std::io;

use xfs_device::{BlockDevice, Durability};
use xfs_format::{AgNumber, BASIC_BLOCK_BYTES, Superblock};

use crate::layout::{BtreeRoots, VolumeLayout};
use crate::plan::Plan;
use bytes::HeaderContext;

pub use files::EmptyGroupBlock;

/// The devices of a volume.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// The data device, which may hold an internal log.
    pub data: &'a dyn BlockDevice,
    /// The device of an external log. `None` for an internal log.
    pub log: Option<&'a dyn BlockDevice>,
    /// The device of the realtime section. `None` without such a section.
    pub realtime: Option<&'a dyn BlockDevice>,
}

/// Whether to discard the blocks of the device before the volume is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Discard the blocks.
    Yes,
    /// Keep the blocks: `-K`.
    No,
}

/// Writes the planned volume.
///
/// # Errors
///
/// The error of a device; [`io::ErrorKind::InvalidInput`] if the plan has an external log or a
/// realtime section and no device for it is given, or if a device is shorter than the plan expects.
pub fn write(plan: &Plan, devices: Devices<'_>, discard: Discard) -> io::Result<()> {
    let geometry = &plan.superblock.geometry;
    let log = LogArea::new(plan, devices)?;
    if devices.data.length_bytes() < geometry.data_bytes() {
        return Err(invalid("the data device is shorter than the volume"));
    }
    let realtime = realtime_device(plan, devices)?;
    erase::erase(devices.data, discard)?;
    if let Some(device) = realtime {
        erase::erase(device, discard)?;
    }
    if let (Some(device), true) = (devices.log, plan.superblock.has_external_log()) {
        erase::erase(device, discard)?;
    }
    write_log(plan, &log)?;
    let context = HeaderContext { superblock: &plan.superblock, layout: &plan.layout };
    let mut headers = Vec::new();
    for number in geometry.groups() {
        let group = plan.group(number).ok_or(invalid("the plan has no such group"))?;
        bytes::encode_group(context, &group, &mut headers);
        let offset = byte_offset(geometry.header_disk_addr(number, 0).0);
        devices.data.write_at(&headers, offset, Durability::Cached)?;
    }
    write_inodes(plan, devices.data)?;
    if let Some(device) = realtime {
        if plan.superblock.has_realtime_superblock() {
            files::write_realtime_superblock(plan, device)?;
        }
        device.flush()?;
    }
    if log.is_external {
        log.device.flush()?;
    }
    devices.data.flush()?;
    let superblock = bytes::encode_superblock(plan, AgNumber(0));
    devices.data.write_at(&superblock, 0, Durability::Durable)?;
    // The write itself was durable. The flush serves devices that need one.
    devices.data.flush()
}

/// Writes the first inodes, and the blocks of the files among them.
fn write_inodes(plan: &Plan, device: &dyn BlockDevice) -> io::Result<()> {
    for first in &plan.layout.inodes {
        let group = plan.group(first.group).ok_or(invalid("the plan has no such group"))?;
        let chunk = inodes::Chunk::new(plan, first, &group);
        let chunk = chunk.ok_or(invalid("the plan has no inodes"))?;
        let (at, inodes) = chunk.encode().ok_or(invalid("the inodes cannot be encoded"))?;
        device.write_at(&inodes, byte_offset(at.0), Durability::Cached)?;
        files::write(&chunk, device)?;
    }
    Ok(())
}

/// Returns the realtime device, if the plan has a realtime section. Returns `None` if the plan has
/// no such section.
fn realtime_device<'a>(
    plan: &Plan,
    devices: Devices<'a>,
) -> io::Result<Option<&'a dyn BlockDevice>> {
    let blocks = plan.superblock.realtime_blocks;
    let geometry = &plan.superblock.geometry;
    if blocks != 0 && geometry.realtime.is_internal() {
        let end = geometry.realtime.device_end().and_then(|end| geometry.blocks_to_bytes(end));
        return match end.is_some_and(|end| end <= devices.data.length_bytes()) {
            true => Ok(None),
            false => Err(invalid("the data device is shorter than the zones on it")),
        };
    }
    if blocks == 0 {
        return Ok(None);
    }
    let device = devices.realtime.ok_or(invalid("the realtime section has no device"))?;
    if device.length_bytes() >> geometry.block_log < blocks {
        return Err(invalid("the realtime device is shorter than its section"));
    }
    Ok(Some(device))
}

/// Encodes the headers and btree roots of a group that a grown volume gets, as the kernel makes
/// them. The bytes start at the first byte of the group. All other blocks of the group are free,
/// and its free list is empty. Returns `None` if the group does not exist or is too short.
#[doc(alias = "xfs_ag_init_headers")]
#[must_use]
pub fn encode_empty_group(superblock: &Superblock, number: AgNumber) -> Option<Vec<u8>> {
    let geometry = &superblock.geometry;
    let roots = BtreeRoots::new(geometry);
    let layout = VolumeLayout {
        roots,
        log: None,
        free_list_blocks: 0,
        inode_alignment: 1,
        inodes: Vec::new(),
    };
    let group = layout.group(geometry, number).filter(|_| number.0 > 0)?;
    let mut bytes = Vec::new();
    bytes::encode_group(HeaderContext { superblock, layout: &layout }, &group, &mut bytes);
    Some(bytes)
}

/// The area of the log, on the data device or on a device of its own.
struct LogArea<'a> {
    device: &'a dyn BlockDevice,
    is_external: bool,
    start: u64,
    length: u64,
}

impl<'a> LogArea<'a> {
    fn new(plan: &Plan, devices: Devices<'a>) -> io::Result<Self> {
        let geometry = &plan.superblock.geometry;
        let length = u64::from(plan.superblock.log_blocks) << geometry.block_log;
        let Some((group, block)) = plan.superblock.log_first_block() else {
            let device = devices.log.ok_or(invalid("the log has no device"))?;
            if device.length_bytes() < length {
                return Err(invalid("the log device is shorter than the log"));
            }
            return Ok(Self { device, is_external: true, start: 0, length });
        };
        let start = byte_offset(geometry.ag_block_disk_addr(group, block).0);
        Ok(Self { device: devices.data, is_external: false, start, length })
    }
}

fn write_log(plan: &Plan, log: &LogArea<'_>) -> io::Result<()> {
    log.device.write_zeros(log.start, log.length)?;
    log.device.write_at(&log_record::encode(plan), log.start, Durability::Cached)
}

const fn byte_offset(basic_blocks: u64) -> u64 {
    basic_blocks * BASIC_BLOCK_BYTES as u64
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests;
