//! Writing a partition table onto a disk that gets a new one.
//!
//! Owns: the bytes of the tables, and where their copies are. Does **not** own: the places of the
//! partitions, or the old contents of the disk. `gpt.rs` and `mbr.rs` have the layout of the
//! structures, and read what this module writes.
//!
//! ```text
//! GPT  protective MBR | header | entries | partitions ... | entries | header
//! MBR  record | partitions ...
//! ```
//!
//! The record in the first sector is written last. Until then the disk has no table that this
//! module has begun.
#![allow(clippy::little_endian_bytes, reason = "partition tables are little-endian")]

use std::io;

use uuid::Uuid;

use super::{PartitionType, TableKind};
use crate::device::{BlockDevice, Durability};

/// The largest number of partitions in a new GPT. By the standard, a table has at least this number
/// of entries.
const GPT_ENTRIES: usize = 128;
const GPT_ENTRY_BYTES: usize = 128;
const GPT_HEADER_BYTES: usize = 92;
const GPT_REVISION: u32 = 0x0001_0000;
/// The largest number of UTF-16 units in the name of a partition.
const NAME_UNITS: usize = 36;

/// The largest number of partitions in a new MBR: no extended partitions are made.
const MBR_ENTRIES: usize = 4;
const MBR_BYTES: usize = 512;
const MBR_ENTRIES_OFFSET: usize = 446;
const MBR_ENTRY_BYTES: usize = 16;
const MBR_SIGNATURE_OFFSET: usize = 440;
const MBR_MAGIC: [u8; 2] = [0x55, 0xaa];
/// The cylinder, head and sector of a place that is too far for these numbers.
const FAR: [u8; 3] = [0xfe, 0xff, 0xff];
/// The same for the protective entry, whose first sector is the second of the disk.
const PROTECTIVE_START: [u8; 3] = [0x00, 0x02, 0x00];
const PROTECTIVE_END: [u8; 3] = [0xff, 0xff, 0xff];

/// A partition of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartition {
    /// The offset in bytes of the partition on the disk.
    pub start: u64,
    /// The length of the partition.
    pub length_bytes: u64,
    /// The type, which is of the kind of the table.
    pub purpose: PartitionType,
    /// The GUID of the partition in a GPT.
    pub identity: Uuid,
    /// The name in a GPT, at most 36 UTF-16 units. An MBR has no names.
    pub name: String,
}

/// A new partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTable {
    /// The kind of the table.
    pub kind: TableKind,
    /// The GUID of the disk. An MBR gets its first four bytes as signature.
    pub identity: Uuid,
    /// The partitions, from number 1 on.
    pub partitions: Vec<NewPartition>,
}

/// The reason why a partition table cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are more partitions than the kind of table can have.
    #[error("{0} has no room for so many partitions")]
    TooMany(TableKind),
    /// A partition does not consist of whole sectors inside of the disk, beside the table.
    #[error("partition {0} does not lie on the disk")]
    Outside(usize),
    /// A partition of an MBR begins or ends past the largest sector number.
    #[error("partition {0} ends past the largest sector of an MBR; a GPT has no such limit")]
    TooFar(usize),
    /// The name of a partition is too long.
    #[error("the name of partition {0} has more than 36 characters")]
    LongName(usize),
    /// The type of a partition is that of another kind of table.
    #[error("the type of partition {0} is not one of {1}")]
    Purpose(usize, TableKind),
}

/// A partition in sectors: the first and the last one.
struct Sectors {
    first: u64,
    last: u64,
}

impl NewTable {
    /// Checks that the table fits on a disk of `disk_bytes` bytes with sectors of this size.
    ///
    /// # Errors
    ///
    /// The first reason why the table cannot be made.
    pub fn verify(&self, disk_bytes: u64, sector_size: u32) -> Result<(), TableError> {
        let most = match self.kind {
            TableKind::Gpt => GPT_ENTRIES,
            TableKind::Mbr => MBR_ENTRIES,
        };
        if self.partitions.len() > most {
            return Err(TableError::TooMany(self.kind));
        }
        for (number, partition) in (1..).zip(&self.partitions) {
            self.verify_partition(number, partition, disk_bytes, sector_size.into())?;
        }
        Ok(())
    }

