//! The headers, the region table and the metadata of a VHDX image.
//!
//! ```text
//! header 4 KiB:   0 "head"  4 CRC-32C   8 sequence number   48 GUID of the log, zeros for none
//!                66 version  68 length of the log  72 offset of the log
//! region table 64 KiB: 0 "regi"  4 CRC-32C   8 number of entries
//!                16 entries of 32 bytes: 0 GUID  16 offset  24 length  28 flags (bit 0 required)
//! metadata table: 0 "metadata"  10 number of entries
//!                32 entries of 32 bytes: 0 GUID  16 offset in the region  20 length
//!                24 flags (bit 2 required)
//! ```
//!
//! Each number stands before the field that begins there. It counts bytes from the start of the
//! structure or the entry. Offsets and lengths in the fields are in bytes too.
//!
//! A GUID is stored with its first three fields little-endian.

use uuid::{Uuid, uuid};
use xfs_device::{BlockDevice, Contents};

use super::{MEBIBYTE, damaged};
use crate::bytes::{little, part};
use crate::error::{ImageError, ImageRefusal};

const HEADER_PLACES: [u64; 2] = [64 << 10, 128 << 10];
const HEADER_BYTES: u64 = 4096;
const REGION_PLACES: [u64; 2] = [192 << 10, 256 << 10];
const REGION_BYTES: u64 = 64 << 10;
/// The most entries of a region table or a metadata table.
const MAX_ENTRIES: usize = 2047;
const ENTRY_BYTES: usize = 32;
const METADATA_TABLE_BYTES: u64 = 64 << 10;
const VERSION: u64 = 1;
const REQUIRED_REGION: u64 = 1;
const REQUIRED_ITEM: u64 = 4;
const HAS_PARENT: u64 = 2;

const BLOCK_TABLE: Uuid = uuid!("2dc27766-f623-4200-9d64-115e9bfd4a08");
const METADATA: Uuid = uuid!("8b7ca206-4790-4b9a-b8fe-575f050f886e");
const FILE_PARAMETERS: Uuid = uuid!("caa16737-fa36-4d43-b3b6-33f0aa44e76b");
const DISK_SIZE: Uuid = uuid!("2fa54224-cd1b-4876-b211-5dbed83bf4b8");
const LOGICAL_SECTOR: Uuid = uuid!("8141bf1d-a96f-4709-ba47-f233a8faab5f");
const PHYSICAL_SECTOR: Uuid = uuid!("cda348c7-445d-4471-9cc9-e9885251c556");
const DISK_ID: Uuid = uuid!("beca12ab-b2e6-4523-93ef-c309e000c746");

/// A range of bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) offset: u64,
    pub(super) length_bytes: u64,
}

/// The place of a log that has entries, and the GUID that its entries carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub(super) id: [u8; 16],
    pub(super) region: Region,
}

/// The valid header with the higher sequence number.
pub(super) struct Header {
    sequence: u64,
    /// The log. `None` if the image was closed, so that its log has no entries.
    pub(super) log: Option<LogPlace>,
}

/// The sizes of the disk, and the place of its block allocation table.
pub(super) struct Layout {
    pub(super) size_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) sector_bytes: u64,
    pub(super) table: Region,
}

/// Reads both headers, and returns the one in use: the valid one with the higher sequence number.
pub(super) fn read_header(file: &dyn BlockDevice) -> Result<Header, ImageError> {
    let mut found: Option<Header> = None;
    for place in HEADER_PLACES {
        let Some(bytes) = checked(file, place, HEADER_BYTES, *b"head")? else { continue };
        let sequence = little(&bytes, 8, 8);
        if found.as_ref().is_some_and(|other| other.sequence >= sequence) {
            continue;
        }
        let version = little(&bytes, 66, 2);
        if version != VERSION {
            let refusal = ImageRefusal::Version(version as u32);
            return Err(ImageError::refused(Contents::Vhdx, refusal));
        }
        let mut id = [0; 16];
        id.copy_from_slice(part(&bytes, 48, 16));
        let region = Region { offset: little(&bytes, 72, 8), length_bytes: little(&bytes, 68, 4) };
        let log = (id != [0; 16]).then_some(LogPlace { id, region });
        found = Some(Header { sequence, log });
    }
    found.ok_or_else(|| damaged("header"))
}

/// Returns a structure of `length` bytes, or `None` if its signature or its checksum is wrong.
fn checked(
    file: &dyn BlockDevice,
    place: u64,
    length: u64,
    signature: [u8; 4],
) -> Result<Option<Vec<u8>>, ImageError> {
    if place + length > file.length_bytes() {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, place)?;
    Ok((part(&bytes, 0, 4) == signature && is_sealed(&bytes)).then_some(bytes))
}

/// Returns whether the bytes 4 to 8 hold the CRC-32C of all bytes, computed with these four bytes
/// as zeros.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    let rest = bytes.get(8..).unwrap_or_default();
    let crc = crc32c::crc32c(part(bytes, 0, 4));
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), rest);
    u64::from(crc) == little(bytes, 4, 4)
}

