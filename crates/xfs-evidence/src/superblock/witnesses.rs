//! Witnesses for a superblock: the groups whose headers agree with it.
//!
//! Owns: reading the headers of groups where a superblock puts them, and the comparison of two
//! superblocks by the groups that agree with each. Does **not** own: the choice of a superblock.
//!
//! A device can have superblocks of other volumes: in a file that is the image of a virtual
//! machine, or left by an earlier mkfs.xfs. Their checksums are right, so only the groups show
//! whether a superblock belongs to the device. A header agrees with a superblock if it has the UUID
//! of the superblock, the number of its group, and the length that the superblock gives this group.

use std::cmp::Ordering;

use xfs_device::BlockDevice;
use xfs_format::agf::{AGF_MAGIC, AgfDisk};
use xfs_format::agi::{AGI_MAGIC, AgiDisk};
use xfs_format::{AgNumber, Geometry, Uuid, crc};
use zerocopy::FromBytes;

/// Offset of the checksum in an AGF.
const AGF_CRC: usize = 216;
/// Offset of the checksum in an AGI.
const AGI_CRC: usize = 312;
/// The largest number of groups whose headers are read. On a volume with more groups, the groups
/// that are read are spread evenly over the volume.
const MOST_GROUPS: u32 = 4096;

/// The groups whose headers agree with a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Witnesses {
    /// Whether the first group agrees with the superblock. The headers at the start of the device
    /// belong to the volume that mkfs.xfs made last.
    pub(super) has_first: bool,
    /// Number of groups that agree with the superblock.
    pub(super) agreeing: u32,
    /// Number of groups whose headers were read. Groups after the end of the device are not read.
    pub(super) of: u32,
    /// Number of bytes in the groups that agree with the superblock.
    bytes: u64,
}

impl Witnesses {
    /// Reads the headers of the groups that `geometry` describes.
    pub(super) fn of(device: &dyn BlockDevice, geometry: &Geometry) -> Self {
        let mut found = Self { has_first: false, agreeing: 0, of: 0, bytes: 0 };
        let step = geometry.ag_count.div_ceil(MOST_GROUPS).max(1);
        for group in (0..geometry.ag_count).step_by(step as usize).map(AgNumber) {
            let at = geometry.header_disk_addr(group, 0).byte_offset();
            if at.is_none_or(|at| at >= device.length_bytes()) {
                break;
            }
            found.of += 1;
            if agrees(device, geometry, group) {
                found.has_first |= group.0 == 0;
                found.agreeing += 1;
                let blocks = u64::from(geometry.ag_length(group));
                found.bytes = found.bytes.saturating_add(blocks << geometry.block_log);
            }
        }
        found.bytes = found.bytes.saturating_mul(step.into());
        found
    }

    /// Returns whether at least half of the groups that were read agree with the superblock.
    pub(super) const fn is_half(&self) -> bool {
        self.agreeing > 0 && self.agreeing as u64 * 2 >= self.of as u64
    }

    /// Compares two superblocks. A superblock is greater if only it agrees with the first group. If
    /// both agree with it, or neither does, the superblock is greater whose agreeing groups have
    /// more bytes in total.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        (self.has_first, self.bytes).cmp(&(other.has_first, other.bytes))
    }
}

/// Returns whether the AGF or the AGI of a group agrees with the superblock of this geometry: in
/// UUID, group number and length.
pub(super) fn agrees(device: &dyn BlockDevice, geometry: &Geometry, group: AgNumber) -> bool {
    let expected = (group.0, geometry.ag_length(group), geometry.meta_uuid);
    let read = |index: u32, crc_offset: usize| {
        let at = geometry.header_disk_addr(group, index).byte_offset()?;
        let mut sector = vec![0; geometry.sector_size as usize];
        device.read_at(&mut sector, at).ok()?;
        let is_sound = crc::stored(&sector, crc_offset) == crc::compute(&sector, crc_offset);
        is_sound.then_some(sector)
    };
    let agf_agrees = || {
        let sector = read(1, AGF_CRC)?;
        let (agf, _) = AgfDisk::ref_from_prefix(&sector).ok()?;
        let found = (agf.group.get(), agf.length.get(), Uuid::from_bytes(agf.uuid));
        Some(agf.magic.get() == AGF_MAGIC && found == expected)
    };
    let agi_agrees = || {
        let sector = read(2, AGI_CRC)?;
        let (agi, _) = AgiDisk::ref_from_prefix(&sector).ok()?;
        let found = (agi.group.get(), agi.length.get(), Uuid::from_bytes(agi.uuid));
        Some(agi.magic.get() == AGI_MAGIC && found == expected)
    };
    agf_agrees() == Some(true) || agi_agrees() == Some(true)
}
