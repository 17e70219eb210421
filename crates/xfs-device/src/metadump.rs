//! Metadata images of `xfs_metadump`: their formats, and a volume inside one as a read-only device.
//!
//! Owns: decoding of versions 1 and 2, and the device. Does **not** own: writing such images, or
//! the choice of their blocks (`xfs-metadump`).
//!
//! ```text
//! version 1: 512 bytes { "XFSM", count (2), log of block size (1), flags (1), address (8) × 63 }
//!            then `count` blocks of 512 bytes, then the next index; a count below 63 is the last
//! version 2: "XMD2", version (4), flags (4), incompatible flags (4), reserved (8)
//!            then { address (8), length (4) } and the bytes of that extent, until the end of file
//! ```
//!
//! All numbers are big-endian. Addresses and lengths are in units of 512 bytes. The two bits of a
//! version 2 address from bit 54 on choose the device: data, log or realtime.
//!
//! # Invariants
//!
//! - **I1** Memory is bounded by [`MAX_EXTENTS`], whatever the image says.
//! - **I2** Each step of the reader consumes at least one byte of the image, so it ends.

mod device;
mod reader;

use std::io;

pub use device::{MetadumpDevice, open_metadump};
pub use reader::{MetadumpExtent, MetadumpReader, MetadumpSource, StreamSource};

/// The unit, in bytes, of the addresses and lengths in a metadata image.
pub const METADUMP_UNIT: u64 = 512;
/// Magic number of version 1.
pub const METADUMP_MAGIC_1: [u8; 4] = *b"XFSM";
/// Magic number of version 2.
pub const METADUMP_MAGIC_2: [u8; 4] = *b"XMD2";
/// Number of addresses in an index of version 1.
pub const METADUMP_INDEX_ADDRESSES: usize = 63;
/// Position of the lower one of the two bits that choose the device in an address of version 2.
pub const METADUMP_DEVICE_SHIFT: u32 = 54;
/// The largest number of separate extents that an image may have to be opened as a device.
pub const MAX_EXTENTS: usize = 1 << 22;

/// The version of the format of a metadata image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadumpVersion {
    /// Single blocks of 512 bytes. An index of addresses comes before every 63 blocks.
    One,
    /// Extents, each with its address and length.
    Two,
}

/// The description of a metadata image in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadumpHeader {
    /// The version of the format.
    pub version: MetadumpVersion,
    /// Whether the header has flags that describe the image. Old images of version 1 have no such
    /// flags: then the three fields below are `false`.
    pub is_described: bool,
    /// Whether names and attribute values are obfuscated.
    pub is_obfuscated: bool,
    /// Whether blocks were copied whole, with the stale bytes in their unused parts.
    pub has_whole_blocks: bool,
    /// Whether the log holds changes that wait for replay.
    pub has_dirty_log: bool,
}

impl MetadumpHeader {
    const DESCRIBED: u8 = 1;

    /// Returns the byte of flags that each index of version 1 has.
    #[must_use]
    pub fn flags_of_version_1(&self) -> u8 {
        let words = self.flags_of_version_2().to_be_bytes();
        words.last().map_or(0, |flags| (flags << 1) | Self::DESCRIBED)
    }

    /// Returns the word of flags in the header of version 2.
    #[must_use]
    pub fn flags_of_version_2(&self) -> u32 {
        u32::from(self.is_obfuscated)
            | (u32::from(self.has_whole_blocks) << 1)
            | (u32::from(self.has_dirty_log) << 2)
    }

    const fn from_flags(version: MetadumpVersion, is_described: bool, flags: u32) -> Self {
        Self {
            version,
            is_described,
            is_obfuscated: flags & 1 != 0,
            has_whole_blocks: flags & 2 != 0,
            has_dirty_log: flags & 4 != 0,
        }
    }
}

/// The reason why a metadata image cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadumpError {
    /// The image could not be read: an error of the host, or of the program that writes the stream.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first bytes are not those of a metadata image.
    #[error("is not a metadata image of xfs_metadump")]
    NotMetadump,
    /// The header names an unknown version.
    #[error("metadata image version {0} is not supported; versions 1 and 2 are")]
    Version(u32),
    /// The header has flags that change how the image must be read.
    #[error("the metadata image has unknown incompatible features {0:#x}")]
    Incompatible(u32),
    /// An index of version 1 states a block size other than 512 bytes.
    #[error("the index at byte {at} has blocks of 2^{log} bytes, not of 512")]
    BlockLog {
        /// The byte of the image where the index lies.
        at: u64,
        /// The base-2 logarithm of the block size that the index states.
        log: u8,
    },
    /// An index of version 1 has no magic number, or too many addresses.
    #[error("the index at byte {at} is damaged: {count} blocks")]
    Index {
        /// The byte of the image where the index lies.
        at: u64,
        /// The number of blocks that the index names.
        count: u16,
    },
    /// An extent is empty, or it ends past the highest possible address.
    #[error("the extent at byte {at} is damaged: {length} units at address {address}")]
    Extent {
        /// The byte of the image where the extent lies.
        at: u64,
        /// The address of the extent, in units of 512 bytes.
        address: u64,
        /// The length of the extent, in units of 512 bytes.
        length: u32,
    },
    /// The image has blocks of an external log or of a realtime device.
    #[error("the metadata image holds blocks of {0}, which is not supported")]
    OtherDevice(&'static str),
    /// The image ends inside an extent or an index.
    #[error("the metadata image ends at byte {0}, inside a block: it is cut off")]
    CutOff(u64),
    /// The image does not begin with a superblock.
    #[error("the metadata image does not begin with the superblock of an XFS volume")]
    NoSuperblock,
    /// An extent ends past the end of the volume.
    #[error("the metadata image has a block at byte {at} of a volume of {length_bytes} bytes")]
    PastEnd {
        /// The offset in the volume of the last byte of the extent.
        at: u64,
        /// The length of the volume in bytes.
        length_bytes: u64,
    },
    /// The image has more separate extents than [`MAX_EXTENTS`].
    #[error("the metadata image has more than {MAX_EXTENTS} separate extents")]
    TooManyExtents,
}

/// Returns the length in bytes of the volume whose superblock starts with `sector`. Returns `None`
/// if `sector` does not hold a superblock.
#[must_use]
pub fn volume_length(sector: &[u8]) -> Option<u64> {
    let magic: &[u8; 4] = sector.first_chunk()?;
    let block_size = u32::from_be_bytes(*sector.get(4..)?.first_chunk()?);
    let blocks = u64::from_be_bytes(*sector.get(8..)?.first_chunk()?);
    let is_sound = magic == b"XFSB" && block_size.is_power_of_two();
    let is_size = (512..=65536).contains(&block_size);
    let length = blocks.checked_mul(u64::from(block_size))?;
    (is_sound && is_size && length <= i64::MAX as u64).then_some(length)
}

#[cfg(test)]
mod tests;
