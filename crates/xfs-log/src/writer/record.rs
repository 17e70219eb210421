//! A record in memory: an in-core log buffer.
//!
//! ```text
//!  open ──► append ... append ──► close ──► fill ──► pad ──► written
//!           (lock of the writer)           (no lock)
//! ```
//!
//! A record may be closed, with its final length, before it has all its bytes. The thread that
//! closed it copies the missing bytes while other threads append to the next record.

use uuid::Uuid;
use xfs_format::log_record::{
    ByteOrder, CLIENT_TRANSACTION, LogOperation, LogRecordHeader, LogVersion, OPERATION_BYTES,
    OperationFlags,
};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn};

use super::stream::VectorStream;
use crate::unit::{RecordLayout, piece_fits};
use crate::vector::first_region;

/// The byte order in which items are formatted: that of this machine.
const NATIVE: ByteOrder =
    if cfg!(target_endian = "big") { ByteOrder::BigEndian } else { ByteOrder::LittleEndian };

/// Returns the header of an operation of a transaction. The length field of the header is still 0.
pub(super) const fn operation(transaction: u32, flags: OperationFlags) -> LogOperation {
    LogOperation { transaction, length: 0, client: CLIENT_TRANSACTION, flags }
}

/// A record to which operations are appended.
pub(super) struct OpenRecord {
    /// The LSN of the record.
    pub(super) lsn: Lsn,
    /// Room for the headers, and after it the payload appended so far.
    bytes: Vec<u8>,
    header_bytes: u32,
    /// The offset in bytes at which the payload must end.
    limit: usize,
    operations: u32,
    buffer_bytes: u32,
    /// The length of the record in bytes once it is closed, padding included; 0 before.
    length: usize,
}

impl OpenRecord {
    /// Opens an empty record at `lsn`. Reuses the memory of `bytes`.
    pub(super) fn open(mut bytes: Vec<u8>, layout: &RecordLayout, lsn: Lsn) -> Self {
        let header_bytes = layout.header_bytes();
        bytes.clear();
        bytes.reserve(layout.buffer_bytes as usize);
        bytes.resize(header_bytes as usize, 0);
        let limit = (header_bytes + layout.payload_bytes()) as usize;
        let buffer_bytes = layout.buffer_bytes;
        Self { lsn, bytes, header_bytes, limit, operations: 0, buffer_bytes, length: 0 }
    }

    /// Returns whether another operation of `bytes` bytes fits, or at least the shortest first part
    /// into which the operation may be split.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        piece_fits(bytes, self.room())
    }

    /// Returns the number of bytes that can still be appended.
    pub(super) const fn room(&self) -> usize {
        self.limit - self.bytes.len()
    }

    /// Appends as many bytes of a stream as fit: whole regions, and the first part of the region
    /// that does not fit. The bytes become operations of the transaction with the number
    /// `transaction`.
    pub(super) fn fill<'a>(
        &mut self,
        transaction: u32,
        mut stream: VectorStream<'a, impl Iterator<Item = &'a [u8]>>,
    ) {
        while let Some(vector) = stream.rest() {
            let whole = self.append_whole(transaction, vector);
            stream.skip(whole);
            if whole == vector.len() {
                continue;
            }
            let cut = stream.rest().and_then(first_region).map(|(region, _)| region);
            if let Some(region) = cut.filter(|region| self.has_room(region.len())) {
                self.append(operation(transaction, OperationFlags::empty()), region, false);
            }
            return;
        }
    }

    /// Appends the regions of a vector that fit whole. Returns the number of bytes of these
    /// regions, headers included.
    pub(super) fn append_whole(&mut self, transaction: u32, vector: &[u8]) -> usize {
        let room = self.room();
        let start = self.bytes.len();
        let mut fits = 0;
        while let Some((_, length)) = vector.get(fits..).and_then(first_region) {
            if fits + length > room {
                break;
            }
            fits += length;
            self.operations += 1;
        }
        let whole = vector.get(..fits).expect("regions end in their vector");
        self.bytes.extend_from_slice(whole);
        let mut rest = self.bytes.get_mut(start..).expect("the vector was appended at its end");
        while let Some((_, length)) = first_region(rest) {
            let number = rest.first_chunk_mut().expect("a region begins with a header");
            *number = transaction.to_be_bytes();
            rest = rest.get_mut(length..).expect("a region ends in its vector");
        }
        fits
    }

    /// Appends an operation with as many of its payload `bytes` as fit in the record. Returns the
    /// rest for the next record, or `None` if all fit. `continued` is `true` if `bytes` are the
    /// rest of a region that began in an earlier record.
    pub(super) fn append<'a>(
        &mut self,
        operation: LogOperation,
        bytes: &'a [u8],
        continued: bool,
    ) -> Option<&'a [u8]> {
        let room = self.room() - OPERATION_BYTES as usize;
        let (now, left) = bytes.split_at(room.min(bytes.len()));
        let mut flags = operation.flags;
        flags.set(OperationFlags::CONTINUE, !left.is_empty());
        flags.set(OperationFlags::WAS_CONTINUED, continued);
        flags.set(OperationFlags::END, continued && left.is_empty());
        let operation = LogOperation { length: now.len() as u32, flags, ..operation };
        self.bytes.extend_from_slice(&operation.encode());
        self.bytes.extend_from_slice(now);
        debug_assert_eq!(self.bytes.len() % 4, 0, "a whole number of words");
        self.operations += 1;
        (!left.is_empty()).then_some(left)
    }

    /// Fixes the length of the record, which closes it: the bytes that it has, and `more` bytes
    /// with which the caller must then [fill](Self::fill) it. Returns the LSN of the next record.
    pub(super) fn close(&mut self, more: usize, layout: &RecordLayout, log_blocks: u32) -> Lsn {
        let length = self.bytes.len() + more;
        self.length = length.next_multiple_of(layout.roundoff_bytes as usize);
        self.header(Uuid::nil(), self.lsn, 0).end(log_blocks)
    }

    /// Pads the closed record to its length.
    ///
    /// # Panics
    ///
    /// Panics if bytes are missing: the next record would not begin where this one ends.
    pub(super) fn pad(&mut self, layout: &RecordLayout) {
        let length = self.bytes.len().next_multiple_of(layout.roundoff_bytes as usize);
        assert_eq!(length, self.length, "the record at {} has not been filled", self.lsn);
        self.bytes.resize(length, 0);
    }

    /// Returns the header of the closed record.
    pub(super) fn header(&self, uuid: Uuid, tail: Lsn, previous_block: u32) -> LogRecordHeader {
        let length = self.length as u32 - self.header_bytes;
        debug_assert_eq!(length % BASIC_BLOCK_BYTES, 0, "a closed record");
        LogRecordHeader {
            cycle: self.lsn.cycle(),
            length,
            lsn: self.lsn,
            tail,
            crc: 0,
            previous_block,
            operations: self.operations,
            byte_order: NATIVE,
            uuid,
            size: self.buffer_bytes,
            version: LogVersion::V2,
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
