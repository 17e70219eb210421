//! Checks that encoded log records can be decoded, at any position in the log.

use alloc::vec::Vec;

use uuid::Uuid;

use super::next_cycle;
use crate::addr::Lsn;
use crate::corruption::StructureAddress;
use crate::log_record::{
    BLOCK, ByteOrder, LOG_RECORD_MAGIC, LogOperation, LogRecordHeader, LogVersion, RecordChecksums,
    block_cycle, unmount_operation,
};

const LOG_BLOCKS: u32 = 1000;

fn header(start: u32, payload_blocks: u32) -> LogRecordHeader {
    LogRecordHeader {
        cycle: 7,
        length: payload_blocks * 512,
        lsn: Lsn::new(7, start),
        tail: Lsn::new(6, 990),
        crc: 0,
        previous_block: 3,
        operations: 9,
        byte_order: ByteOrder::LittleEndian,
        uuid: Uuid::from_bytes([7; 16]),
        size: 64 << 10,
        version: LogVersion::V2,
    }
}

fn check_round_trip(start: u32, payload_blocks: u32) {
    let header = header(start, payload_blocks);
    let payload: Vec<u8> = (0..header.length).map(|at| (at / 512 + at % 251) as u8).collect();
    let mut record = alloc::vec![0xee; 2 * BLOCK];
    record.extend_from_slice(&payload);
    let crc = header.encode(&mut record, LOG_BLOCKS);
    for (block, bytes) in (start..).zip(record.chunks_exact(BLOCK)) {
        assert_eq!(block_cycle(bytes), if block < LOG_BLOCKS { 7 } else { 8 }, "block {block}");
    }
    let place = StructureAddress::Log(start);
    let decoded = LogRecordHeader::decode(&record, place).unwrap();
    assert_eq!(decoded, LogRecordHeader { crc, ..header });
    decoded.verify_place(start, LOG_BLOCKS, header.uuid).unwrap();
    decoded.verify_checksum(&record, place, RecordChecksums::Required).unwrap();
    decoded.unpack(&mut record, place).unwrap();
    assert!(record[2 * BLOCK..] == payload);
}

#[test]
fn encoded_records_decode() {
    check_round_trip(0, 1);
    check_round_trip(400, 126);
}

#[test]
fn blocks_past_the_end_get_the_next_cycle() {
    check_round_trip(999, 126);
    check_round_trip(950, 100);
    check_round_trip(998, 1);
}

#[test]
fn record_end_is_the_start_of_the_next() {
    assert_eq!(header(10, 30).end(LOG_BLOCKS), Lsn::new(7, 42));
    assert_eq!(header(968, 30).end(LOG_BLOCKS), Lsn::new(8, 0));
    assert_eq!(header(990, 30).end(LOG_BLOCKS), Lsn::new(8, 22));
}

#[test]
fn next_cycle_skips_the_magic_number() {
    assert_eq!(next_cycle(7), 8);
    assert_eq!(next_cycle(LOG_RECORD_MAGIC - 1), LOG_RECORD_MAGIC + 1);
}

#[test]
fn unmount_operation_has_the_bytes_of_mkfs() {
    let (operation, payload) = unmount_operation();
    let bytes = operation.encode();
    assert_eq!(bytes, [0xb0, 0xc0, 0xd0, 0xd0, 0, 0, 0, 8, 0xaa, 0x20, 0, 0]);
    assert_eq!(LogOperation::decode(&bytes, StructureAddress::Log(0)).unwrap(), operation);
    assert_eq!(payload[..2], [0x6e, 0x55]);
}
