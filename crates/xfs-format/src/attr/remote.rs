//! Blocks of a remote value: each filesystem block has a header and the next part of the value.
//!
//! Owns: decoding and the checks of one block. Does **not** own: the order of the parts, which the
//! reader of the value checks.
//!
//! ```text
//! 0 magic  4 offset in the value  8 bytes here  12 CRC  16 UUID  32 owner  40 own address  48 LSN
//! 56 part of the value
//! ```
//!
//! These blocks are never logged. They are written before the attribute becomes visible, and their
//! LSN is always null.
//!
//! On a v4 volume there is no header: the value fills whole blocks.

use core::mem::{offset_of, size_of};

use uuid::Uuid;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{AttrCheck, MAX_VALUE};
use crate::addr::{DiskAddr, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{Envelope, fill};
use crate::features::FormatVersion;
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Magic number of a block of a remote value: "XARM".
#[doc(alias = "XFS_ATTR3_RMT_MAGIC")]
pub const REMOTE_MAGIC: u32 = 0x5841_524d;

/// The header of each block of a remote value.
#[doc(alias = "xfs_attr3_rmt_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct RemoteHeaderDisk {
    pub magic: U32,
    pub offset: U32,
    pub bytes: U32,
    pub crc: [u8; 4],
    pub uuid: [u8; 16],
    pub owner: U64,
    pub block: U64,
    pub lsn: U64,
}

const _: () = assert!(size_of::<RemoteHeaderDisk>() == 56);

const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(RemoteHeaderDisk, crc),
    block: Some(offset_of!(RemoteHeaderDisk, block)),
    lsn: offset_of!(RemoteHeaderDisk, lsn),
    uuid: offset_of!(RemoteHeaderDisk, uuid),
};

/// One filesystem block of a remote value, borrowed from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteBlock<'a> {
    header: &'a RemoteHeaderDisk,
    part: &'a [u8],
}

impl<'a> RemoteBlock<'a> {
    /// Returns the number of bytes of a value that a filesystem block holds. On a v4 volume that is
    /// the whole block, because there is no header.
    #[must_use]
    pub const fn capacity(geometry: &Geometry) -> u32 {
        match geometry.version {
            FormatVersion::V4 => geometry.block_size,
            FormatVersion::V5 => geometry.block_size - size_of::<RemoteHeaderDisk>() as u32,
        }
    }

    /// Decodes the filesystem block in `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the header is wrong, or the part does not fit the block.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        Self::parse(bytes).map_err(|check| Corruption::new(Structure::Attr, place, check))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Check> {
        let needed = size_of::<RemoteHeaderDisk>();
        let truncated = Check::Truncated { available: bytes.len(), needed };
        let Ok((header, rest)) = RemoteHeaderDisk::ref_from_prefix(bytes) else {
            return Err(truncated);
        };
        let (found, expected) = (header.magic.get(), REMOTE_MAGIC);
        if found != expected {
            return Err(Check::Magic { found: found.into(), expected: expected.into() });
        }
        let (offset, length) = (header.offset.get(), header.bytes.get());
        let ends_inside = offset.checked_add(length).is_some_and(|end| end <= MAX_VALUE);
        let part = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        match part {
            Some(part) if ends_inside => Ok(Self { header, part }),
            _ => Err(AttrCheck::RemoteRange { offset, bytes: length }.into()),
        }
    }

    /// Returns the owner inode in the header.
    #[must_use]
    pub fn owner(&self) -> InodeNumber {
        InodeNumber(self.header.owner.get())
    }

    /// Returns the offset of this block's part in the value, in bytes.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.header.offset.get()
    }

    /// Returns the bytes of the value that this block holds.
    #[must_use]
    pub fn part(&self) -> &'a [u8] {
        self.part
    }
}

/// The header fields that are the same in every block of a value.
#[derive(Clone, Copy, Debug)]
pub struct RemoteIdentity {
    /// The inode to which the value belongs.
    pub owner: InodeNumber,
    /// The UUID that the volume's metadata carries.
    pub uuid: Uuid,
}

/// Writes one block of a remote value: header, `part`, zeros and checksum. `offset` is the byte
/// offset of `part` in the value. Such blocks are never logged.
///
/// # Panics
///
/// Panics if the part does not fit the block.
pub fn encode(bytes: &mut [u8], at: DiskAddr, identity: &RemoteIdentity, offset: u32, part: &[u8]) {
    let header = RemoteHeaderDisk {
        magic: REMOTE_MAGIC.into(),
        offset: offset.into(),
        bytes: U32::new(u32::try_from(part.len()).expect("a part is shorter than its block")),
        crc: [0; 4],
        uuid: identity.uuid.into_bytes(),
        owner: identity.owner.0.into(),
        block: at.0.into(),
        lsn: Lsn::NULL.0.into(),
    };
    fill(bytes, &header);
    let room = bytes.get_mut(size_of::<RemoteHeaderDisk>()..).and_then(|r| r.get_mut(..part.len()));
    room.expect("the part fits its block").copy_from_slice(part);
    ENVELOPE.seal(bytes, Lsn::NULL);
}

/// Changes the address in one block of a remote value that moves to `at`, and the checksum. Bytes
/// that are no such block stay as they are: a value may never have been written.
///
/// # Panics
///
/// Panics if `bytes` is shorter than the header.
pub fn set_address(bytes: &mut [u8], at: DiskAddr) {
    if RemoteBlock::parse(bytes).is_ok() {
        ENVELOPE.set_address(bytes, at);
        ENVELOPE.seal(bytes, Lsn::NULL);
    }
}

/// Checks each filesystem block of a buffer that was read from `at`.
pub(crate) fn verify(
    bytes: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Corruption> {
    let step = u64::from(context.geometry.block_basic_blocks());
    let mut block_at = at;
    for block in bytes.chunks(context.geometry.block_size as usize) {
        let checked =
            RemoteBlock::parse(block).and_then(|_| ENVELOPE.verify(block, block_at, context));
        checked.map_err(|check| {
            Corruption::new(Structure::Attr, StructureAddress::Disk(block_at), check)
        })?;
        block_at = DiskAddr(block_at.0.saturating_add(step));
    }
    Ok(())
}
