//! Encoding of log records and of operation headers.

use core::mem::{offset_of, size_of};

use zerocopy::IntoBytes;
use zerocopy::big_endian::{U32, U64};

use super::{
    BLOCK, ByteOrder, CLIENT_LOG, CRC_OFFSET, CYCLE_WORDS, LOG_RECORD_MAGIC, LogExtendedHeaderDisk,
    LogOperation, LogOperationDisk, LogRecordHeader, LogRecordHeaderDisk, OperationFlags,
};
use crate::addr::Lsn;
use crate::crc;

/// Length of an operation's header in bytes.
pub const OPERATION_BYTES: u32 = size_of::<LogOperationDisk>() as u32;

/// The transaction identifier of an unmount record, as mkfs.xfs and the kernel write it.
const UNMOUNT_TRANSACTION: u32 = 0xb0c0_d0d0;

/// The payload of an unmount record: the number that spells "Un", little-endian.
#[doc(alias = "XLOG_UNMOUNT_TYPE")]
const UNMOUNT_PAYLOAD: [u8; 8] = [0x6e, 0x55, 0, 0, 0, 0, 0, 0];

/// Returns the cycle after `cycle`. Skips the cycle that equals the magic number of records. A
/// block that starts with this number would look like the start of a record.
#[must_use]
pub const fn next_cycle(cycle: u32) -> u32 {
    let next = cycle.wrapping_add(1);
    if next == LOG_RECORD_MAGIC { next.wrapping_add(1) } else { next }
}

/// Returns the header of an unmount record's only operation, and the bytes of that operation.
#[must_use]
pub fn unmount_operation() -> (LogOperation, [u8; 8]) {
    let operation = LogOperation {
        transaction: UNMOUNT_TRANSACTION,
        length: size_of_val(&UNMOUNT_PAYLOAD) as u32,
        client: CLIENT_LOG,
        flags: OperationFlags::UNMOUNT,
    };
    (operation, UNMOUNT_PAYLOAD)
}

impl LogOperation {
    /// Encodes the header of an operation.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; OPERATION_BYTES as usize] {
        let disk = LogOperationDisk {
            transaction: U32::new(self.transaction),
            length: U32::new(self.length),
            client: self.client,
            flags: self.flags.bits(),
            reserved: [0; 2],
        };
        zerocopy::transmute!(disk)
    }
}

impl LogRecordHeader {
    /// Completes `record` in place: writes the headers, and the cycle at the start of each block.
    /// Returns the checksum of the record.
    ///
    /// `record` has space for the headers, with arbitrary contents, and the payload after it.
    /// `log_blocks` is the length of the log in basic blocks: blocks past its end wrap to its start
    /// and get the next cycle. The checksum in `self` is ignored.
    ///
    /// # Panics
    ///
    /// Panics if `record` does not have the length of headers and payload: a mistake of the caller.
    #[doc(alias = "xlog_pack_data")]
    pub fn encode(&self, record: &mut [u8], log_blocks: u32) -> u32 {
        assert_eq!(
            record.len(),
            self.total_blocks() as usize * BLOCK,
            "the length of headers and payload"
        );
        let header_bytes = self.header_blocks() as usize * BLOCK;
        let (headers, payload) = record.split_at_mut(header_bytes);
        headers.fill(0);
        self.write_header(headers);
        let cycles = self.block_cycles(log_blocks);
        for (block, cycle) in headers.chunks_exact_mut(BLOCK).zip(cycles).skip(1) {
            write_word(block, 0, cycle);
        }
        let cycles = self.block_cycles(log_blocks).skip(self.header_blocks() as usize);
        for ((index, block), cycle) in payload.chunks_exact_mut(BLOCK).enumerate().zip(cycles) {
            let (header, word) = (index / CYCLE_WORDS, index % CYCLE_WORDS);
            let kept = *block.first_chunk().expect("a block is longer than a word");
            let words = headers.chunks_exact_mut(BLOCK).nth(header);
            write_word(
                words.expect("the headers have a word for each block"),
                cycle_data_offset(header) + 4 * word,
                u32::from_be_bytes(kept),
            );
            write_word(block, 0, cycle);
        }
        self.seal(record)
    }

    fn write_header(&self, headers: &mut [u8]) {
        let disk = LogRecordHeaderDisk {
            magic: U32::new(LOG_RECORD_MAGIC),
            cycle: U32::new(self.cycle),
            version: U32::new(self.version.encode()),
            length: U32::new(self.length),
            lsn: U64::new(self.lsn.0),
            tail: U64::new(self.tail.0),
            crc: [0; 4],
            previous_block: U32::new(self.previous_block),
            operations: U32::new(self.operations),
            cycle_data: [U32::ZERO; CYCLE_WORDS],
            byte_order: U32::new(match self.byte_order {
                ByteOrder::LittleEndian => 1,
                ByteOrder::BigEndian => 2,
                ByteOrder::Other(format) => format,
            }),
            uuid: *self.uuid.as_bytes(),
            size: U32::new(self.size),
            pad: U32::ZERO,
        };
        let written = disk.write_to_prefix(headers);
        assert!(written.is_ok(), "a header fits a basic block");
    }

    /// Returns the cycle of each block of the record.
    fn block_cycles(&self, log_blocks: u32) -> impl Iterator<Item = u32> + use<> {
        let (cycle, start) = (self.cycle, self.lsn.block());
        (start..).map(move |block| if block < log_blocks { cycle } else { next_cycle(cycle) })
    }

    fn seal(&self, record: &mut [u8]) -> u32 {
        let sum = self.compute_checksum(record, size_of::<LogRecordHeaderDisk>());
        let Some(sum) = sum else { unreachable!("the length of the record was checked") };
        let Some(field) = record.get_mut(CRC_OFFSET..).and_then(<[u8]>::first_chunk_mut) else {
            unreachable!("the checksum lies in the header");
        };
        crc::store(field, sum);
        sum
    }

    /// Returns the position in the log after this record, as a block and its cycle.
    #[must_use]
    pub const fn end(&self, log_blocks: u32) -> Lsn {
        let end = self.lsn.block() + self.total_blocks();
        if end < log_blocks {
            Lsn::new(self.cycle, end)
        } else {
            Lsn::new(next_cycle(self.cycle), end - log_blocks)
        }
    }
}

fn write_word(block: &mut [u8], offset: usize, word: u32) {
    let field = block.get_mut(offset..).and_then(<[u8]>::first_chunk_mut::<4>);
    *field.expect("the word lies in its block") = word.to_be_bytes();
}

/// Returns the offset of the cycle data inside one header of a record. Header 0 is the record
/// header, and the others are extended headers.
pub(super) const fn cycle_data_offset(header: usize) -> usize {
    if header == 0 {
        offset_of!(LogRecordHeaderDisk, cycle_data)
    } else {
        offset_of!(LogExtendedHeaderDisk, cycle_data)
    }
}

#[cfg(test)]
mod tests;
