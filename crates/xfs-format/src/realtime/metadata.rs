//! Metadata blocks of a realtime group: bitmap, summary, reverse map and reference counts.
//!
//! Owns: the magic numbers and the common fields of these blocks. Does **not** own: their records.
//! The blocks lie on the data device, in files of the metadata directory.
//!
//! ```text
//! bitmap, summary   0 magic  4 CRC  8 owner  16 address  24 LSN  32 UUID                    .. 48
//! btrees            the long header of a btree block
//! ```

use crate::addr::{DiskAddr, Lsn};
use crate::btree::{PointerForm, envelope_of};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope};
use crate::verify_context::VerifyContext;

/// A kind of metadata block of a realtime group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RealtimeBlockKind {
    /// The bitmap of free realtime extents.
    #[doc(alias = "rtbitmap")]
    Bitmap,
    /// The summary: the number of free runs of each size (a power of two) that start in each block
    /// of the bitmap.
    #[doc(alias = "rtsummary")]
    Summary,
    /// A block of the reverse map's btree.
    #[doc(alias = "rtrmapbt")]
    ReverseMap,
    /// A block of the btree of reference counts.
    #[doc(alias = "rtrefcountbt")]
    Refcount,
}

/// Length in bytes of the header of a block of the bitmap or the summary of a realtime group.
pub const SPACE_HEADER_BYTES: usize = 48;
/// The bytes of this header that hold the inode number of the file.
pub const SPACE_OWNER_BYTES: core::ops::Range<usize> = 8..16;

const FILE_ENVELOPE: Envelope = Envelope { crc: 4, block: Some(16), lsn: 24, uuid: 32 };

impl RealtimeBlockKind {
    const ALL: [Self; 4] = [Self::Bitmap, Self::Summary, Self::ReverseMap, Self::Refcount];

    /// Returns the magic number at the start of each block.
    #[must_use]
    pub const fn magic(self) -> u32 {
        match self {
            Self::Bitmap => u32::from_be_bytes(*b"BMPZ"),
            Self::Summary => u32::from_be_bytes(*b"SUMY"),
            Self::ReverseMap => u32::from_be_bytes(*b"MAPR"),
            Self::Refcount => u32::from_be_bytes(*b"RCNT"),
        }
    }

    /// Returns the kind of the block in `bytes`, by its magic number. Returns `None` for other
    /// blocks; the bitmap and the summary of a section without groups have no magic number.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let magic = u32::from_be_bytes(*bytes.first_chunk()?);
        Self::ALL.into_iter().find(|kind| kind.magic() == magic)
    }

    pub(crate) const fn envelope(self) -> &'static Envelope {
        match self {
            Self::Bitmap | Self::Summary => &FILE_ENVELOPE,
            Self::ReverseMap | Self::Refcount => envelope_of(PointerForm::Long),
        }
    }

    /// Returns the LSN of the last logged change of the block. Returns `None` if the block was
    /// never logged, or belongs to another volume.
    #[must_use]
    pub fn find_lsn(self, bytes: &[u8], context: &VerifyContext<'_>) -> Option<Lsn> {
        let lsn = self.envelope().find_lsn(bytes, context.geometry.meta_uuid)?;
        (lsn.0 != 0 && !lsn.is_null()).then_some(lsn)
    }

    /// Stores the LSN and the checksum.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is shorter than the header.
    pub fn seal(self, bytes: &mut [u8], lsn: Lsn) {
        self.envelope().seal(bytes, lsn);
    }

    /// Checks the magic number and the common fields.
    pub(crate) fn verify_whole(
        self,
        bytes: &[u8],
        at: DiskAddr,
        context: &VerifyContext<'_>,
    ) -> Result<(), Corruption> {
        let found = bytes.first_chunk().map_or(0, |magic| u32::from_be_bytes(*magic));
        envelope::verify_magic(found, self.magic()).map_err(|check| {
            Corruption::new(Structure::RealtimeMetadata, StructureAddress::Disk(at), check)
        })?;
        self.verify(bytes, at, context)
    }

    /// Checks the fields that all metadata blocks have: checksum, UUID, address and LSN.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(
        self,
        bytes: &[u8],
        at: DiskAddr,
        context: &VerifyContext<'_>,
    ) -> Result<(), Corruption> {
        self.envelope().verify(bytes, at, context).map_err(|check: Check| {
            Corruption::new(Structure::RealtimeMetadata, StructureAddress::Disk(at), check)
        })
    }
}
