//! The GUID partition table: header in sector 1, a copy in the last sector.
//!
//! ```text
//! header   0 "EFI PART"  8 revision  12 header bytes  16 CRC  24 own sector  32 other copy
//!         40 first usable  48 last usable  56 disk GUID  72 first sector of the entries
//!         80 number of entries  84 bytes per entry  88 CRC of the entries
//! entry    0 type GUID  16 own GUID  32 first sector  40 last sector  48 flags  56 name (UTF-16)
//! ```
#![allow(clippy::little_endian_bytes, reason = "partition tables are little-endian")]

use std::io;

use uuid::Uuid;

use super::{MAX_PARTITIONS, PartitionType, TableEntry};
use crate::device::BlockDevice;

const MAGIC: &[u8] = b"EFI PART";
const HEADER_BYTES: usize = 92;
const HEADER_CRC_OFFSET: usize = 16;
const ENTRY_BYTES: usize = 128;
const NAME_UNITS: usize = 36;

/// The largest number of bytes of partition entries that are read. By the standard, a table has at
/// least 16 KiB of entries.
const MAX_TABLE_BYTES: usize = MAX_PARTITIONS * ENTRY_BYTES;

/// Reads the first copy of the table, or the second one if the first is invalid. Returns `None` if
/// both are invalid.
pub(super) fn read(
    device: &dyn BlockDevice,
    sector_size: u32,
) -> io::Result<Option<Vec<TableEntry>>> {
    let sectors = device.length_bytes() / u64::from(sector_size);
    for sector in [Some(1), sectors.checked_sub(1)].into_iter().flatten() {
        if let Some(entries) = read_copy(device, sector_size, sector)? {
            return Ok(Some(entries));
        }
    }
    Ok(None)
}

fn read_copy(
    device: &dyn BlockDevice,
    sector_size: u32,
    sector: u64,
) -> io::Result<Option<Vec<TableEntry>>> {
    let Some(bytes) = read_range(device, sector, sector_size, sector_size as usize)? else {
        return Ok(None);
    };
    let Some(header) = GptHeader::decode(&bytes, sector) else { return Ok(None) };
    let Some(table) = read_range(device, header.first_entry_sector, sector_size, header.bytes)?
    else {
        return Ok(None);
    };
    if crc32fast::hash(&table) != header.entries_crc {
        return Ok(None);
    }
    Ok(Some(decode_entries(&table, header.entry_bytes)))
}

/// Reads `length` bytes from a sector on. Returns `None` if they reach past the end of the device.
fn read_range(
    device: &dyn BlockDevice,
    sector: u64,
    sector_size: u32,
    length: usize,
) -> io::Result<Option<Vec<u8>>> {
    let Some(start) = sector.checked_mul(sector_size.into()) else { return Ok(None) };
    if start.checked_add(length as u64).is_none_or(|end| end > device.length_bytes()) {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, start)?;
    Ok(Some(bytes))
}

struct GptHeader {
    first_entry_sector: u64,
    entry_bytes: usize,
    /// Number of bytes of all entries, at most [`MAX_TABLE_BYTES`].
    bytes: usize,
    entries_crc: u32,
}

impl GptHeader {
    fn decode(sector: &[u8], own_sector: u64) -> Option<Self> {
        let length = read_u32(sector, 12)? as usize;
        let mut header = sector.get(..length).filter(|_| length >= HEADER_BYTES)?.to_vec();
        header.get_mut(HEADER_CRC_OFFSET..HEADER_CRC_OFFSET + 4)?.fill(0);
        let entry_bytes = read_u32(sector, 84)? as usize;
        let bytes = entry_bytes.checked_mul(read_u32(sector, 80)? as usize)?;
        let sound = sector.starts_with(MAGIC)
            && crc32fast::hash(&header) == read_u32(sector, HEADER_CRC_OFFSET)?
            && read_u64(sector, 24)? == own_sector
            && entry_bytes >= ENTRY_BYTES
            && entry_bytes.is_power_of_two()
            && bytes <= MAX_TABLE_BYTES;
        sound.then_some(Self {
            first_entry_sector: read_u64(sector, 72)?,
            entry_bytes,
            bytes,
            entries_crc: read_u32(sector, 88)?,
        })
    }
}

fn decode_entries(table: &[u8], entry_bytes: usize) -> Vec<TableEntry> {
    let numbered = (1..).zip(table.chunks_exact(entry_bytes));
    numbered.filter_map(|(number, bytes)| decode_entry(number, bytes)).collect()
}

/// Decodes an entry. Returns `None` if the entry is unused or impossible.
fn decode_entry(number: u32, bytes: &[u8]) -> Option<TableEntry> {
    let purpose = Uuid::from_bytes_le(*bytes.first_chunk()?);
    let first_sector = read_u64(bytes, 32)?;
    let sectors = read_u64(bytes, 40)?.checked_sub(first_sector)?.checked_add(1)?;
    let units = bytes.get(56..56 + 2 * NAME_UNITS)?.as_chunks::<2>().0;
    let units = units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
    let name = char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
    (!purpose.is_nil()).then(|| TableEntry {
        number,
        first_sector,
        sectors,
        purpose: PartitionType::Gpt(purpose),
        name: name.collect(),
    })
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn read_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}
