//! The single record of a new log: the record of an unmount.
//!
//! ```text
//! record header | extended headers | unmount operation, padded to the log's stripe unit
//! ```

use xfs_format::log_record::{
    BYTES_PER_HEADER, CLIENT_LOG, LOG_RECORD_MAGIC, LogExtendedHeaderDisk, LogOperationDisk,
    LogRecordHeaderDisk, LogVersion, OperationFlags,
};
use xfs_format::{BASIC_BLOCK_BYTES, Lsn};
use zerocopy::{FromZeros, IntoBytes};

use crate::plan::Plan;

const BLOCK: usize = BASIC_BLOCK_BYTES as usize;
/// The number of the log's first cycle.
const CYCLE: u32 = 1;
/// The ID of the unmount operation's transaction; mkfs.xfs uses the same ID.
const TRANSACTION: u32 = 0xb0c0_d0d0;
/// The number in the record header that says that the payload of the record has little-endian byte
/// order.
const LITTLE_ENDIAN: u32 = 1;
/// The payload of the unmount operation: a magic number in little-endian byte order.
const UNMOUNT: [u8; 8] = [b'n', b'U', 0, 0, 0, 0, 0, 0];

/// Encodes the whole log record. It starts at the first byte of the log.
pub(super) fn encode(plan: &Plan) -> Vec<u8> {
    let unit = match plan.superblock.log_stripe_unit_bytes {
        // The record fills whole sectors nevertheless.
        0 | 1 => u32::from(plan.superblock.log_sector_size),
        unit => unit,
    };
    let size = unit.max(BYTES_PER_HEADER);
    let headers = size.div_ceil(BYTES_PER_HEADER);
    let bytes = unit.max(2 * BASIC_BLOCK_BYTES);
    let start = Lsn::new(CYCLE, 0);
    let mut header = LogRecordHeaderDisk {
        magic: LOG_RECORD_MAGIC.into(),
        cycle: CYCLE.into(),
        version: LogVersion::V2.encode().into(),
        length: (bytes - headers * BASIC_BLOCK_BYTES).into(),
        lsn: start.0.into(),
        tail: start.0.into(),
        previous_block: u32::MAX.into(),
        operations: 1.into(),
        byte_order: LITTLE_ENDIAN.into(),
        uuid: plan.superblock.uuid.into_bytes(),
        size: size.into(),
        // A checksum of 0 means none.
        ..LogRecordHeaderDisk::new_zeroed()
    };
    // The cycle replaces the first word of each block, which the header keeps.
    let [first, ..] = &mut header.cycle_data;
    *first = TRANSACTION.into();
    let operation = LogOperationDisk {
        transaction: CYCLE.into(),
        // The length of the payload fits in a byte.
        length: (UNMOUNT.len() as u32).into(),
        client: CLIENT_LOG,
        flags: OperationFlags::UNMOUNT.bits(),
        reserved: [0; 2],
    };
    let extended = LogExtendedHeaderDisk { cycle: CYCLE.into(), ..FromZeros::new_zeroed() };
    let mut record = Vec::with_capacity(bytes as usize);
    append(&mut record, header.as_bytes());
    for _ in 1..headers {
        append(&mut record, extended.as_bytes());
    }
    append(&mut record, &[operation.as_bytes(), &UNMOUNT].concat());
    while record.len() < bytes as usize {
        append(&mut record, &CYCLE.to_be_bytes());
    }
    record
}

/// Appends bytes, and zeros up to a multiple of 512 bytes.
fn append(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend(bytes);
    record.resize(record.len().next_multiple_of(BLOCK), 0);
}
