//! AG free list (AGFL, `xfs_agfl`): sector 3 of every allocation group.
//!
//! Owns: the ring of blocks from which the free-space btrees and the reverse map take blocks, and
//! to which they return them. The AGF says which entries of the ring are in use.
//!
//! ```text
//! 0 magic  4 group  8 UUID  24 LSN  32 CRC  36 block numbers to the end of the sector
//! ```
//!
//! On a v4 volume there is no header: block numbers fill the sector.

use core::mem::offset_of;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{AgBlock, AgNumber, DiskAddr, Lsn};
use crate::agf::FreeListRange;
pub use crate::checks::agfl::AgflCheck;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::envelope::{self, Envelope};
use crate::features::FormatVersion;
use crate::geometry::Geometry;
use crate::verify_context::VerifyContext;

/// Magic number of the AGFL: "XAFL".
pub const AGFL_MAGIC: u32 = 0x5841_464c;
/// Index of the AGFL's sector in its group.
pub const AGFL_SECTOR: u32 = 3;

/// The header of the AGFL on disk.
#[doc(alias = "xfs_agfl")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram says what the fields are")]
pub struct AgflHeaderDisk {
    pub magic: U32,
    pub group: U32,
    pub uuid: [u8; 16],
    pub lsn: U64,
    pub crc: [u8; 4],
}

const HEADER_BYTES: usize = size_of::<AgflHeaderDisk>();
const _: () = assert!(HEADER_BYTES == 36);

pub(crate) const ENVELOPE: Envelope = Envelope {
    crc: offset_of!(AgflHeaderDisk, crc),
    uuid: offset_of!(AgflHeaderDisk, uuid),
    lsn: offset_of!(AgflHeaderDisk, lsn),
    block: None,
};

/// Returns the number of entries in the free list of a group.
#[doc(alias = "xfs_agfl_size")]
#[must_use]
pub const fn capacity(geometry: &Geometry) -> u32 {
    let header = match geometry.version {
        FormatVersion::V4 => 0,
        FormatVersion::V5 => HEADER_BYTES as u32,
    };
    (geometry.sector_size - header) / size_of::<U32>() as u32
}

/// Returns the range of bytes in the sector of a v5 volume that holds the block number of entry
/// `index`.
#[must_use]
pub const fn entry_range(index: u32) -> core::ops::Range<usize> {
    let start = HEADER_BYTES + index as usize * size_of::<U32>();
    start..start + size_of::<U32>()
}

/// Writes a free list whose entries from `first` on hold `blocks`; the list is a ring, so entry 0
/// follows the last entry. Blocks that do not fit the ring are left out, and all other entries
/// become empty. [`BlockKind::seal`](crate::BlockKind::seal) stores LSN and checksum.
///
/// # Panics
///
/// Panics if `sector` is shorter than the header, which is a mistake of the caller.
pub fn encode(
    group: AgNumber,
    first: u32,
    blocks: &[AgBlock],
    geometry: &Geometry,
    sector: &mut [u8],
) {
    let header = AgflHeaderDisk {
        magic: AGFL_MAGIC.into(),
        group: group.0.into(),
        uuid: geometry.meta_uuid.into_bytes(),
        ..AgflHeaderDisk::new_zeroed()
    };
    envelope::fill(sector, &header);
    let (_, rest) = sector.split_at_mut(HEADER_BYTES);
    rest.fill(0xff);
    let capacity = rest.len() / size_of::<U32>();
    for (index, block) in blocks.iter().take(capacity).enumerate() {
        let entry = (first as usize + index) % capacity;
        let bytes = rest.chunks_exact_mut(size_of::<U32>()).nth(entry);
        bytes.expect("the entry lies in the list").copy_from_slice(&block.0.to_be_bytes());
    }
}

/// A view of the free list in its sector.
#[derive(Clone, Copy, Debug)]
pub struct Agfl<'a> {
    /// The header; `None` on a v4 volume.
    header: Option<&'a AgflHeaderDisk>,
    entries: &'a [U32],
    at: DiskAddr,
}

