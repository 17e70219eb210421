//! Tests of valid and malicious partition tables, which the tests build byte by byte.
#![allow(clippy::little_endian_bytes, reason = "partition tables are little-endian")]

use crate::device::{BlockDevice, Durability};
use crate::memory::MemoryDevice;
use crate::signature::Contents;

use super::{MAX_PARTITIONS, PartitionError, TableKind, partitions};

const DISK_BYTES: u64 = 8 << 20;
const LINUX: u8 = 0x83;

/// A GPT that a test builds: its entries and its deliberate errors.
pub(crate) struct Gpt {
    pub(crate) sector_size: u64,
    pub(crate) entry_bytes: u32,
    pub(crate) entry_count: u32,
    /// The entries. Each has its index in the table, first sector and last sector.
    pub(crate) entries: Vec<(usize, u64, u64)>,
}

impl Gpt {
    pub(crate) fn new(sector_size: u64, entries: &[(usize, u64, u64)]) -> Self {
        Self { sector_size, entry_bytes: 128, entry_count: 128, entries: entries.to_vec() }
    }

    fn table(&self) -> Vec<u8> {
        let size = self.entry_bytes as usize;
        let mut table = vec![0; size * 128];
        for (number, first, last) in &self.entries {
            let entry = &mut table[(number - 1) * size..][..size];
            entry[..16].fill(0x11);
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&last.to_le_bytes());
            entry[56] = b'n';
        }
        table
    }

    fn header(&self, own_sector: u64, table_sector: u64) -> Vec<u8> {
        let mut header = vec![0; self.sector_size as usize];
        header[..8].copy_from_slice(b"EFI PART");
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        header[24..32].copy_from_slice(&own_sector.to_le_bytes());
        header[72..80].copy_from_slice(&table_sector.to_le_bytes());
        header[80..84].copy_from_slice(&self.entry_count.to_le_bytes());
        header[84..88].copy_from_slice(&self.entry_bytes.to_le_bytes());
        header[88..92].copy_from_slice(&crc32fast::hash(&self.table()).to_le_bytes());
        let crc = crc32fast::hash(&header[..92]);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(crate) fn disk(&self) -> MemoryDevice {
        let disk = MemoryDevice::new(DISK_BYTES);
        let last = DISK_BYTES / self.sector_size - 1;
        let copy = last - 128 * 128 / self.sector_size;
        write_record(&disk, 0, &[(0xee, 1, u32::MAX)]);
        write(&disk, self.sector_size, &self.header(1, 2));
        write(&disk, 2 * self.sector_size, &self.table());
        write(&disk, last * self.sector_size, &self.header(last, copy));
        write(&disk, copy * self.sector_size, &self.table());
        disk
    }
}

pub(crate) fn write(disk: &MemoryDevice, offset: u64, bytes: &[u8]) {
    let fits = (DISK_BYTES - offset).min(bytes.len() as u64) as usize;
    disk.write_at(&bytes[..fits], offset, Durability::Cached).unwrap();
}

/// Writes a boot record at byte `offset`. `slots` are its entries: type, first sector and number of
/// sectors.
pub(crate) fn write_record(disk: &MemoryDevice, offset: u64, slots: &[(u8, u32, u32)]) {
    let mut record = [0; 512];
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    for (index, (kind, first, sectors)) in slots.iter().enumerate() {
        let slot = &mut record[446 + 16 * index..][..16];
        slot[4] = *kind;
        slot[8..12].copy_from_slice(&first.to_le_bytes());
        slot[12..16].copy_from_slice(&sectors.to_le_bytes());
    }
    write(disk, offset, &record);
}

/// Returns number, start and length of every partition on the disk.
fn ranges(disk: &MemoryDevice) -> Vec<(u32, u64, u64)> {
    let table = partitions(disk).unwrap().unwrap();
    table.partitions.iter().map(|part| (part.number, part.start, part.length_bytes)).collect()
}

#[test]
fn gpt_is_read_in_both_sector_sizes() {
    for sector_size in [512, 4096] {
        let disk = Gpt::new(sector_size, &[(1, 100, 199), (7, 200, 200)]).disk();
        write(&disk, 100 * sector_size, b"XFSB");
        let table = partitions(&disk).unwrap().unwrap();
        assert_eq!((table.kind, u64::from(table.sector_size)), (TableKind::Gpt, sector_size));
        let expected =
            [(1, 100 * sector_size, 100 * sector_size), (7, 200 * sector_size, sector_size)];
        assert_eq!(ranges(&disk), expected);
        assert_eq!(table.find(1).unwrap().contents, Contents::Xfs);
        assert_eq!(table.find(1).unwrap().name, "n");
        assert!(table.find(2).is_none());
    }
}

