//! The range of a file that an operation changes.
//!
//! Owns: the checks that come before every change of a range, and the blocks of the range. Does
//! **not** own permission, the lock of the file, the flush of buffered bytes and the break of
//! leases: the caller has done these. Each operation reserves its own blocks, because operations
//! need different numbers of blocks.

use core::ops::Range;

use xfs_buffer::{PosixError, Result};
use xfs_format::{FileBlock, Geometry};

use super::LiveInode;
use super::write::{blocks_of, check_end};
use crate::edit::BlockRange;

/// The offsets at which a range may begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeEdges {
    /// The range may begin and end at any byte.
    Anywhere,
    /// The range must begin and end at boundaries of blocks, or of realtime extents in a realtime
    /// file, and must not be empty.
    BetweenBlocks,
}

/// A range of a regular file that an operation may change.
#[derive(Clone, Debug)]
pub(super) struct FileRange {
    /// The byte offsets of the range.
    pub(super) bytes: Range<u64>,
    /// The blocks that lie completely in the range. In a realtime file, the blocks of the realtime
    /// extents that lie completely in the range.
    pub(super) whole: BlockRange,
    /// The blocks that contain at least one byte of the range.
    pub(super) touched: BlockRange,
}

impl FileRange {
    /// Checks the range of an operation on a file before anything changes, and returns it.
    ///
    /// # Errors
    ///
    /// [`PosixError::IsDirectory`] and [`PosixError::InvalidArgument`] for a file that is not
    /// regular, and for a start or an end that is not allowed; [`PosixError::FileTooLarge`] for a
    /// range past the limit of file sizes.
    pub(super) fn of(
        live: &LiveInode,
        geometry: &Geometry,
        bytes: Range<u64>,
        edges: RangeEdges,
    ) -> Result<Self> {
        live.check_regular(geometry)?;
        let unit = live.freed_unit(geometry);
        if edges == RangeEdges::BetweenBlocks && !is_of_whole_units(geometry, unit, &bytes) {
            return Err(PosixError::InvalidArgument.into());
        }
        check_end(geometry, bytes.end, 0)?;
        let touched = blocks_of(geometry, bytes.start, bytes.end);
        let first = bytes.start.div_ceil(geometry.block_size.into()).next_multiple_of(unit);
        let end = geometry.file_block(bytes.end).0;
        let whole = BlockRange::between(FileBlock(first), FileBlock(end - end % unit));
        Ok(Self { bytes, whole, touched })
    }
}

fn is_of_whole_units(geometry: &Geometry, unit: u64, bytes: &Range<u64>) -> bool {
    let block = u64::from(geometry.block_size) * unit;
    bytes.start.is_multiple_of(block) && bytes.end.is_multiple_of(block) && !bytes.is_empty()
}
