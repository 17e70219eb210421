//! Record of the two free-space btrees (`xfs_alloc_rec`): the first block and the length, 4 bytes
//! each.
//!
//! Owns: the record, which is also its own key, and the order of the records in each of the two
//! btrees. Does **not** own the rule that the longest record equals `longest` in the AGF.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::AgBlock;
use crate::btree::{BtreeFormat, BtreeKind, put};
pub use crate::checks::free_space::FreeSpaceCheck;
use crate::corruption::Check;
use crate::geometry::Geometry;
use crate::group::Group;

/// A free extent on disk, the form of records and of keys.
#[doc(alias = "xfs_alloc_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of `FreeSpace`, documented there")]
pub struct FreeSpaceDisk {
    pub start: U32,
    pub count: U32,
}

/// Length of a key in bytes. A record starts with its key.
const KEY_BYTES: usize = 8;

const _: () = assert!(size_of::<FreeSpaceDisk>() == 8);

/// A free extent of an allocation group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FreeSpace {
    /// The first free block.
    pub start: AgBlock,
    /// Number of free blocks.
    pub count: u32,
}

impl FreeSpace {
    /// Decodes a record and checks that the extent lies inside `group`.
    ///
    /// # Errors
    ///
    /// Returns the check that failed.
    pub fn decode(bytes: &[u8], group: &Group<'_>) -> Result<Self, Check> {
        let disk = FreeSpaceDisk::read_from_bytes(bytes)
            .map_err(|_| crate::envelope::truncated(bytes, size_of::<FreeSpaceDisk>()))?;
        let (start, count) = (disk.start.get(), disk.count.get());
        if !group.contains_extent(AgBlock(start), count) {
            return Err(FreeSpaceCheck::Range { start, count }.into());
        }
        Ok(Self { start: AgBlock(start), count })
    }

    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> FreeSpaceDisk {
        FreeSpaceDisk { start: self.start.0.into(), count: self.count.into() }
    }

    /// Returns the block after the last block of the extent.
    #[must_use]
    pub const fn end(&self) -> AgBlock {
        AgBlock(self.start.0 + self.count)
    }
}

fn decode_key(bytes: &[u8]) -> Option<FreeSpaceDisk> {
    FreeSpaceDisk::read_from_bytes(bytes).ok()
}

/// The btree of free extents, sorted by block number.
#[doc(alias = "bnobt")]
#[derive(Clone, Copy, Debug)]
pub enum FreeSpaceByBlock {}

impl BtreeFormat for FreeSpaceByBlock {
    const KIND: BtreeKind = BtreeKind::FreeSpaceByBlock;
    type Record = FreeSpace;
    type Key = AgBlock;

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<FreeSpace, Check> {
        FreeSpace::decode(bytes, group)
    }

    fn decode_key(bytes: &[u8]) -> Option<AgBlock> {
        decode_key(bytes).map(|key| AgBlock(key.start.get()))
    }

    fn decode_record_key(bytes: &[u8], _group: &Group<'_>) -> Result<Self::Key, Check> {
        let key = bytes.get(..KEY_BYTES).and_then(Self::decode_key);
        key.ok_or_else(|| crate::envelope::truncated(bytes, KEY_BYTES))
    }

    fn key(record: &FreeSpace) -> AgBlock {
        record.start
    }

    fn encode_record(record: &FreeSpace, _geometry: &Geometry, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    fn encode_key(record: &FreeSpace, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    /// Returns whether `record` starts after `previous` and is not adjacent to it. Two adjacent
    /// free extents would be one record.
    fn may_follow(record: &FreeSpace, previous: &FreeSpace) -> bool {
        record.start > previous.end()
    }
}

/// The btree of free extents, sorted by length and then by block number.
#[doc(alias = "cntbt")]
#[derive(Clone, Copy, Debug)]
pub enum FreeSpaceBySize {}

impl BtreeFormat for FreeSpaceBySize {
    const KIND: BtreeKind = BtreeKind::FreeSpaceBySize;
    type Record = FreeSpace;
    type Key = (u32, AgBlock);

    fn decode_record(bytes: &[u8], group: &Group<'_>) -> Result<FreeSpace, Check> {
        FreeSpace::decode(bytes, group)
    }

    fn decode_key(bytes: &[u8]) -> Option<(u32, AgBlock)> {
        decode_key(bytes).map(|key| (key.count.get(), AgBlock(key.start.get())))
    }

    fn decode_record_key(bytes: &[u8], _group: &Group<'_>) -> Result<Self::Key, Check> {
        let key = bytes.get(..KEY_BYTES).and_then(Self::decode_key);
        key.ok_or_else(|| crate::envelope::truncated(bytes, KEY_BYTES))
    }

    fn key(record: &FreeSpace) -> (u32, AgBlock) {
        (record.count, record.start)
    }

    fn encode_record(record: &FreeSpace, _geometry: &Geometry, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    fn encode_key(record: &FreeSpace, into: &mut [u8]) {
        put(&record.encode(), into);
    }

    /// Returns whether `record` sorts after `previous`. Two records of equal length must also not
    /// be adjacent, because adjacent free extents are one record.
    fn may_follow(record: &FreeSpace, previous: &FreeSpace) -> bool {
        record.count > previous.count
            || (record.count == previous.count && record.start > previous.end())
    }
}

#[cfg(test)]
mod tests;
