//! Finds a superblock that can be used: the first one, or a copy.

use xfs_device::{BlockDevice, volume_length};
use xfs_format::superblock::{SuperblockDisk, SuperblockError};
use xfs_format::{AgNumber, DiskAddr, StructureAddress, Superblock};
use zerocopy::FromBytes;

use crate::dump::{DumpError, DumpProgress};

/// Length of the largest possible sector of a volume, in bytes.
const SECTOR_BYTES: usize = 32 << 10;
/// Number of bytes that the search for a copy reads at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Length in bytes of the part of the device that is searched for a copy, from the start.
const SEARCH_BYTES: u64 = 64 << 30;
const UNIT: usize = 512;

/// A superblock that was verified, and the sector with which the image begins: the volume's first
/// sector, or the sector with the copy.
pub(crate) struct FoundSuperblock {
    pub(crate) superblock: Superblock,
    pub(crate) first_sector: Vec<u8>,
    /// The reason why a copy is used, or `None` if the first superblock is good.
    pub(crate) reason: Option<String>,
}

impl FoundSuperblock {
    /// Finds a superblock that can be used. If the first one is damaged, tries the copy in the
    /// second group, and then searches the device for any copy.
    pub(crate) fn find(
        device: &dyn BlockDevice,
        progress: &dyn DumpProgress,
    ) -> Result<Self, DumpError> {
        let first = read(device, 0);
        let error = match decode(&first, 0) {
            Ok(superblock) => {
                let size = superblock.geometry.sector_size as usize;
                let first_sector = first.get(..size).unwrap_or(&first).to_vec();
                return Ok(Self { superblock, first_sector, reason: None });
            }
            Err(error) => error,
        };
        let guess = SuperblockDisk::ref_from_prefix(&first).ok();
        let guess = guess
            .map(|(disk, _)| u64::from(disk.ag_blocks.get()) * u64::from(disk.block_size.get()));
        let copy = guess.and_then(|at| copy_at(device, at));
        let error = match error {
            // The version is checked before the checksum, so a damaged version looks like an old
            // one. On an old volume, the copies have the old version too.
            SuperblockError::Unsupported(reason) if copy.is_none() => return Err(reason.into()),
            error => error.to_string(),
        };
        let Some((at, superblock)) =
            copy.map_or_else(|| search(device, progress), |c| Ok(Some(c)))?
        else {
            return Err(DumpError::NoSuperblock(error));
        };
        let copied = read(device, at);
        let size = superblock.geometry.sector_size as usize;
        // A reader needs the geometry, so a first sector without it is replaced by the copy.
        let is_usable = volume_length(&first) == volume_length(&copied);
        let chosen = if is_usable { &first } else { &copied };
        let first_sector = chosen.get(..size).unwrap_or(chosen).to_vec();
        let action = if is_usable { "is used for the geometry" } else { "replaces it" };
        let reason = Some(format!("{error}; the copy at byte {at} {action}"));
        Ok(Self { superblock, first_sector, reason })
    }
}

/// Reads the sector at `at`, whose length is not known: the longest part that can be read, from the
/// largest sector size down to 512 bytes. Returns no bytes if nothing can be read.
fn read(device: &dyn BlockDevice, at: u64) -> Vec<u8> {
    let left = device.length_bytes().saturating_sub(at);
    let length = usize::try_from(left).map_or(SECTOR_BYTES, |left| left.min(SECTOR_BYTES));
    for length in [length, length.min(4096), length.min(UNIT)] {
        let mut bytes = vec![0; length];
        if device.read_at(&mut bytes, at).is_ok() {
            return bytes;
        }
    }
    Vec::new()
}

fn decode(sector: &[u8], at: u64) -> Result<Superblock, SuperblockError> {
    Superblock::decode(sector, StructureAddress::Disk(DiskAddr(at / UNIT as u64)))
}

/// Reads the superblock copy at byte `at` of the device. Returns `at` and the superblock if a
/// volume with this superblock that starts at byte 0 has a group whose copy lies at `at`. Otherwise
/// returns `None`.
fn copy_at(device: &dyn BlockDevice, at: u64) -> Option<(u64, Superblock)> {
    let superblock = decode(&read(device, at), at).ok()?;
    let geometry = &superblock.geometry;
    let group_bytes = u64::from(geometry.ag_blocks) * u64::from(geometry.block_size);
    let group = u32::try_from(at.checked_div(group_bytes)?).ok().map(AgNumber)?;
    let place = geometry.header_disk_addr(group, 0).byte_offset();
    (place == Some(at) && geometry.ag_length(group) != 0).then_some((at, superblock))
}

/// Searches the start of the device for a copy of a superblock. Returns its byte offset and the
/// superblock, or `None` if no copy is found.
fn search(
    device: &dyn BlockDevice,
    progress: &dyn DumpProgress,
) -> Result<Option<(u64, Superblock)>, DumpError> {
    let end = device.length_bytes().min(SEARCH_BYTES);
    let mut at = 0;
    while at < end {
        if progress.is_stopped() {
            return Err(DumpError::Stopped);
        }
        let length = usize::try_from(end - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let mut bytes = vec![0; length];
        if device.read_at(&mut bytes, at).is_ok() {
            let places = (at..).step_by(UNIT).zip(bytes.chunks(UNIT));
            let found = places.filter(|(place, unit)| *place != 0 && unit.starts_with(b"XFSB"));
            if let Some(copy) = found.filter_map(|(place, _)| copy_at(device, place)).next() {
                return Ok(Some(copy));
            }
        }
        at += length as u64;
    }
    Ok(None)
}