fn guid(bytes: &[u8], at: usize) -> Uuid {
    let mut id = [0; 16];
    let stored = part(bytes, at, 16);
    if stored.len() == id.len() {
        id.copy_from_slice(stored);
    }
    Uuid::from_bytes_le(id)
}

/// Returns the entries of a table, which begin at byte `start` of the table.
fn entries(table: &[u8], start: usize, count: u64) -> Result<Vec<&[u8]>, ImageError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MAX_ENTRIES {
        return Err(damaged("table of regions or metadata"));
    }
    let rest = table.get(start..).unwrap_or_default();
    Ok(rest.chunks_exact(ENTRY_BYTES).take(count).collect())
}

impl Layout {
    /// Reads the regions and the metadata.
    pub(super) fn read(file: &dyn BlockDevice) -> Result<Self, ImageError> {
        let mut table = None;
        for place in REGION_PLACES {
            if table.is_none() {
                table = checked(file, place, REGION_BYTES, *b"regi")?;
            }
        }
        let table = table.ok_or_else(|| damaged("region table"))?;
        let (mut blocks, mut metadata) = (None, None);
        for entry in entries(&table, 16, little(&table, 8, 4))? {
            let region =
                Region { offset: little(entry, 16, 8), length_bytes: little(entry, 24, 4) };
            match guid(entry, 0) {
                BLOCK_TABLE => blocks = Some(region),
                METADATA => metadata = Some(region),
                _ if little(entry, 28, 4) & REQUIRED_REGION == 0 => {}
                _ => return Err(unknown_feature()),
            }
        }
        let metadata = metadata.ok_or_else(|| damaged("region table"))?;
        let blocks = blocks.ok_or_else(|| damaged("region table"))?;
        Items::read(file, metadata)?.layout(blocks)
    }
}

fn unknown_feature() -> ImageError {
    ImageError::refused(Contents::Vhdx, ImageRefusal::Features(0))
}

/// The values of the metadata items that ferroxfs uses.
#[derive(Default)]
struct Items {
    block_bytes: Option<u64>,
    flags: u64,
    size_bytes: Option<u64>,
    sector_bytes: Option<u64>,
}

impl Items {
    fn read(file: &dyn BlockDevice, metadata: Region) -> Result<Self, ImageError> {
        let bad = || damaged("metadata table");
        let end = metadata.offset.checked_add(METADATA_TABLE_BYTES);
        if end.is_none_or(|end| end > file.length_bytes()) {
            return Err(bad());
        }
        let mut table = vec![0; METADATA_TABLE_BYTES as usize];
        file.read_at(&mut table, metadata.offset)?;
        if part(&table, 0, 8) != b"metadata" {
            return Err(bad());
        }
        let mut items = Self::default();
        for entry in entries(&table, 32, little(&table, 10, 2))? {
            let mut value = [0; 8];
            let at = metadata.offset.checked_add(little(entry, 16, 4)).ok_or_else(bad)?;
            let is_there = at.checked_add(8).is_some_and(|end| end <= file.length_bytes());
            if is_there {
                file.read_at(&mut value, at)?;
            }
            let known = match guid(entry, 0) {
                FILE_PARAMETERS => {
                    items.flags = little(&value, 4, 4);
                    items.block_bytes.insert(little(&value, 0, 4))
                }
                DISK_SIZE => items.size_bytes.insert(little(&value, 0, 8)),
                LOGICAL_SECTOR => items.sector_bytes.insert(little(&value, 0, 4)),
                PHYSICAL_SECTOR | DISK_ID => continue,
                _ if little(entry, 24, 4) & REQUIRED_ITEM == 0 => continue,
                _ if items.flags & HAS_PARENT != 0 => break,
                _ => return Err(unknown_feature()),
            };
            if !is_there && *known == 0 {
                return Err(bad());
            }
        }
        Ok(items)
    }

    /// Checks the values, and returns the layout with the block allocation table `table`.
    fn layout(self, table: Region) -> Result<Layout, ImageError> {
        if self.flags & HAS_PARENT != 0 {
            return Err(ImageError::refused(Contents::Vhdx, ImageRefusal::Differencing));
        }
        let bad = || damaged("metadata item");
        let block_bytes = self.block_bytes.ok_or_else(bad)?;
        let sector_bytes = self.sector_bytes.ok_or_else(bad)?;
        let size_bytes = self.size_bytes.ok_or_else(bad)?;
        let is_block =
            block_bytes.is_power_of_two() && (MEBIBYTE..=256 * MEBIBYTE).contains(&block_bytes);
        if !is_block || !matches!(sector_bytes, 512 | 4096) {
            return Err(bad());
        }
        Ok(Layout { size_bytes, block_bytes, sector_bytes, table })
    }
}
