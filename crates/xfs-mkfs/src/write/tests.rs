//! Checks what the order of writes guarantees after a crash. The tests in `tests/oracle` compare
//! the bytes with those of mkfs.xfs.

use std::io;
use std::sync::Mutex;

use xfs_device::{BlockDevice, Durability, MemoryDevice};
use xfs_format::realtime::RealtimeSuperblock;
use xfs_format::{BlockKind, DiskAddr, StructureAddress, Superblock, VerifyContext};

use super::{Devices, Discard, write};
use crate::plan::tests::{plan, plan_with_realtime};

const GIB: u64 = 1 << 30;
const SECTOR: usize = 512;

fn superblock(device: &dyn BlockDevice) -> Option<Superblock> {
    let mut sector = [0; SECTOR];
    device.read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).ok()
}

/// A device that fails every write, flush and discard from the n-th such request on.
struct FailingAfter {
    device: MemoryDevice,
    left: Mutex<usize>,
}

impl FailingAfter {
    fn count(&self) -> io::Result<()> {
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        Ok(())
    }
}

impl BlockDevice for FailingAfter {
    fn length_bytes(&self) -> u64 {
        self.device.length_bytes()
    }
    fn sector_size(&self) -> u32 {
        self.device.sector_size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        self.count()?;
        self.device.write_at(bytes, offset, durability)
    }
    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.count()?;
        self.device.write_zeros(offset, length)
    }
    fn flush(&self) -> io::Result<()> {
        self.count()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.count()?;
        self.device.discard(offset, length)
    }
}

#[test]
fn volume_that_can_be_opened_is_complete() {
    let old = plan(GIB, "-L old").unwrap();
    let new = plan(GIB, "-L new").unwrap();
    for requests in 0.. {
        let device = FailingAfter { device: MemoryDevice::new(GIB), left: Mutex::new(usize::MAX) };
        write(&old, Devices { data: &device, log: None, realtime: None }, Discard::No).unwrap();
        *device.left.lock().unwrap() = requests;
        let outcome =
            write(&new, Devices { data: &device, log: None, realtime: None }, Discard::No);
        let found = superblock(&device).filter(|found| !found.in_progress);
        match (outcome, found) {
            (Ok(()), Some(found)) => return assert_eq!(&found, new.superblock()),
            (Ok(()), None) => panic!("the volume was written (I1)"),
            // The last request is a flush after everything.
            (Err(_), Some(found)) if found.label == new.superblock().label => {
                assert_eq!(&found, new.superblock());
            }
            // The old volume is there only before the first request.
            (Err(_), Some(_)) => assert_eq!(requests, 0),
            (Err(_), None) => {}
        }
    }
}

#[test]
fn every_written_header_passes_its_checks() {
    let plan = plan(GIB, "-b size=2k -d agcount=7").unwrap();
    let device = MemoryDevice::new(GIB);
    write(&plan, Devices { data: &device, log: None, realtime: None }, Discard::Yes).unwrap();
    let geometry = &plan.superblock().geometry;
    let context = VerifyContext { geometry, log_head: None };
    let kinds = [BlockKind::Superblock, BlockKind::Agf, BlockKind::Agi, BlockKind::Agfl];
    for number in geometry.groups() {
        for (index, kind) in (0..).zip(kinds) {
            let at = geometry.header_disk_addr(number, index);
            let mut sector = [0; SECTOR];
            device.read_at(&mut sector, at.0 * 512).unwrap();
            kind.verify(&sector, at, &context).unwrap();
        }
    }
}

#[test]
fn same_plan_gives_the_same_bytes_over_any_old_contents() {
    let plan = plan(GIB, "").unwrap();
    let other = crate::plan::tests::plan(GIB, "-d agcount=3 -b size=1k").unwrap();
    let fresh = MemoryDevice::new(GIB);
    let used = MemoryDevice::new(GIB);
    write(&other, Devices { data: &used, log: None, realtime: None }, Discard::No).unwrap();
    for device in [&fresh, &used] {
        write(&plan, Devices { data: device, log: None, realtime: None }, Discard::Yes).unwrap();
    }
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for offset in (0..GIB).step_by(1 << 20) {
        fresh.read_at(&mut ours, offset).unwrap();
        used.read_at(&mut theirs, offset).unwrap();
        assert!(ours == theirs, "at {offset}: the plan decides every byte (I2)");
    }
}

#[test]
fn volume_of_100_tib_needs_few_writes() {
    let plan = plan(100 << 40, "").unwrap();
    let device = MemoryDevice::new(100 << 40);
    let counting = FailingAfter { device, left: Mutex::new(200) };
    // 100 groups, the log, first inodes, superblock, erasing: far fewer writes than gigabytes.
    write(&plan, Devices { data: &counting, log: None, realtime: None }, Discard::No).unwrap();
    assert!(superblock(&counting).is_some());
}

#[test]
fn device_shorter_than_the_plan_is_refused() {
    let plan = plan(GIB, "").unwrap();
    let short = MemoryDevice::new(GIB - 512);
    let refused = write(&plan, Devices { data: &short, log: None, realtime: None }, Discard::Yes)
        .unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert!(superblock(&short).is_none());
}

#[test]
fn realtime_volume_has_the_planned_superblocks() {
    let bytes = 300 << 20;
    for text in [
        "-r extsize=64k",
        "-m metadir=1,uquota",
        "-m metadir=1 -r rgcount=15 -L some",
        "-r zoned=1,rgsize=32m",
    ] {
        let plan = plan_with_realtime(GIB, Some(bytes), text).unwrap();
        let (data, realtime) = (MemoryDevice::new(GIB), MemoryDevice::new(bytes));
        let devices = Devices { data: &data, log: None, realtime: Some(&realtime) };
        write(&plan, devices, Discard::No).unwrap();
        assert_eq!(superblock(&data).as_ref(), Some(plan.superblock()), "{text}");
        let mut block = vec![0; 4096];
        realtime.read_at(&mut block, 0).unwrap();
        let found = RealtimeSuperblock::decode(&block);
        assert_eq!(found.is_ok(), plan.superblock().has_realtime_superblock(), "{text}");
        assert!(found.is_err() || found.unwrap().verify_against(plan.superblock()).is_ok());
    }
}

#[test]
fn missing_or_short_realtime_device_is_refused() {
    let plan = plan_with_realtime(GIB, Some(GIB), "").unwrap();
    let (data, short) = (MemoryDevice::new(GIB), MemoryDevice::new(GIB - 512));
    for realtime in [None, Some(&short as &dyn BlockDevice)] {
        let devices = Devices { data: &data, log: None, realtime };
        let refused = write(&plan, devices, Discard::No).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(superblock(&data).is_none());
    }
}
