//! The master boot record and its chain of extended boot records.
//!
//! ```text
//! record 446 four entries of 16 bytes  510 0x55 0xaa
//! entry    0 boot flag   4 type   8 first sector  12 sectors
//! ```
//!
//! Logical partitions have numbers from 5 on. Each extended boot record has one partition and the
//! location of the next record. The start of the partition is relative to the record. The location
//! of the next record is relative to the start of the extended partition.
#![allow(clippy::little_endian_bytes, reason = "partition tables are little-endian")]

use std::io;

use super::{MAX_PARTITIONS, PartitionType, TableEntry};
use crate::device::BlockDevice;

/// Type of the only partition in the MBR of a disk with a GPT.
pub(super) const PROTECTIVE: u8 = 0xee;

/// The type bytes of extended partitions: CHS, LBA, Linux.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

const RECORD_BYTES: usize = 512;
const ENTRIES_OFFSET: usize = 446;
const ENTRY_BYTES: usize = 16;
const FIRST_LOGICAL: u32 = 5;

/// An entry of a boot record.
#[derive(Clone, Copy)]
struct RecordEntry {
    kind: u8,
    first_sector: u32,
    sectors: u32,
}

impl RecordEntry {
    fn is_used(self) -> bool {
        self.kind != 0 && self.sectors != 0
    }

    fn is_extended(self) -> bool {
        self.is_used() && EXTENDED.contains(&self.kind)
    }

    fn table_entry(self, number: u32, base: u64) -> TableEntry {
        TableEntry {
            number,
            first_sector: base + u64::from(self.first_sector),
            sectors: self.sectors.into(),
            purpose: PartitionType::Mbr(self.kind),
            name: String::new(),
        }
    }
}

/// Reads the partition table. Returns `None` if the disk has no MBR.
pub(super) fn read(
    device: &dyn BlockDevice,
    sector_size: u32,
) -> io::Result<Option<Vec<TableEntry>>> {
    let Some(record_entries) = read_record(device, 0)? else { return Ok(None) };
    let numbered = (1..).zip(record_entries);
    let primary = numbered.filter(|(_, entry)| entry.is_used() && !entry.is_extended());
    let mut entries: Vec<TableEntry> =
        primary.map(|(number, entry)| entry.table_entry(number, 0)).collect();
    if let Some(extended) = record_entries.into_iter().find(|entry| entry.is_extended()) {
        read_logical(device, sector_size, extended, &mut entries)?;
    }
    // The boot sector of a filesystem has the same signature and no partitions; it is not a table.
    Ok((!entries.is_empty()).then_some(entries))
}

/// Follows the chain of extended boot records and adds their partitions. The numbers of partitions
/// and of records are bounded, so a cyclic chain ends.
fn read_logical(
    device: &dyn BlockDevice,
    sector_size: u32,
    extended: RecordEntry,
    entries: &mut Vec<TableEntry>,
) -> io::Result<()> {
    let mut number = FIRST_LOGICAL;
    let mut record = u64::from(extended.first_sector);
    for _ in 0..MAX_PARTITIONS {
        let Some(record_entries) = read_record(device, record * u64::from(sector_size))? else {
            break;
        };
        for entry in
            record_entries.into_iter().filter(|entry| entry.is_used() && !entry.is_extended())
        {
            if entries.len() >= MAX_PARTITIONS {
                return Ok(());
            }
            entries.push(entry.table_entry(number, record));
            number += 1;
        }
        let Some(next) = record_entries.into_iter().find(|entry| entry.is_extended()) else {
            break;
        };
        let next = u64::from(extended.first_sector) + u64::from(next.first_sector);
        // Every tool writes an ascending chain. A chain that goes back is damaged or hostile.
        if next <= record {
            break;
        }
        record = next;
    }
    Ok(())
}

/// Reads the four entries of the boot record at byte `start`. Returns `None` if there is no boot
/// record.
fn read_record(device: &dyn BlockDevice, start: u64) -> io::Result<Option<[RecordEntry; 4]>> {
    let end = start.checked_add(RECORD_BYTES as u64);
    if end.is_none_or(|end| end > device.length_bytes()) {
        return Ok(None);
    }
    let mut record = [0; RECORD_BYTES];
    device.read_at(&mut record, start)?;
    Ok(decode_record(&record))
}

fn decode_record(record: &[u8; RECORD_BYTES]) -> Option<[RecordEntry; 4]> {
    let (entries, signature) = record.get(ENTRIES_OFFSET..)?.split_at_checked(4 * ENTRY_BYTES)?;
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let flags_sound = entries.iter().all(|entry| matches!(entry.first(), Some(0 | 0x80)));
    if signature != [0x55, 0xaa] || !flags_sound {
        return None;
    }
    let mut record_entries = [RecordEntry { kind: 0, first_sector: 0, sectors: 0 }; 4];
    for (decoded, entry) in record_entries.iter_mut().zip(entries) {
        decoded.kind = *entry.get(4)?;
        decoded.first_sector = u32::from_le_bytes(*entry.get(8..)?.first_chunk()?);
        decoded.sectors = u32::from_le_bytes(*entry.get(12..)?.first_chunk()?);
    }
    Some(record_entries)
}
