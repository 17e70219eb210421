//! Tests of new partition tables: the reader finds what was written.

use uuid::Uuid;

use super::{NewPartition, NewTable, TableError};
use crate::device::{BlockDevice, Durability};
use crate::memory::MemoryDevice;
use crate::partition::{PartitionType, TableKind, partitions};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 8 * MIB;
const SECTOR: u32 = 512;
const LINUX: u8 = 0x83;

fn table(kind: TableKind, places: &[(u64, u64)]) -> NewTable {
    let purpose = match kind {
        TableKind::Gpt => PartitionType::Gpt(Uuid::from_u128(7)),
        TableKind::Mbr => PartitionType::Mbr(LINUX),
    };
    let partition = |(index, (start, length_bytes)): (usize, &(u64, u64))| NewPartition {
        start: *start,
        length_bytes: *length_bytes,
        purpose,
        identity: Uuid::from_u128(index as u128 + 1),
        name: if kind == TableKind::Gpt { format!("part {index} é") } else { String::new() },
    };
    let partitions = places.iter().enumerate().map(partition).collect();
    NewTable { kind, identity: Uuid::from_u128(0x1234 << 112), partitions }
}

fn check_read(disk: &MemoryDevice, made: &NewTable) {
    let read = partitions(disk).unwrap().unwrap();
    assert_eq!((read.kind, read.sector_size), (made.kind, SECTOR));
    assert_eq!(read.partitions.len(), made.partitions.len());
    for (read, made) in read.partitions.iter().zip(&made.partitions) {
        assert_eq!((read.start, read.length_bytes), (made.start, made.length_bytes));
        assert_eq!((read.purpose, &read.name), (made.purpose, &made.name));
    }
}

#[test]
fn written_table_is_read() {
    for kind in [TableKind::Gpt, TableKind::Mbr] {
        for places in [&[(MIB, 6 * MIB)][..], &[(MIB, 2 * MIB), (3 * MIB, 512)], &[]] {
            let disk = MemoryDevice::new(DISK_BYTES);
            let made = table(kind, places);
            made.write(&disk).unwrap();
            if !places.is_empty() || kind == TableKind::Gpt {
                check_read(&disk, &made);
            }
        }
    }
}

#[test]
fn either_copy_of_a_gpt_is_read_alone() {
    let made = table(TableKind::Gpt, &[(MIB, 6 * MIB)]);
    for lost in [512, DISK_BYTES - 512] {
        let disk = MemoryDevice::new(DISK_BYTES);
        made.write(&disk).unwrap();
        disk.write_at(&[0; 512], lost, Durability::Cached).unwrap();
        check_read(&disk, &made);
    }
}

#[test]
fn impossible_tables_are_refused() {
    let gpt = |places: &[(u64, u64)]| table(TableKind::Gpt, places).verify(DISK_BYTES, SECTOR);
    assert_eq!(gpt(&[(MIB, 7 * MIB - 33 * 512)]), Ok(()));
    assert_eq!(gpt(&[(MIB, 7 * MIB - 32 * 512)]), Err(TableError::Outside(1)));
    assert_eq!(gpt(&[(34 * 512, MIB)]), Ok(()));
    assert_eq!(gpt(&[(33 * 512, MIB)]), Err(TableError::Outside(1)));
    assert_eq!(gpt(&[(MIB, MIB), (2 * MIB + 1, 512)]), Err(TableError::Outside(2)));
    assert_eq!(gpt(&[(MIB, 0)]), Err(TableError::Outside(1)));
    assert_eq!(gpt(&[(u64::MAX - 511, 512)]), Err(TableError::Outside(1)));
    assert_eq!(gpt(&[(MIB, 512); 129]), Err(TableError::TooMany(TableKind::Gpt)));
    let mbr = |places: &[(u64, u64)], disk: u64| table(TableKind::Mbr, places).verify(disk, SECTOR);
    assert_eq!(mbr(&[(MIB, 512); 5], DISK_BYTES), Err(TableError::TooMany(TableKind::Mbr)));
    let far = 1 << 41;
    assert_eq!(mbr(&[(MIB, far - MIB)], far), Ok(()));
    assert_eq!(mbr(&[(MIB, far - MIB + 512)], far + MIB), Err(TableError::TooFar(1)));
    let mut long = table(TableKind::Gpt, &[(MIB, MIB)]);
    long.partitions[0].name = "é".repeat(36);
    assert_eq!(long.verify(DISK_BYTES, SECTOR), Ok(()));
    long.partitions[0].name += "é";
    assert_eq!(long.verify(DISK_BYTES, SECTOR), Err(TableError::LongName(1)));
    long.kind = TableKind::Mbr;
    assert_eq!(long.verify(DISK_BYTES, SECTOR), Err(TableError::Purpose(1, TableKind::Mbr)));
}
