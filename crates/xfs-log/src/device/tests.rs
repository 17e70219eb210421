//! Tests of reading around the end of the log, and of logs that do not fit their device.

use std::sync::Arc;
use xfs_format::log_record::{LogVersion, RecordChecksums};

use xfs_buffer::Error;
use xfs_device::MemoryDevice;
use xfs_format::log_record::LogRecordCheck;
use xfs_format::{Check, DiskAddr};

use super::{LogDevice, LogGeometry};
use crate::testing::{LogImage, UUID};

fn geometry(start: u64, length_blocks: u32) -> LogGeometry {
    LogGeometry {
        start: DiskAddr(start),
        length_blocks,
        sector_bytes: 512,
        stripe_unit_bytes: 1,
        uuid: UUID,
        version: LogVersion::V2,
        checksums: RecordChecksums::Required,
    }
}

#[test]
fn log_that_does_not_fit_its_device_is_refused() {
    let device = || Arc::new(MemoryDevice::new(1024 * 512));
    assert!(LogDevice::with_geometry(device(), geometry(24, 1000)).is_ok());
    for (start, length) in [(25, 1000), (0, u32::MAX), (u64::MAX, 1), (1 << 55, 1000), (0, 0)] {
        match LogDevice::with_geometry(device(), geometry(start, length)) {
            Err(Error::Corrupt(corruption)) => assert!(matches!(
                corruption.check(),
                Check::LogRecord(LogRecordCheck::PastDevice { .. })
            )),
            _ => panic!("a log of {length} blocks at {start} was accepted"),
        }
    }
}

#[test]
fn read_past_the_end_continues_at_the_start_of_the_log() {
    let mut image = LogImage::new(1024);
    image.block_mut(1023)[0] = 1;
    image.block_mut(0)[0] = 2;
    let log = image.device();
    let bytes = log.read_blocks(1023, 2).unwrap();
    assert_eq!((bytes[0], bytes[512]), (1, 2));
    assert_eq!(log.read_blocks(5, u32::MAX).unwrap().len(), 1024 * 512);
}

#[test]
fn distance_and_advance_wrap_around_the_end() {
    let log = LogImage::new(1024).device();
    assert_eq!(log.advance(1000, 24), 0);
    assert_eq!(log.advance(1000, u32::MAX), (1000 + u32::MAX % 1024) % 1024);
    assert_eq!((log.distance(1000, 1000), log.distance(1000, 8)), (0, 32));
}
