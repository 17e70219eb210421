//! Tests of headers, checksums and the packing of cycles, on a hand-made log record.

use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;

use super::{
    BLOCK, CRC_OFFSET, LOG_RECORD_MAGIC, LogOperation, LogRecordCheck, LogRecordHeader,
    MAX_RECORD_BYTES, OperationFlags, RecordChecksums, block_cycle, unmount_operation,
};
use crate::addr::Lsn;
use crate::corruption::{Check, Corruption, StructureAddress};
use crate::crc;

const UUID: Uuid = Uuid::from_bytes([7; 16]);
const PLACE: StructureAddress = StructureAddress::Log(40);

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// Returns a record of cycle 3 at block 40, with 70 blocks of payload from a buffer of 64 KiB and
/// two headers.
fn record() -> Vec<u8> {
    let mut record = vec![0; 72 * BLOCK];
    let words = [LOG_RECORD_MAGIC, 3, 2, 70 * 512, 3, 40, 2, 4000, 0, 30, 5];
    for (index, word) in words.into_iter().enumerate() {
        put(&mut record, 4 * index, word);
    }
    put(&mut record, 300, 1);
    record[304..320].copy_from_slice(UUID.as_bytes());
    put(&mut record, 320, 64 << 10);
    put(&mut record, BLOCK, 3);
    for index in 0..70 {
        let kept = if index < 64 { 44 + 4 * index } else { BLOCK + 4 + 4 * (index - 64) };
        put(&mut record, kept, 0xabcd_0000 + index as u32);
        put(&mut record, (2 + index) * BLOCK, 3);
    }
    record
}

/// Stores the checksum that a writer computes if its record header has `header_bytes` bytes without
/// padding.
fn seal(record: &mut [u8], header_bytes: usize) {
    let mut covered = record[..header_bytes].to_vec();
    covered.extend_from_slice(&record[BLOCK..BLOCK + 260]);
    covered.extend_from_slice(&record[2 * BLOCK..]);
    crc::seal(&mut covered, CRC_OFFSET);
    record[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&covered[CRC_OFFSET..CRC_OFFSET + 4]);
}

fn decode(record: &[u8]) -> Result<LogRecordHeader, Corruption> {
    LogRecordHeader::decode(record, PLACE)
}

#[test]
fn header_decodes() {
    let header = decode(&record()).unwrap();
    assert_eq!((header.cycle, header.lsn, header.tail), (3, Lsn::new(3, 40), Lsn::new(2, 4000)));
    assert_eq!((header.previous_block, header.operations), (30, 5));
    assert_eq!(
        (header.header_blocks(), header.payload_blocks(), header.total_blocks()),
        (2, 70, 72)
    );
    header.verify_place(40, 8000, UUID).unwrap();
}

#[test]
fn checksum_of_either_header_length_is_accepted() {
    for header_bytes in [328, 324] {
        let mut record = record();
        put(&mut record, 324, 0x1234_5678);
        seal(&mut record, header_bytes);
        decode(&record)
            .unwrap()
            .verify_checksum(&record, PLACE, RecordChecksums::Required)
            .unwrap();
        for byte in [40, BLOCK + 259, 2 * BLOCK, 72 * BLOCK - 1] {
            let mut damaged = record.clone();
            damaged[byte] ^= 1;
            let header = decode(&damaged).unwrap();
            let error =
                header.verify_checksum(&damaged, PLACE, RecordChecksums::Optional).unwrap_err();
            assert!(matches!(error.check(), Check::Checksum { .. }));
        }
    }
}

#[test]
fn optional_checksum_may_be_absent_and_short_record_fails() {
    let mut bytes = record();
    let header = decode(&bytes).unwrap();
    header.verify_checksum(&[], PLACE, RecordChecksums::Optional).unwrap();
    seal(&mut bytes, 328);
    let header = decode(&bytes).unwrap();
    for length in [0, 327, 600, 71 * BLOCK] {
        let error =
            header.verify_checksum(&bytes[..length], PLACE, RecordChecksums::Optional).unwrap_err();
        assert!(matches!(error.check(), Check::Truncated { .. }));
        let mut short = bytes[..length].to_vec();
        assert!(header.unpack(&mut short, PLACE).is_err());
    }
}

#[test]
fn required_checksum_may_be_absent_in_an_unmount_record_only() {
    let verify = |bytes: &[u8]| {
        decode(bytes).unwrap().verify_checksum(bytes, PLACE, RecordChecksums::Required)
    };
    let no_checksum = Check::from(LogRecordCheck::NoChecksum);
    let mut bytes = record();
    assert_eq!(*verify(&bytes).unwrap_err().check(), no_checksum);
    let (unmount, _) = unmount_operation();
    bytes[2 * BLOCK..2 * BLOCK + 12].copy_from_slice(&unmount.encode());
    // An unmount operation among others does not make an unmount record.
    assert_eq!(*verify(&bytes).unwrap_err().check(), no_checksum);
    put(&mut bytes, 40, 1);
    verify(&bytes).unwrap();
    bytes[2 * BLOCK + 9] = 0;
    assert_eq!(*verify(&bytes).unwrap_err().check(), no_checksum);
}