#[test]
fn damaged_gpt_is_read_from_its_copy() {
    let disk = Gpt::new(512, &[(1, 100, 199)]).disk();
    write(&disk, 512 + 60, b"damaged");
    assert_eq!(ranges(&disk), [(1, 51200, 51200)]);
    let disk = Gpt::new(512, &[(1, 100, 199)]).disk();
    write(&disk, 1024 + 40, b"damaged");
    assert_eq!(ranges(&disk), [(1, 51200, 51200)]);
    write(&disk, DISK_BYTES - 512, b"damaged");
    assert!(matches!(partitions(&disk), Err(PartitionError::DamagedGpt)));
}

#[test]
fn hostile_gpt_numbers_are_refused() {
    for (entry_bytes, entry_count) in
        [(128, u32::MAX), (u32::MAX, 128), (0, 128), (64, 128), (384, 128), (1 << 31, 2)]
    {
        let mut gpt = Gpt::new(512, &[]);
        (gpt.entry_bytes, gpt.entry_count) = (128, entry_count);
        let mut header = gpt.header(1, 2);
        header[84..88].copy_from_slice(&entry_bytes.to_le_bytes());
        header[16..20].fill(0);
        let crc = crc32fast::hash(&header[..92]);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let disk = MemoryDevice::new(DISK_BYTES);
        write_record(&disk, 0, &[(0xee, 1, u32::MAX)]);
        write(&disk, 512, &header);
        assert!(matches!(partitions(&disk), Err(PartitionError::DamagedGpt)));
    }
}

#[test]
fn impossible_gpt_entries_are_dropped() {
    let entries = [(1, 10, 9), (2, 0, u64::MAX), (3, u64::MAX, u64::MAX), (4, 1 << 60, 1 << 61)];
    assert_eq!(ranges(&Gpt::new(512, &entries).disk()), []);
    // An entry that only reaches past the end is kept: the disk may be truncated.
    let disk = Gpt::new(512, &[(1, 1 << 40, 1 << 41)]).disk();
    assert_eq!(ranges(&disk), [(1, 1 << 49, (1 << 49) + 512)]);
}

#[test]
fn primary_and_logical_partitions_are_read() {
    let disk = MemoryDevice::new(DISK_BYTES);
    write_record(&disk, 0, &[(LINUX, 10, 5), (0, 0, 0), (0x0f, 100, 900), (LINUX, 20, 1)]);
    write_record(&disk, 100 * 512, &[(LINUX, 1, 30), (0x05, 200, 100)]);
    write_record(&disk, 300 * 512, &[(LINUX, 2, 40)]);
    let expected = [(1, 10, 5), (4, 20, 1), (5, 101, 30), (6, 302, 40)];
    assert_eq!(ranges(&disk), expected.map(|(n, start, length)| (n, start * 512, length * 512)));
}

#[test]
fn mbr_sector_size_is_the_one_under_which_xfs_appears() {
    let disk = MemoryDevice::new(DISK_BYTES);
    write_record(&disk, 0, &[(LINUX, 10, 5)]);
    assert_eq!(partitions(&disk).unwrap().unwrap().sector_size, 512);
    write(&disk, 10 * 4096, b"XFSB");
    assert_eq!(partitions(&disk).unwrap().unwrap().sector_size, 4096);
    assert_eq!(ranges(&disk), [(1, 40960, 20480)]);
}

#[test]
fn chains_of_extended_partitions_end() {
    // To itself, backwards, past the end of the disk, and far beyond 32 bits of bytes.
    for next in [0, 50, u32::MAX, 1 << 30] {
        let disk = MemoryDevice::new(DISK_BYTES);
        write_record(&disk, 0, &[(0x05, 100, 900)]);
        write_record(&disk, 100 * 512, &[(LINUX, 1, 1), (0x05, 60, 1)]);
        write_record(&disk, 160 * 512, &[(LINUX, 1, 1), (0x05, next, 1)]);
        assert_eq!(ranges(&disk).len(), 2);
    }
    // As long as the disk allows.
    let disk = MemoryDevice::new(DISK_BYTES);
    write_record(&disk, 0, &[(0x05, 1, u32::MAX)]);
    for sector in 1..DISK_BYTES / 512 {
        let next = u32::try_from(sector).unwrap();
        write_record(&disk, sector * 512, &[(LINUX, 1, 1), (LINUX, 1, 1), (0x05, next, 1)]);
    }
    assert_eq!(ranges(&disk).len(), MAX_PARTITIONS);
}

#[test]
fn disk_without_a_table_has_no_partitions() {
    for length in [0, 1, 511, 512, 1024, 5000] {
        assert_eq!(partitions(&MemoryDevice::new(length)).unwrap(), None);
    }
    // The boot sector of a filesystem: a signature, but no partition.
    let disk = MemoryDevice::new(DISK_BYTES);
    write_record(&disk, 0, &[]);
    assert_eq!(partitions(&disk).unwrap(), None);
    // Code in the place of the flags.
    write_record(&disk, 0, &[(LINUX, 10, 5)]);
    write(&disk, 446, &[0x33]);
    assert_eq!(partitions(&disk).unwrap(), None);
}
