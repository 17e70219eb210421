//! Erases the old contents of a device.

use std::io;

use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};

use super::Discard;

/// Number of bytes at the start and at the end of a device in which other programs look for
/// signatures.
const SIGNATURE_BYTES: u64 = 128 << 10;
/// The largest sector size in bytes.
const SECTOR_BYTES: usize = 32 << 10;

/// Erases everything on the device by which a program could recognise old contents.
pub(super) fn erase(device: &dyn BlockDevice, discard: Discard) -> io::Result<()> {
    let length = device.length_bytes();
    let ends = SIGNATURE_BYTES.min(length);
    let old = old_volume(device)?;
    device.write_zeros(0, ends)?;
    device.flush()?;
    if discard == Discard::Yes {
        device.discard(0, length)?;
    }
    // Reads of a discarded range are undefined.
    device.write_zeros(0, ends)?;
    device.write_zeros(length - ends, ends)?;
    let Some(old) = old else { return Ok(()) };
    // A copy of the old superblock would mislead a search for superblocks after damage.
    let geometry = &old.geometry;
    for number in geometry.groups() {
        let at = geometry.header_disk_addr(number, 0).byte_offset();
        let sector = u64::from(geometry.sector_size);
        let is_inside = |at: &u64| at.checked_add(sector).is_some_and(|end| end <= length);
        let Some(at) = at.filter(is_inside) else { break };
        device.write_zeros(at, sector)?;
    }
    Ok(())
}

/// Returns the superblock of the volume that is being overwritten, or `None` if there is none. The
/// superblock's checks bound the number of groups: each group needs 16 MiB of the device.
fn old_volume(device: &dyn BlockDevice) -> io::Result<Option<Superblock>> {
    let length = usize::try_from(device.length_bytes()).unwrap_or(SECTOR_BYTES);
    let mut sector = vec![0; SECTOR_BYTES.min(length)];
    device.read_at(&mut sector, 0)?;
    Ok(Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).ok())
}
