//! Blocks of the bitmap and the summary of a realtime section, with and without groups.
//!
//! Owns: the header of these blocks in realtime groups, and the place and the byte order of their
//! words. Does **not** own: the meaning of the words.
//!
//! ```text
//! classic   words only, in the byte order of little-endian machines
//! groups    0 magic  4 CRC  8 owner  16 address  24 LSN  32 UUID  48 words, big-endian
//! ```

use super::{RealtimeBlockKind, SPACE_WORD_BYTES, decode_space_word};
use crate::addr::{DiskAddr, InodeNumber};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope;
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Length in bytes of the header of a block in a realtime group.
const HEADER_BYTES: usize = 48;
const OWNER_OFFSET: usize = 8;

/// The form of the blocks of bitmaps and summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceBlockForm {
    /// Words without a header.
    Classic,
    /// Words after a header.
    Groups,
}

impl SpaceBlockForm {
    /// Returns the form of the blocks of a volume.
    #[must_use]
    pub const fn of(geometry: &Geometry) -> Self {
        if geometry.realtime.group_count == 0 { Self::Classic } else { Self::Groups }
    }

    const fn header_bytes(self) -> usize {
        match self {
            Self::Classic => 0,
            Self::Groups => HEADER_BYTES,
        }
    }

    /// Returns the number of words of a block.
    #[must_use]
    pub const fn words(self, geometry: &Geometry) -> u64 {
        (geometry.block_size as usize - self.header_bytes()) as u64 / SPACE_WORD_BYTES as u64
    }

    /// Returns the words of a block, in order.
    pub fn decode(self, block: &[u8]) -> impl ExactSizeIterator<Item = u32> {
        let words = block.get(self.header_bytes()..).unwrap_or_default();
        words.chunks_exact(SPACE_WORD_BYTES).map(move |bytes| {
            let bytes = *bytes.first_chunk().expect("a word has four bytes");
            match self {
                Self::Classic => decode_space_word(bytes),
                Self::Groups => u32::from_be_bytes(bytes),
            }
        })
    }

    /// Checks the header of a block that belongs to the inode `owner`. Blocks without a header have
    /// nothing to check.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(
        self,
        block: &SpaceBlock<'_>,
        context: &VerifyContext<'_>,
    ) -> Result<(), Corruption> {
        if self == Self::Classic {
            return Ok(());
        }
        let SpaceBlock { bytes, kind, owner, at } = *block;
        let corrupt = |check: Check| {
            Corruption::new(Structure::RealtimeMetadata, StructureAddress::Disk(at), check)
        };
        let word = |offset: usize| bytes.get(offset..).and_then(<[u8]>::first_chunk::<4>);
        let truncated = || corrupt(envelope::truncated(bytes, HEADER_BYTES));
        let magic = u32::from_be_bytes(*word(0).ok_or_else(truncated)?);
        envelope::verify_magic(magic, kind.magic()).map_err(corrupt)?;
        kind.verify(bytes, at, context)?;
        let stored = bytes.get(OWNER_OFFSET..).and_then(<[u8]>::first_chunk::<8>);
        let found = u64::from_be_bytes(*stored.ok_or_else(truncated)?);
        if found == owner.0 {
            return Ok(());
        }
        Err(corrupt(Check::ForeignOwner { found, expected: owner.0 }))
    }
}

/// A block of a bitmap or a summary.
#[derive(Clone, Copy, Debug)]
pub struct SpaceBlock<'a> {
    /// The whole block.
    pub bytes: &'a [u8],
    /// The kind of the block: bitmap or summary.
    pub kind: RealtimeBlockKind,
    /// The inode of the file.
    pub owner: InodeNumber,
    /// The address from which the block was read.
    pub at: DiskAddr,
}
