//! Reads of the device that skip sectors that cannot be read.

use xfs_device::BlockDevice;

/// Length in bytes of the parts in which a range is read after a read of the whole range has
/// failed.
const PART_BYTES: usize = 4096;

/// Length in bytes of the smallest part that is read by itself.
const SECTOR_BYTES: usize = 512;

/// Fills `piece` with the bytes of the device from byte `at` on. Sectors that cannot be read become
/// zeros, in which no structure is recognised. One such sector must not prevent the search of its
/// neighbours.
pub(crate) fn read_around(device: &dyn BlockDevice, at: u64, piece: &mut [u8]) {
    if device.read_at(piece, at).is_ok() {
        return;
    }
    for (part, at) in piece.chunks_mut(PART_BYTES).zip((at..).step_by(PART_BYTES)) {
        if device.read_at(part, at).is_ok() {
            continue;
        }
        for (sector, at) in part.chunks_mut(SECTOR_BYTES).zip((at..).step_by(SECTOR_BYTES)) {
            if device.read_at(sector, at).is_err() {
                sector.fill(0);
            }
        }
    }
}
