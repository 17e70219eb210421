//! Remote block of a symbolic link (`xfs_dsymlink_hdr`).
//!
//! Owns: the header of a buffer with a part of a target that is too long for the inode. Each extent
//! of the link is one buffer with its own header. Does **not** own: joining the parts to the whole
//! target.
//!
//! ```text
//! 0     4        8       12    16     32      40      48    56            56 + length
//! | XSLM | offset | length | crc | uuid | owner | at    | lsn | target ...    |
//! ```

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{DiskAddr, InodeNumber, Lsn};
pub use crate::checks::symlink::SymlinkCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope};
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Magic number of a block of a link's target: "XSLM".
pub const SYMLINK_MAGIC: u32 = 0x5853_4c4d;
/// Length of the longest target, in bytes.
#[doc(alias = "XFS_SYMLINK_MAXLEN")]
pub const MAX_TARGET_BYTES: u32 = 1024;
/// Number of bytes of a block before its part of the link's target.
pub const SYMLINK_HEADER_BYTES: usize = size_of::<SymlinkDisk>();

pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(SymlinkDisk, crc),
    block: Some(offset_of!(SymlinkDisk, disk_addr)),
    lsn: offset_of!(SymlinkDisk, lsn),
    uuid: offset_of!(SymlinkDisk, uuid),
};

/// The header of a block with a part of a target, on disk.
#[doc(alias = "xfs_dsymlink_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `SymlinkBlock`, documented there")]
pub struct SymlinkDisk {
    pub magic: U32,
    pub offset: U32,
    pub length: U32,
    pub crc: [u8; 4],
    pub uuid: [u8; 16],
    pub owner: U64,
    pub disk_addr: U64,
    pub lsn: U64,
}

const _: () = assert!(size_of::<SymlinkDisk>() == 56);

/// A block with a part of a symbolic link's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymlinkBlock<'a> {
    /// Offset of the part in the target, in bytes.
    pub offset_bytes: u32,
    /// The inode number of the link.
    pub owner: InodeNumber,
    /// The LSN of the last logged change of the block.
    pub lsn: Lsn,
    /// The bytes of the target in this block.
    pub target: &'a [u8],
}

impl<'a> SymlinkBlock<'a> {
    /// Decodes the fields and finds the part of the target in `bytes`.
    ///
    /// # Errors
    ///
    /// Returns a [`Corruption`] if the magic number is wrong or the part does not fit.
    pub fn decode(bytes: &'a [u8], at: DiskAddr) -> Result<Self, Corruption> {
        Self::decode_fields(bytes).map_err(|check| corrupt(at, check))
    }

    fn decode_fields(bytes: &'a [u8]) -> Result<Self, Check> {
        let (disk, rest) = SymlinkDisk::ref_from_prefix(bytes)
            .map_err(|_| envelope::truncated(bytes, SYMLINK_HEADER_BYTES))?;
        envelope::verify_magic(disk.magic.get(), SYMLINK_MAGIC)?;
        let (offset, length) = (disk.offset.get(), disk.length.get());
        let end = offset.checked_add(length).filter(|end| *end <= MAX_TARGET_BYTES);
        let target = rest.get(..length as usize).filter(|_| end.is_some());
        let target = target.ok_or(SymlinkCheck::Range { offset, length, room: rest.len() })?;
        let (owner, lsn) = (InodeNumber(disk.owner.get()), Lsn(disk.lsn.get()));
        Ok(Self { offset_bytes: offset, owner, lsn, target })
    }
}

/// Encodes the header of a part of a target. The arguments are the link, the address of the buffer,
/// and the offset and length of the part. [`BlockKind::seal`](crate::BlockKind::seal) stores LSN
/// and checksum.
#[must_use]
pub fn encode_header(
    geometry: &Geometry,
    owner: InodeNumber,
    at: DiskAddr,
    offset_bytes: u32,
    length_bytes: u32,
) -> [u8; SYMLINK_HEADER_BYTES] {
    let disk = SymlinkDisk {
        magic: SYMLINK_MAGIC.into(),
        offset: offset_bytes.into(),
        length: length_bytes.into(),
        crc: [0; 4],
        uuid: geometry.meta_uuid.into_bytes(),
        owner: owner.0.into(),
        disk_addr: at.0.into(),
        lsn: U64::ZERO,
    };
    zerocopy::transmute!(disk)
}

/// Checks the bytes of the buffer that was read from `at`.
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    SymlinkBlock::decode_fields(bytes)?;
    ENVELOPE.verify(bytes, at, context)
}

fn corrupt(at: DiskAddr, check: Check) -> Corruption {
    Corruption::new(Structure::Symlink, StructureAddress::Disk(at), check)
}

#[cfg(test)]
mod tests;
