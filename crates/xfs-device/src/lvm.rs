//! LVM: physical volumes, and the logical volumes on them.
//!
//! Owns: the label and the place of the metadata. Does **not** own: the text ([`text`]), its
//! meaning ([`group`]), putting logical volumes together ([`assembly`]), or the choice among them
//! ([`find_filesystem`](crate::find_filesystem)).
//!
//! ```text
//! label, one of the first 4 sectors: "LABELONE"  8 its sector  20 offset of the header in it
//!         24 "LVM2 001"
//! header: 32 bytes of UUID, 8 size; then pairs (offset, size), each list ended by zeros: data
//!         areas, metadata areas
//! metadata area: 4 " LVM2 x[5A%r0N*>"  32 its size  40 the text: offset in the area, 48 its size
//! text: a ring in the area from byte 512 on
//!   vg0 { extent_size = 8192
//!         physical_volumes { pv0 { id = "..." pe_start = 2048 } }
//!         logical_volumes { root { status = ["VISIBLE"] segment1 { start_extent = 0
//!                          extent_count = 25 type = "striped" stripe_count = 1
//!                          stripes = ["pv0", 0] } } } }
//! ```
//!
//! Nothing in a physical volume is trusted: sizes, depth and the number of values are bounded, and
//! impossible values are left out.

mod assembly;
mod device;
mod group;
mod text;

use std::io;

use crate::device::BlockDevice;
pub use assembly::VolumeError;
pub(crate) use assembly::{AssembledVolume, VolumeGroups};
pub(crate) use group::VolumeGroup;

const SECTOR: u64 = 512;
const LABEL_SECTORS: u64 = 4;
/// The number of bytes that are read of the header. They contain the lists of areas.
const HEADER_BYTES: usize = 480;
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// Offset in bytes of the ring of text in a metadata area.
const RING_START: u64 = 512;
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// A physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalVolume {
    /// The UUID in its label: 32 letters, without hyphens.
    pub(crate) id: String,
    /// The volume group. `None` if the physical volume belongs to none, or its metadata cannot be
    /// read.
    pub(crate) group: Option<VolumeGroup>,
    /// Whether this physical volume has no copy of the metadata, so that only other physical
    /// volumes describe it.
    pub(crate) is_described_elsewhere: bool,
}

/// Reads the physical volume that starts at byte `start`. Returns `None` if it has no label.
pub(crate) fn read(device: &dyn BlockDevice, start: u64) -> io::Result<Option<PhysicalVolume>> {
    let volume = OffsetReader { device, start };
    for sector in 0..LABEL_SECTORS {
        let Some(label) = volume.read(sector * SECTOR, SECTOR)? else { break };
        let is_label = label.starts_with(b"LABELONE") && at(&label, 24, 8) == b"LVM2 001";
        if !is_label {
            continue;
        }
        let header = sector * SECTOR + number(&label, 20, 4);
        let Some(header) = volume.read(header, HEADER_BYTES as u64)? else { break };
        return describe(&volume, &header).map(Some);
    }
    Ok(None)
}

fn describe(volume: &OffsetReader<'_>, header: &[u8]) -> io::Result<PhysicalVolume> {
    let mut pairs = header
        .get(40..)
        .unwrap_or_default()
        .chunks_exact(16)
        .map(|pair| (number(pair, 0, 8), number(pair, 8, 8)));
    // Skips the data areas and the end of their list.
    let _ = pairs.by_ref().position(|(offset, _)| offset == 0);
    let areas: Vec<_> = pairs.take_while(|(offset, _)| *offset != 0).collect();
    let id = String::from_utf8_lossy(at(header, 0, 32)).into_owned();
    for (offset, _) in &areas {
        let Some(text) = read_text(volume, *offset)? else { continue };
        if let Some(group) = VolumeGroup::parse(&text) {
            return Ok(PhysicalVolume { id, group: Some(group), is_described_elsewhere: false });
        }
    }
    Ok(PhysicalVolume { id, group: None, is_described_elsewhere: areas.is_empty() })
}

/// Reads the text of a metadata area. Returns `None` if the area has no valid text.
fn read_text(volume: &OffsetReader<'_>, area: u64) -> io::Result<Option<String>> {
    let Some(head) = volume.read(area, SECTOR)? else { return Ok(None) };
    let (size, offset, length) = (number(&head, 32, 8), number(&head, 40, 8), number(&head, 48, 8));
    let is_sound = at(&head, 4, 16) == AREA_MAGIC
        && (RING_START..size).contains(&offset)
        && (1..=MAX_TEXT_BYTES.min(size - RING_START)).contains(&length);
    if !is_sound {
        return Ok(None);
    }
    let first = length.min(size - offset);
    let (Some(mut text), Some(rest)) = (
        volume.read(area.saturating_add(offset), first)?,
        volume.read(area.saturating_add(RING_START), length - first)?,
    ) else {
        return Ok(None);
    };
    text.extend(rest);
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// A device, read relative to a start offset.
struct OffsetReader<'a> {
    device: &'a dyn BlockDevice,
    start: u64,
}

impl OffsetReader<'_> {
    /// Reads `length` bytes of the device from byte `start + offset` on. Returns `None` if the
    /// bytes reach past the end of the device.
    fn read(&self, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(start) = self.start.checked_add(offset) else { return Ok(None) };
        let is_there =
            start.checked_add(length).is_some_and(|end| end <= self.device.length_bytes());
        if !is_there {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.device.read_at(&mut bytes, start)?;
        Ok(Some(bytes))
    }
}

fn at(bytes: &[u8], start: usize, length: usize) -> &[u8] {
    bytes.get(start..).and_then(|rest| rest.get(..length)).unwrap_or_default()
}

/// Decodes a little-endian number of up to 8 bytes at byte `start`.
fn number(bytes: &[u8], start: usize, length: usize) -> u64 {
    at(bytes, start, length).iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests;
