//! Tests that formats are recognised by their magic numbers.

use super::{Contents, SIGNATURES, detect, recognise};
use crate::memory::MemoryDevice;

#[test]
fn every_signature_is_recognised_at_its_offset() {
    for (offset, magic, contents) in SIGNATURES {
        let mut bytes = vec![0; offset + magic.len()];
        bytes[*offset..].copy_from_slice(magic);
        assert_eq!(recognise(&bytes), *contents);
        assert_ne!(recognise(&bytes[..bytes.len() - 1]), *contents);
    }
}

#[test]
fn short_device_or_far_start_gives_no_error() {
    for length in [0, 1, 511, 70_000] {
        let device = MemoryDevice::new(length);
        for start in [0, 1, length, u64::MAX] {
            let empty = start >= length;
            let expected = if empty { Contents::Empty } else { Contents::Zeros };
            assert_eq!(detect(&device, start).unwrap(), expected);
        }
    }
    let device = MemoryDevice::from_bytes(b"something else").unwrap();
    assert_eq!(detect(&device, 0).unwrap(), Contents::Unknown);
}
