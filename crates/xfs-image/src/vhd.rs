//! Fixed VHD images: a raw disk with a footer after it.
//!
//! Owns: the footer, and the recognition of a file that has one. Does **not** own: dynamic and
//! differencing VHD images, which are refused by name (`xfs-device`).
//!
//! ```text
//!  0 "conectix"  8 features  12 version 1.0  16 next structure: none  24 seconds since 2000
//! 28 creator    32 its version  36 its host   40 first size  48 size  56 cylinders, heads, sectors
//! 60 kind: 2 fixed   64 complement of the sum of all other bytes   68 UUID   84 saved state
//! ```
//!
//! Numbers are big-endian. The disk is the bytes before the footer, so it is written in place.

use std::io;
use std::sync::Arc;

use uuid::Uuid;
use xfs_device::{SharedDevice, WindowDevice};

use crate::bytes::big;

/// The length of the footer in bytes.
pub const VHD_FOOTER_BYTES: u64 = 512;
/// The largest disk in bytes of a VHD image.
pub const MAX_VHD_BYTES: u64 = 2040 << 30;

const MAGIC: &[u8; 8] = b"conectix";
const FEATURES: u32 = 2;
const VERSION: u32 = 0x0001_0000;
const FIXED: u32 = 2;
const CHECKSUM: usize = 64;
/// The creator decides which field qemu believes. Of a creator that it does not know, it believes
/// the cylinders, which cannot express most sizes, and cuts the end of the disk off. Of Hyper-V it
/// believes the size.
const CREATOR: &[u8; 4] = b"win ";
const CREATOR_VERSION: u32 = 0x000a_0000;
const CREATOR_HOST: &[u8; 4] = b"Wi2k";
/// Seconds from 1970 to 2000, from which the time of the footer counts.
const EPOCH_SECONDS: i64 = 946_684_800;
const SECTOR_BYTES: u64 = 512;

/// Returns the footer of a fixed VHD image whose disk has `disk_bytes` bytes, a multiple of 512.
/// `seconds` is the time of the image since 1970.
#[must_use]
pub fn vhd_footer(disk_bytes: u64, seconds: i64, identity: &Uuid) -> [u8; 512] {
    let mut footer = [0; 512];
    let seconds = seconds.saturating_sub(EPOCH_SECONDS).clamp(0, u32::MAX.into()) as u32;
    let [high, low] = Geometry::of(disk_bytes / SECTOR_BYTES).cylinders.to_be_bytes();
    let Geometry { heads, sectors, .. } = Geometry::of(disk_bytes / SECTOR_BYTES);
    let fields: [(usize, &[u8]); 14] = [
        (0, MAGIC),
        (8, &FEATURES.to_be_bytes()),
        (12, &VERSION.to_be_bytes()),
        (16, &u64::MAX.to_be_bytes()),
        (24, &seconds.to_be_bytes()),
        (28, CREATOR),
        (32, &CREATOR_VERSION.to_be_bytes()),
        (36, CREATOR_HOST),
        (40, &disk_bytes.to_be_bytes()),
        (48, &disk_bytes.to_be_bytes()),
        (56, &[high, low, heads, sectors]),
        (60, &FIXED.to_be_bytes()),
        (68, identity.as_bytes()),
        (84, &[0]),
    ];
    for (at, bytes) in fields {
        let field = footer.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
        field.expect("a constant is in the footer").copy_from_slice(bytes);
    }
    let sum = checksum(&footer).to_be_bytes();
    let field = footer.get_mut(CHECKSUM..CHECKSUM + 4);
    field.expect("a constant is in the footer").copy_from_slice(&sum);
    footer
}

/// Returns the disk before the footer of a fixed VHD image. `None` if `file` has no such footer.
///
/// # Errors
///
/// The error of the device.
pub(crate) fn open_fixed(file: &SharedDevice) -> io::Result<Option<SharedDevice>> {
    let Some(start) = file.length_bytes().checked_sub(VHD_FOOTER_BYTES) else { return Ok(None) };
    let mut footer = [0; 512];
    file.read_at(&mut footer, start)?;
    let is_fixed = footer.starts_with(MAGIC)
        && big(&footer, 60, 4) == FIXED.into()
        && big(&footer, CHECKSUM, 4) == checksum(&footer).into()
        && big(&footer, 48, 8) == start;
    if !is_fixed {
        return Ok(None);
    }
    Ok(Some(Arc::new(WindowDevice::new(Arc::clone(file), 0, start))))
}

/// Returns the checksum of a footer, whatever is in the field of the checksum.
fn checksum(footer: &[u8]) -> u32 {
    let is_counted = |at: &usize| !(CHECKSUM..CHECKSUM + 4).contains(at);
    let counted = footer.iter().enumerate().filter(|(at, _)| is_counted(at));
    !counted.map(|(_, byte)| u32::from(*byte)).sum::<u32>()
}

/// The geometry of a disk, for readers that have no other addresses.
struct Geometry {
    cylinders: u16,
    heads: u8,
    sectors: u8,
}

impl Geometry {
    /// Returns the geometry that the specification gives a disk of this many sectors. It may have
    /// fewer sectors than the disk.
    fn of(disk_sectors: u64) -> Self {
        const LARGEST: u64 = 65_535 * 16 * 255;
        let disk_sectors = disk_sectors.min(LARGEST);
        let mut sectors = 255;
        let mut heads = 16;
        if disk_sectors < 65_535 * 16 * 63 {
            sectors = 17;
            heads = (disk_sectors / sectors).div_ceil(1024).max(4);
            if heads > 16 || disk_sectors / sectors >= heads * 1024 {
                (sectors, heads) = (31, 16);
            }
            if disk_sectors / sectors >= heads * 1024 {
                (sectors, heads) = (63, 16);
            }
        }
        let cylinders = disk_sectors / sectors / heads;
        let cylinders = u16::try_from(cylinders).expect("the number of sectors is bounded");
        Self { cylinders, heads: heads as u8, sectors: sectors as u8 }
    }
}

#[cfg(test)]
mod tests;
