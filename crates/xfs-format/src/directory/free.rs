//! Blocks of the free-space index: the length of the longest free record of each data block.
//!
//! Owns: decoding and the checks of one block.
//!
//! ```text
//!  0 as in a data block up to the owner  48 first data block  52 count  56 used  60 pad
//! 64 best free length (2) of each data block, 0xffff where there is no such block
//!
//! v4: 0 magic  4 first data block  8 count  12 used  16 best free lengths
//! ```

use core::mem::size_of;

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{DirectoryCheck, NULL_OFFSET, data};
use crate::addr::{DiskAddr, InodeNumber};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope;
use crate::features::FormatVersion;
use crate::verify_context::VerifyContext;

/// Magic number of a block of the free-space index: "XDF3".
#[doc(alias = "XFS_DIR3_FREE_MAGIC")]
pub const FREE_MAGIC: u32 = 0x5844_4633;

/// Magic number of a block of the free-space index on a v4 volume: "XD2F".
#[doc(alias = "XFS_DIR2_FREE_MAGIC")]
pub const FREE_MAGIC_V4: u32 = 0x5844_3246;

/// The header of a block of the free-space index.
#[doc(alias = "xfs_dir3_free_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct FreeHeaderDisk {
    pub magic: U32,
    pub crc: [u8; 4],
    pub block: U64,
    pub lsn: U64,
    pub uuid: [u8; 16],
    pub owner: U64,
    pub first: U32,
    pub count: U32,
    pub used: U32,
    pub pad: U32,
}

/// The header fields that v4 and v5 blocks have in common: the first data block that the index
/// block describes, the number of entries of the index block, and the number of entries whose data
/// block exists.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FreeFieldsDisk {
    first: U32,
    count: U32,
    used: U32,
}

/// The header of a block of the free-space index on a v4 volume.
#[doc(alias = "xfs_dir2_free_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FreeHeaderV4Disk {
    magic: U32,
    fields: FreeFieldsDisk,
}

const _: () = assert!(size_of::<FreeHeaderV4Disk>() == 16);
const _: () = assert!(size_of::<FreeHeaderDisk>() == 64);

/// A block of the free-space index, borrowed from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct FreeBlock<'a> {
    version: FormatVersion,
    owner: Option<InodeNumber>,
    fields: FreeFieldsDisk,
    capacity: usize,
    best_free: &'a [U16],
}

impl<'a> FreeBlock<'a> {
    /// Decodes the block in `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the magic number is wrong or the count does not fit the block.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        Self::parse(bytes).map_err(|check| Corruption::new(Structure::Directory, place, check))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Check> {
        let needed = size_of::<FreeHeaderDisk>();
        let truncated = Check::Truncated { available: bytes.len(), needed };
        let Ok((header, rest)) = FreeHeaderDisk::ref_from_prefix(bytes) else {
            return Err(truncated);
        };
        let (version, owner, fields, rest) = match header.magic.get() {
            FREE_MAGIC => {
                let FreeHeaderDisk { first, count, used, .. } = *header;
                let owner = Some(InodeNumber(header.owner.get()));
                (FormatVersion::V5, owner, FreeFieldsDisk { first, count, used }, rest)
            }
            FREE_MAGIC_V4 => match FreeHeaderV4Disk::ref_from_prefix(bytes) {
                Ok((header, rest)) => (FormatVersion::V4, None, header.fields, rest),
                Err(_) => return Err(truncated),
            },
            found => {
                return Err(Check::Magic { found: found.into(), expected: FREE_MAGIC.into() });
            }
        };
        let count = fields.count.get();
        let capacity = rest.len() / size_of::<U16>();
        let length = usize::try_from(count).ok();
        match length.map(|length| <[U16]>::ref_from_prefix_with_elems(rest, length)) {
            Some(Ok((best_free, _))) => Ok(Self { version, owner, fields, capacity, best_free }),
            _ => Err(DirectoryCheck::BestCount { count }.into()),
        }
    }

    /// Returns the owner inode in the header, or `None` on a v4 volume, whose blocks name no owner.
    #[must_use]
    pub fn owner(&self) -> Option<InodeNumber> {
        self.owner
    }

    /// Returns the number, counted in directory blocks, of the first data block for which this
    /// block stores the length of the longest free record.
    #[must_use]
    pub fn first_data_block(&self) -> u32 {
        self.fields.first.get()
    }

    /// Returns the lengths of the longest free records of consecutive data blocks. The first length
    /// belongs to data block `first_data_block`.
    #[must_use]
    pub fn best_free(&self) -> &'a [U16] {
        self.best_free
    }
}

/// Checks a block that was read from `at`.
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    let block = FreeBlock::parse(bytes)?;
    envelope::verify_version(block.version, context)?;
    data::ENVELOPE.verify(bytes, at, context)?;
    let (first, count) = (block.fields.first.get(), block.fields.count.get());
    let used = block.fields.used.get();
    let in_use = block.best_free.iter().filter(|best| best.get() != NULL_OFFSET).count();
    if usize::try_from(used) != Ok(in_use)
        || !usize::try_from(first).is_ok_and(|first| first.is_multiple_of(block.capacity))
    {
        return Err(DirectoryCheck::FreeIndex { first, count, used }.into());
    }
    Ok(())
}