    fn verify_partition(
        &self,
        number: usize,
        partition: &NewPartition,
        disk_bytes: u64,
        sector_size: u64,
    ) -> Result<(), TableError> {
        let (before, after) = self.kind.table_bytes(sector_size);
        let end = partition.start.checked_add(partition.length_bytes);
        let is_whole = [partition.start, partition.length_bytes]
            .into_iter()
            .all(|bytes| bytes.is_multiple_of(sector_size));
        let is_inside = end.is_some_and(|end| end <= disk_bytes.saturating_sub(after));
        if !is_whole || !is_inside || partition.start < before || partition.length_bytes == 0 {
            return Err(TableError::Outside(number));
        }
        match (self.kind, partition.purpose) {
            (TableKind::Gpt, PartitionType::Gpt(_)) | (TableKind::Mbr, PartitionType::Mbr(_)) => {}
            _ => return Err(TableError::Purpose(number, self.kind)),
        }
        if partition.name.encode_utf16().count() > NAME_UNITS {
            return Err(TableError::LongName(number));
        }
        let last = end.unwrap_or(u64::MAX) / sector_size - 1;
        match self.kind == TableKind::Mbr && last > u32::MAX.into() {
            true => Err(TableError::TooFar(number)),
            false => Ok(()),
        }
    }

    /// Writes the table onto a disk, with both copies of a GPT, and flushes the disk.
    ///
    /// # Errors
    ///
    /// The error of the device; [`io::ErrorKind::InvalidInput`] for a table that
    /// [`verify`](Self::verify) refuses.
    pub fn write(&self, device: &dyn BlockDevice) -> io::Result<()> {
        self.verify(device.length_bytes(), device.sector_size())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let sector = u64::from(device.sector_size());
        let write = |bytes: &[u8], at: u64| device.write_at(bytes, at * sector, Durability::Cached);
        let sectors = device.length_bytes() / sector;
        if self.kind == TableKind::Gpt {
            let entries = self.gpt_entries(sector);
            let copy = sectors - 1 - entries.len() as u64 / sector;
            write(&entries, copy)?;
            write(
                &self.gpt_header(
                    &entries,
                    sector,
                    GptCopy { own: sectors - 1, other: 1, entries: copy },
                ),
                sectors - 1,
            )?;
            write(&entries, 2)?;
            write(
                &self.gpt_header(
                    &entries,
                    sector,
                    GptCopy { own: 1, other: sectors - 1, entries: 2 },
                ),
                1,
            )?;
            device.flush()?;
        }
        let mut first = self.record(sector, sectors);
        first.resize(sector as usize, 0);
        write(&first, 0)?;
        device.flush()
    }

    fn sectors(partition: &NewPartition, sector: u64) -> Sectors {
        let first = partition.start / sector;
        Sectors { first, last: first + partition.length_bytes / sector - 1 }
    }

    fn gpt_entries(&self, sector: u64) -> Vec<u8> {
        let mut table = vec![0; GPT_ENTRIES * GPT_ENTRY_BYTES];
        for (bytes, partition) in table.chunks_exact_mut(GPT_ENTRY_BYTES).zip(&self.partitions) {
            let PartitionType::Gpt(purpose) = partition.purpose else { continue };
            let Sectors { first, last } = Self::sectors(partition, sector);
            put(bytes, 0, &purpose.to_bytes_le());
            put(bytes, 16, &partition.identity.to_bytes_le());
            put(bytes, 32, &first.to_le_bytes());
            put(bytes, 40, &last.to_le_bytes());
            for (index, unit) in partition.name.encode_utf16().take(NAME_UNITS).enumerate() {
                put(bytes, 56 + 2 * index, &unit.to_le_bytes());
            }
        }
        table
    }