#[test]
fn unpack_restores_the_words_under_the_cycles() {
    let mut bytes = record();
    decode(&bytes).unwrap().unpack(&mut bytes, PLACE).unwrap();
    for index in 0..70 {
        let word = &bytes[(2 + index) * BLOCK..][..4];
        assert_eq!(word, (0xabcd_0000 + index as u32).to_be_bytes());
    }
}

#[test]
fn sizes_are_bounded() {
    let check = |at: usize, word: u32| {
        let mut bytes = record();
        put(&mut bytes, at, word);
        decode(&bytes).unwrap_err().check().clone()
    };
    assert_eq!(check(8, 3), LogRecordCheck::Version { version: 3 }.into());
    // Records of version 1 have one header.
    assert_eq!(check(8, 1), LogRecordCheck::Size { size: 64 << 10 }.into());
    for size in [MAX_RECORD_BYTES + 512, u32::MAX, 100] {
        assert_eq!(check(320, size), LogRecordCheck::Size { size }.into());
    }
    for length in [0, (64 << 10) + 1, u32::MAX] {
        let expected = LogRecordCheck::Length { length, size: 64 << 10 };
        assert_eq!(check(12, length), expected.into());
    }
    assert!(matches!(check(0, 0), Check::Magic { .. }));
    let short = decode(&record()[..300]).unwrap_err();
    assert!(matches!(short.check(), Check::Truncated { needed: 328, .. }));
    // An unmount record may be longer than its buffer size.
    let mut bytes = record();
    put(&mut bytes, 40, 1);
    put(&mut bytes, 12, MAX_RECORD_BYTES);
    let header = decode(&bytes).unwrap();
    let mut long = vec![0; header.total_blocks() as usize * BLOCK];
    header.unpack(&mut long, PLACE).unwrap();
}

#[test]
fn positions_and_tails_must_be_in_the_log() {
    let header = decode(&record()).unwrap();
    let check = |header: LogRecordHeader, block, log_blocks, uuid| {
        header.verify_place(block, log_blocks, uuid).unwrap_err().check().clone()
    };
    let misplaced = LogRecordCheck::Misplaced { lsn: header.lsn };
    assert_eq!(check(header, 41, 8000, UUID), misplaced.into());
    assert!(matches!(check(header, 40, 8000, Uuid::max()), Check::ForeignUuid { .. }));
    for tail in [Lsn(0), Lsn::NULL, Lsn::new(3, 41), Lsn::new(1, 7), Lsn::new(2, 8000)] {
        let header = LogRecordHeader { tail, ..header };
        let expected = LogRecordCheck::Tail { tail, lsn: header.lsn };
        assert_eq!(check(header, 40, 8000, UUID), expected.into());
    }
    let lsn = Lsn::new(u32::MAX, 40);
    let newest = LogRecordHeader { cycle: u32::MAX, lsn, tail: lsn, ..header };
    newest.verify_place(40, 8000, UUID).unwrap();
    let header = LogRecordHeader { tail: header.lsn, ..header };
    let expected = LogRecordCheck::LongerThanLog { log_blocks: 71 };
    assert_eq!(check(header, 40, 71, UUID), expected.into());
    header.verify_place(40, 72, UUID).unwrap();
}

#[test]
fn block_cycle_reads_headers_and_other_blocks() {
    let record = record();
    assert_eq!(block_cycle(&record), 3);
    assert_eq!(block_cycle(&record[2 * BLOCK..]), 3);
    assert_eq!(block_cycle(&[0; BLOCK]), 0);
    assert!(LogRecordHeader::is_here(&record));
    assert!(!LogRecordHeader::is_here(&record[BLOCK..]));
}

#[test]
fn operations_decode() {
    let bytes = [0xb0, 0xc0, 0xd0, 0xd0, 0, 0, 0, 8, 0xaa, 0x20, 0, 0];
    let operation = LogOperation::decode(&bytes, PLACE).unwrap();
    assert_eq!((operation.transaction, operation.length), (0xb0c0_d0d0, 8));
    assert_eq!(operation.flags, OperationFlags::UNMOUNT);
    assert!(LogOperation::decode(&bytes[..11], PLACE).is_err());
    let error = LogOperation::decode(&[0; 12], PLACE).unwrap_err();
    assert_eq!(error.check(), &LogRecordCheck::Client { client: 0 }.into());
}
