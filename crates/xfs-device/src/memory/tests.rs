//! Tests of the device in memory: chunk boundaries, sparseness, concurrency.

use std::io::ErrorKind;

use super::{CHUNK_BYTES, MemoryDevice};
use crate::device::{BlockDevice, Durability};

fn read(device: &MemoryDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; length];
    device.read_at(&mut bytes, offset).unwrap();
    let mut appended = vec![0xaa; 3];
    device.append_at(&mut appended, length, offset).unwrap();
    let (before, new) = appended.split_at(3);
    assert_eq!((before, new), ([0xaa; 3].as_slice(), bytes.as_slice()));
    bytes
}

#[test]
fn unwritten_bytes_read_as_zeros() {
    let device = MemoryDevice::new(1 << 40);
    assert_eq!(read(&device, (1 << 40) - 100, 100), [0; 100]);
    assert_eq!(read(&device, CHUNK_BYTES as u64 - 3, 7), [0; 7]);
}

#[test]
fn writes_cross_chunks_and_tables() {
    let device = MemoryDevice::new(1 << 30);
    let bytes: Vec<u8> = (0..3 * CHUNK_BYTES).map(|index| (index % 251) as u8).collect();
    for offset in [0, 100, (32 << 20) - 70_000, (1 << 30) - bytes.len() as u64] {
        device.write_at(&bytes, offset, Durability::Cached).unwrap();
        assert_eq!(read(&device, offset, bytes.len()), bytes);
    }
}

#[test]
fn discarded_bytes_read_as_zeros() {
    let device = MemoryDevice::from_bytes(&vec![7; 4 * CHUNK_BYTES]).unwrap();
    device.discard(10, 2 * CHUNK_BYTES as u64).unwrap();
    let bytes = read(&device, 0, 4 * CHUNK_BYTES);
    assert!(bytes[..10].iter().all(|byte| *byte == 7));
    assert!(bytes[10..10 + 2 * CHUNK_BYTES].iter().all(|byte| *byte == 0));
    assert!(bytes[10 + 2 * CHUNK_BYTES..].iter().all(|byte| *byte == 7));
}

#[test]
fn default_write_zeros_writes_bytes() {
    let device = MemoryDevice::from_bytes(&vec![7; 3 << 20]).unwrap();
    crate::device::write_zeros_plainly(&device, 10, (2 << 20) + 5).unwrap();
    let bytes = read(&device, 0, 3 << 20);
    let end = 10 + (2 << 20) + 5;
    assert!(bytes[..10].iter().chain(&bytes[end..]).all(|byte| *byte == 7));
    assert!(bytes[10..end].iter().all(|byte| *byte == 0));
}

#[test]
fn io_past_the_end_is_refused() {
    let device = MemoryDevice::new(1000);
    for (offset, length) in [(0, 1001), (1000, 1), (u64::MAX, 2)] {
        let error = device.read_at(&mut vec![0; length], offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let mut bytes = vec![5];
        let error = device.append_at(&mut bytes, length, offset).unwrap_err();
        assert_eq!((error.kind(), bytes), (ErrorKind::UnexpectedEof, vec![5]));
        let error = device.write_at(&vec![0; length], offset, Durability::Cached).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
    assert_eq!(device.discard(900, u64::MAX).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(MemoryDevice::new(0).read_at(&mut [], 0).ok(), Some(()));
}

#[test]
fn threads_write_disjoint_ranges() {
    let device = MemoryDevice::new(8 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let device = &device;
            scope.spawn(move || {
                for at in (0..8 << 20).step_by(1 << 20) {
                    let offset = at + u64::from(thread) * 1000;
                    device.write_at(&[thread + 1; 1000], offset, Durability::Cached).unwrap();
                }
            });
        }
    });
    for at in (0..8 << 20).step_by(1 << 20) {
        for thread in 0..4_u8 {
            let offset = at + u64::from(thread) * 1000;
            assert_eq!(read(&device, offset, 1000), [thread + 1; 1000]);
        }
    }
}