impl<'a> Agfl<'a> {
    /// Creates a view of `sector`, exactly one sector read from `at`. `version` is the format
    /// version of the volume. Values are not checked: [`BlockKind::verify`] does that.
    ///
    /// [`BlockKind::verify`]: crate::BlockKind::verify
    ///
    /// # Errors
    ///
    /// Returns an error for a wrong magic number, or too few bytes.
    pub fn decode(
        sector: &'a [u8],
        at: DiskAddr,
        version: FormatVersion,
    ) -> Result<Self, Corruption> {
        Self::view(sector, at, version)
            .map_err(|check| Corruption::new(Structure::Agfl, StructureAddress::Disk(at), check))
    }

    fn view(sector: &'a [u8], at: DiskAddr, version: FormatVersion) -> Result<Self, Check> {
        let truncated = envelope::truncated(sector, HEADER_BYTES);
        let (header, rest) = match (version, AgflHeaderDisk::ref_from_prefix(sector)) {
            (_, Err(_)) => return Err(truncated),
            (FormatVersion::V4, Ok(_)) => (None, sector),
            (FormatVersion::V5, Ok((header, rest))) => (Some(header), rest),
        };
        if let Some(header) = header {
            envelope::verify_magic(header.magic.get(), AGFL_MAGIC)?;
        }
        let Ok((entries, _)) =
            <[U32]>::ref_from_prefix_with_elems(rest, rest.len() / size_of::<U32>())
        else {
            return Err(truncated);
        };
        Ok(Self { header, entries, at })
    }

    /// Returns the number of the group to which the list belongs. `None` on a v4 volume, whose list
    /// does not state it.
    #[must_use]
    pub fn group(&self) -> Option<AgNumber> {
        self.header.map(|header| AgNumber(header.group.get()))
    }

    /// Returns the LSN of the last logged change of the AGFL, or 0 on a v4 volume.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        Lsn(self.header.map_or(0, |header| header.lsn.get()))
    }

    /// Returns all entries, in use or not. An empty entry is `None`.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Option<AgBlock>> + use<'a> {
        self.entries.iter().map(|raw| Some(AgBlock(raw.get())).filter(|block| !block.is_null()))
    }

    /// Returns the blocks on the list, in the order in which the allocator takes them. `range` is
    /// the range of entries in use, from the AGF.
    ///
    /// # Errors
    ///
    /// Returns an error if the range does not lie inside the ring, or if `first` and `last` do not
    /// enclose `count` entries. An item of the iterator is an error if its entry is empty.
    pub fn blocks(
        &self,
        range: FreeListRange,
    ) -> Result<impl Iterator<Item = Result<AgBlock, Corruption>> + use<'a>, Corruption> {
        let FreeListRange { first, last, count } = range;
        let size = self.entries.len();
        let enclosed = (last as usize + size).wrapping_sub(first as usize).wrapping_add(1);
        let is_inside = (first as usize) < size && (last as usize) < size;
        if count != 0 && (!is_inside || count as usize != (enclosed - 1) % size + 1) {
            return Err(self.corrupt(AgflCheck::Range { first, last, count }));
        }
        let this = *self;
        Ok((0..count as usize).map(move |index| {
            let place = (first as usize + index) % size;
            let block = this.entries.get(place).map_or(AgBlock::NULL, |raw| AgBlock(raw.get()));
            if block.is_null() {
                return Err(this.corrupt(AgflCheck::Empty { place }));
            }
            Ok(block)
        }))
    }

    fn corrupt(&self, check: AgflCheck) -> Corruption {
        Corruption::new(Structure::Agfl, StructureAddress::Disk(self.at), check)
    }
}

/// Checks the AGFL in `sector`, which was read from `at`.
pub(crate) fn verify(
    sector: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    let list = Agfl::view(sector, at, context.geometry.version)?;
    ENVELOPE.verify(sector, at, context)?;
    let group = envelope::group_of_sector(at, AGFL_SECTOR, context)?;
    if let Some(AgNumber(found)) = list.group().filter(|found| *found != group.number()) {
        return Err(AgflCheck::GroupNumber { found, expected: group.number().0 }.into());
    }
    for (place, block) in list.entries().enumerate() {
        if let Some(block) = block.filter(|block| !group.contains_block(*block)) {
            return Err(AgflCheck::Block { place, block: block.0 }.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
