//! The btree of a fork's extents.

use zerocopy::FromBytes;
use zerocopy::big_endian::U64;

use super::{BtreeFormat, BtreeKind, put};
use crate::addr::FileBlock;
use crate::corruption::Check;
use crate::envelope;
use crate::extent::{EXTENT_BYTES, Extent, ExtentCheck, ExtentDisk, FILE_BLOCK_LIMIT};
use crate::geometry::Geometry;
use crate::group::Group;

/// The btree of a fork's extents.
///
/// The checks in this module do not know to which fork a record belongs. So they do not check where
/// the extent may lie or whether it may be unwritten: the inode decides both.
#[doc(alias = "bmbt")]
#[derive(Clone, Copy, Debug)]
pub enum Extents {}

impl BtreeFormat for Extents {
    const KIND: BtreeKind = BtreeKind::Extent;
    type Record = Extent;
    type Key = FileBlock;

    fn decode_record(bytes: &[u8], _group: &Group<'_>) -> Result<Extent, Check> {
        let disk = ExtentDisk::ref_from_bytes(bytes)
            .map_err(|_| envelope::truncated(bytes, EXTENT_BYTES))?;
        let extent = Extent::decode(disk);
        let file_block = extent.file_block;
        if extent.length_blocks == 0 {
            return Err(ExtentCheck::Empty { file_block }.into());
        }
        if extent.end().0 > FILE_BLOCK_LIMIT {
            return Err(ExtentCheck::FileLimit { file_block }.into());
        }
        Ok(extent)
    }

    fn decode_key(bytes: &[u8]) -> Option<FileBlock> {
        U64::read_from_bytes(bytes).ok().map(|block| FileBlock(block.get()))
    }

    fn key(record: &Extent) -> FileBlock {
        record.file_block
    }

    fn encode_record(record: &Extent, _geometry: &Geometry, into: &mut [u8]) {
        put(&record.encode().expect("the fields of a mapped extent fit its record"), into);
    }

    fn encode_key(record: &Extent, into: &mut [u8]) {
        put(&U64::new(record.file_block.0), into);
    }

    fn may_follow(record: &Extent, previous: &Extent) -> bool {
        record.file_block >= previous.end()
    }
}
