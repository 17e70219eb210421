//! Tests of the overlay. Reads must return written bytes, and only a write-back may change the
//! device below.

use std::io;
use std::sync::{Arc, Mutex};

use super::OverlayDevice;
use crate::{BlockDevice, Durability, MemoryDevice};

const LENGTH: u64 = 64 << 10;

fn below() -> Arc<MemoryDevice> {
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    Arc::new(MemoryDevice::from_bytes(&bytes).unwrap())
}

fn read(device: &dyn BlockDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, offset).unwrap();
    bytes
}

#[test]
fn any_range_reads_as_written() {
    let ranges = [(0, 512), (512, 1), (1000, 30), (1023, 2), (5000, 5000), (LENGTH - 7, 7)];
    for (offset, length) in ranges {
        let device = below();
        let before = read(&*device, 0, LENGTH as usize);
        let overlay = OverlayDevice::new(device.clone(), LENGTH);
        overlay.write_at(&vec![255; length], offset, Durability::Cached).unwrap();
        let mut expected = before.clone();
        expected[offset as usize..][..length].fill(255);
        for (start, count) in [(0, LENGTH as usize), (offset, length), (offset / 2, 100)] {
            let found = read(&overlay, start, count);
            assert!(found == expected[start as usize..][..count], "{offset} {length} {start}");
        }
        assert_eq!(read(&*device, 0, LENGTH as usize), before);
        overlay.write_back(&[]).unwrap();
        assert_eq!(read(&*device, 0, LENGTH as usize), expected);
    }
}

#[test]
fn write_past_the_memory_bound_is_refused() {
    let overlay = OverlayDevice::new(below(), 1024);
    overlay.write_at(&[1; 1024], 0, Durability::Cached).unwrap();
    overlay.write_at(&[2; 512], 512, Durability::Cached).unwrap();
    assert_eq!(overlay.written_bytes(), 1024);
    let error = overlay.write_at(&[1], 1024, Durability::Cached).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn io_past_the_end_is_refused() {
    let overlay = OverlayDevice::new(below(), LENGTH);
    for (offset, length) in [(LENGTH, 1), (LENGTH - 1, 2), (u64::MAX, 1)] {
        let error = overlay.write_at(&vec![0; length], offset, Durability::Cached).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
    assert!(!overlay.is_read_only());
}

#[test]
fn whole_ranges_are_written_by_one_write() {
    let device = Arc::new(Counting { inner: below(), writes: Mutex::default() });
    let overlay = OverlayDevice::new(device.clone(), LENGTH);
    for sector in [0, 1, 8, 10, 15, 16, 20] {
        overlay.write_at(&[sector as u8; 512], sector * 512, Durability::Cached).unwrap();
    }
    let before = read(&overlay, 0, LENGTH as usize);
    overlay.write_back(&[4096..8192, 10240..11264]).unwrap();
    assert_eq!(read(&*device, 0, LENGTH as usize), before);
    let writes = device.writes.lock().unwrap().clone();
    assert_eq!(writes, [(4096, 4096), (10240, 1024), (0, 1024), (8192, 512)]);
}

/// A device that records the offset and the length of every write.
struct Counting {
    inner: Arc<MemoryDevice>,
    writes: Mutex<Vec<(u64, usize)>>,
}

impl BlockDevice for Counting {
    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        self.writes.lock().unwrap().push((offset, bytes.len()));
        self.inner.write_at(bytes, offset, durability)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }
}
