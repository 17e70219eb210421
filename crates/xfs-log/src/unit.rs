//! The amount of log that a transaction must reserve.
//!
//! Owns: the arithmetic from bytes of items to bytes of log. Does **not** own the number of bytes
//! that the items of an operation take (a layer above), or the space itself
//! ([`space`](crate::space)).
//!
//! ```text
//! unit(bytes) = bytes                           the items with their operation headers
//!             + START + header + COMMIT         of a checkpoint that holds nothing else
//!             + records x record overhead       every record that the items can touch
//!             + record overhead                 a COMMIT alone in a record
//!             + 2 x roundoff                    padding of the record with COMMIT, and slack
//! ```

use xfs_format::BASIC_BLOCK_BYTES;
use xfs_format::log_item::TransactionHeader;
use xfs_format::log_record::OPERATION_BYTES;

/// Number of payload bytes that one record header can describe.
const BYTES_PER_HEADER: u32 = 32 << 10;

/// The least number of bytes of a region that go into its first record. A shorter region lies in
/// one record. So the start of a region, which determines how the next regions are read, is never
/// split. `xfs_logprint` keeps no bytes from one record to the next, and could not read a split
/// start.
const MIN_PIECE_BYTES: u32 = 128;

/// The largest number of bytes at the end of a record that stay empty, because no operation fits
/// into them.
const LOST_BYTES: u32 = OPERATION_BYTES + MIN_PIECE_BYTES;

/// Number of bytes of the operations that every checkpoint has: START, the header of the
/// transaction, COMMIT.
const CHECKPOINT_BYTES: u32 = 3 * OPERATION_BYTES + TransactionHeader::BYTES as u32;

/// Returns whether a region of `bytes` bytes may begin in a record with `room` bytes left: its
/// operation header and its first `MIN_PIECE_BYTES` bytes must fit.
pub(crate) const fn piece_fits(bytes: usize, room: usize) -> bool {
    let least = MIN_PIECE_BYTES as usize;
    let piece = if bytes < least { bytes } else { least };
    room >= OPERATION_BYTES as usize + piece
}

/// The sizes that determine the layout of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// The length of an in-core log buffer in bytes, which is the longest record, headers included.
    pub buffer_bytes: u32,
    /// The number of bytes to whose multiples records are padded: the log's stripe unit, or a
    /// sector.
    pub roundoff_bytes: u32,
}

impl RecordLayout {
    /// Returns the length of a record's headers in basic blocks.
    #[must_use]
    pub const fn header_blocks(&self) -> u32 {
        self.buffer_bytes.div_ceil(BYTES_PER_HEADER)
    }

    /// Returns the length of a record's headers in bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> u32 {
        self.header_blocks() * BASIC_BLOCK_BYTES
    }

    /// Returns the number of payload bytes that fit into a record. The payload ends where padding
    /// would be needed.
    #[must_use]
    pub const fn payload_bytes(&self) -> u32 {
        self.buffer_bytes / self.roundoff_bytes * self.roundoff_bytes - self.header_bytes()
    }

    /// Returns the least number of payload bytes that a record has for items. The header of an
    /// operation that continues from the record before, and the bytes lost at the end, are
    /// subtracted.
    #[must_use]
    pub const fn item_bytes(&self) -> u32 {
        self.payload_bytes() - OPERATION_BYTES - LOST_BYTES
    }

    /// Returns the number of bytes in a full record that are not bytes of items: headers, and bytes
    /// lost to alignment.
    #[must_use]
    pub const fn overhead_bytes(&self) -> u32 {
        self.header_bytes() + OPERATION_BYTES + LOST_BYTES
    }

    /// Returns the number of records that `bytes` bytes of items fill, including the last one,
    /// which they may fill in part.
    #[must_use]
    pub const fn records(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.item_bytes() as u64)
    }

    /// Returns the number of bytes of log to reserve for a transaction with `bytes` bytes of items.
    #[doc(alias = "xfs_log_calc_unit_res")]
    #[must_use]
    pub const fn unit_bytes(&self, bytes: u64) -> u64 {
        let overhead = self.overhead_bytes() as u64;
        bytes + self.records(bytes) * overhead + self.checkpoint_bytes()
    }

    /// Returns the number of bytes of log that a checkpoint takes in addition to its items and the
    /// records that they fill. These are its own operations, which may reach into one more record;
    /// padding; and the operation header with which another checkpoint continues in the next
    /// record, because this COMMIT has ended the record early.
    #[must_use]
    pub const fn checkpoint_bytes(&self) -> u64 {
        (CHECKPOINT_BYTES + 2 * self.overhead_bytes() + 2 * self.roundoff_bytes) as u64
    }
}

#[cfg(test)]
mod tests;
