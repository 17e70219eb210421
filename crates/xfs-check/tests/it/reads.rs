//! Tests of the reads of a check.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use xfs_check::{CheckOptions, check};
use xfs_device::{BlockDevice, Durability};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_testkit::{Image, delegate_device, golden};

/// A device that records its reads, in order.
struct ReadLog {
    inner: Image,
    reads: Mutex<Vec<(u64, u64)>>,
}

impl BlockDevice for ReadLog {
    delegate_device!(inner: is_read_only, sector_size, write_at, flush, discard);

    fn length_bytes(&self) -> u64 {
        BlockDevice::length_bytes(&self.inner)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.lock().unwrap().push((offset, buffer.len() as u64));
        self.inner.read_at(buffer, offset)
    }
}

#[test]
fn dump() {
    let image = golden();
    let geometry = image.geometry();
    let mut sector = vec![0; 4096];
    image.read_at(&mut sector, 0).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let device = ReadLog { inner: image, reads: Mutex::default() };
    let options = CheckOptions::default().threads(1);
    check(&device, &superblock, &options, &()).unwrap();
    let reads = device.reads.into_inner().unwrap();
    let mut counts: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for read in &reads {
        *counts.entry(*read).or_default() += 1;
    }
    println!("block {} ag {}", geometry.block_size, geometry.ag_blocks);
    for (offset, length) in &reads {
        let count = counts[&(*offset, *length)];
        println!("{offset} {length} {count}");
    }
}