    fn gpt_header(&self, entries: &[u8], sector: u64, copy: GptCopy) -> Vec<u8> {
        let entry_sectors = entries.len() as u64 / sector;
        let (first_usable, backup) = (2 + entry_sectors, copy.own.max(copy.other));
        let last_usable = backup - 1 - entry_sectors;
        let mut header = vec![0; sector as usize];
        put(&mut header, 0, b"EFI PART");
        put(&mut header, 8, &GPT_REVISION.to_le_bytes());
        put(&mut header, 12, &(GPT_HEADER_BYTES as u32).to_le_bytes());
        put(&mut header, 24, &copy.own.to_le_bytes());
        put(&mut header, 32, &copy.other.to_le_bytes());
        put(&mut header, 40, &first_usable.to_le_bytes());
        put(&mut header, 48, &last_usable.to_le_bytes());
        put(&mut header, 56, &self.identity.to_bytes_le());
        put(&mut header, 72, &copy.entries.to_le_bytes());
        put(&mut header, 80, &(GPT_ENTRIES as u32).to_le_bytes());
        put(&mut header, 84, &(GPT_ENTRY_BYTES as u32).to_le_bytes());
        put(&mut header, 88, &crc32fast::hash(entries).to_le_bytes());
        let crc = header.get(..GPT_HEADER_BYTES).map_or(0, crc32fast::hash);
        put(&mut header, 16, &crc.to_le_bytes());
        header
    }

    /// Returns the master boot record: that of the table, or the protective one of a GPT.
    fn record(&self, sector: u64, sectors: u64) -> Vec<u8> {
        let mut record = vec![0; MBR_BYTES];
        put(&mut record, 510, &MBR_MAGIC);
        let mut entry = |index: usize, kind: u8, places: [[u8; 3]; 2], first: u64, count: u64| {
            let at = MBR_ENTRIES_OFFSET + index * MBR_ENTRY_BYTES;
            let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
            put(&mut record, at + 1, &places[0]);
            put(&mut record, at + 4, &[kind]);
            put(&mut record, at + 5, &places[1]);
            put(&mut record, at + 8, &number(first));
            put(&mut record, at + 12, &number(count));
        };
        if self.kind == TableKind::Gpt {
            let places = [PROTECTIVE_START, PROTECTIVE_END];
            entry(0, super::mbr::PROTECTIVE, places, 1, sectors - 1);
            return record;
        }
        for (index, partition) in self.partitions.iter().enumerate() {
            let PartitionType::Mbr(kind) = partition.purpose else { continue };
            let Sectors { first, last } = Self::sectors(partition, sector);
            entry(index, kind, [FAR, FAR], first, last - first + 1);
        }
        let signature = self.identity.as_bytes().first_chunk::<4>().copied().unwrap_or_default();
        put(&mut record, MBR_SIGNATURE_OFFSET, &signature);
        record
    }
}

/// The place of one copy of a GPT, in sectors.
#[derive(Clone, Copy)]
struct GptCopy {
    own: u64,
    other: u64,
    entries: u64,
}

impl TableKind {
    /// Returns the bytes that a new table takes at the beginning and at the end of the disk.
    const fn table_bytes(self, sector_size: u64) -> (u64, u64) {
        match self {
            Self::Gpt => {
                let entries = (GPT_ENTRIES * GPT_ENTRY_BYTES) as u64;
                (2 * sector_size + entries, sector_size + entries)
            }
            Self::Mbr => (sector_size, 0),
        }
    }
}

/// Copies bytes to an offset.
///
/// # Panics
///
/// Panics if they do not fit: the sizes of structures are constants.
fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    let place = bytes.get_mut(offset..offset + value.len());
    place.expect("a field lies inside of its structure").copy_from_slice(value);
}

#[cfg(test)]
mod tests;
