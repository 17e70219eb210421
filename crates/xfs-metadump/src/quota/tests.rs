//! Tests of cleaning a block of quota records.

use super::{RECORD_BYTES, UUID_OFFSET, keep_records};

const UUID: [u8; 16] = *b"uuid of a volume";

/// Returns a block of 1 KiB with seven quota records. The rest of the block is zeros.
fn block() -> Vec<u8> {
    let mut record = [0x55; RECORD_BYTES];
    record[..4].copy_from_slice(b"DQ\x01\x01");
    record[UUID_OFFSET..].copy_from_slice(&UUID);
    let mut block = record.repeat(7);
    block.resize(1024, 0);
    block
}

#[test]
fn block_of_records_stays_as_it_is() {
    let mut kept = block();
    assert!(keep_records(&mut kept, &UUID));
    assert_eq!(kept, block());
    assert!(keep_records(&mut [0; 1024], &UUID));
}

#[test]
fn bytes_outside_of_records_become_zeros() {
    for (at, lost) in [(136, 136..272), (1000, 952..1024), (8 + 120, 0..136), (2, 0..136)] {
        let mut damaged = block();
        damaged[at] ^= 1;
        assert!(!keep_records(&mut damaged, &UUID));
        let mut expected = block();
        expected[lost].fill(0);
        assert_eq!(damaged, expected, "byte {at}");
    }
    let mut contents = vec![b'a'; 1024];
    assert!(!keep_records(&mut contents, &UUID));
    assert_eq!(contents, [0; 1024]);
}
