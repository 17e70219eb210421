//! A sparse extent of a VMDK image.
//!
//! ```text
//!   0 "KDMV"   4 version   8 flags   12 length   20 grain   28 descriptor, 36 its length
//!  44 entries of a grain table       48 second grain directory   56 grain directory
//!  77 compression: 1 deflate
//! grain directory: 4 bytes for each grain table: its sector, 0 for none
//! grain table: 4 bytes for each grain: its sector, 0 for none, 1 for zeros (flag bit 2)
//! compressed grain: 8 bytes its first sector of the disk, 4 bytes length, a zlib stream
//! ```
//!
//! Numbers are little-endian, and places and lengths are in sectors. A stream-optimized file has
//! the place of its grain directory in a second header, 1024 bytes before its end.

use std::io;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use xfs_device::{BlockDevice, SharedDevice};
use xfs_sync::{Mutex, Volume};

use super::descriptor::MAX_DESCRIPTOR_BYTES;
use super::{SECTOR_BYTES, damaged, refused};
use crate::bytes::{little, part};
use crate::device::{Location, Run};
use crate::error::{ImageError, ImageRefusal};
use crate::tables::{ByteOrder, Table, TablePages};

const HEADER_BYTES: usize = 512;
/// Offset of the second header from the end of a stream-optimized file, in bytes.
const FOOTER_BYTES: u64 = 1024;
/// The value of the header's field for the offset of the grain directory, if that offset is only in
/// a second header at the end of the file.
const AT_END: u64 = u64::MAX;
const MAX_GRAIN_BYTES: u64 = 16 << 20;
const MAX_TABLE_ENTRIES: u64 = 65536;
const ZERO_GRAINS: u64 = 1 << 2;
const COMPRESSED: u64 = 1 << 16;
/// Number of bytes before the stream of a compressed grain.
const MARKER_BYTES: u64 = 12;

/// A sparse extent in a file of its own.
pub(super) struct SparseExtent {
    file: SharedDevice,
    length_bytes: u64,
    grain_bytes: u64,
    table_entries: u64,
    directory: Table,
    descriptor_at: u64,
    descriptor_bytes: u64,
    flags: u64,
    pages: TablePages,
    /// The number and the bytes of the grain that was decompressed last.
    decompressed: Mutex<Option<(u64, Vec<u8>)>, Volume>,
}

impl SparseExtent {
    /// Reads the header of the extent in `file`.
    pub(super) fn open(file: SharedDevice) -> Result<Self, ImageError> {
        let mut header = read_header(&*file, 0)?;
        if little(&header, 56, 8) == AT_END {
            let end = file.length_bytes().checked_sub(FOOTER_BYTES);
            header = read_header(&*file, end.ok_or_else(|| damaged("header"))?)?;
        }
        let number = |at, length| little(&header, at, length);
        let version = number(4, 4);
        if !(1..=3).contains(&version) {
            return Err(refused(ImageRefusal::Version(version as u32)));
        }
        let bytes = |at| number(at, 8).checked_mul(SECTOR_BYTES).ok_or_else(|| damaged("header"));
        let (length_bytes, grain_bytes, start) = (bytes(12)?, bytes(20)?, bytes(56)?);
        let table_entries = number(44, 4);
        let extent = Self {
            directory: Table { start, entry_bytes: 4, order: ByteOrder::Little },
            descriptor_at: bytes(28)?,
            descriptor_bytes: bytes(36)?,
            flags: number(8, 4),
            pages: TablePages::new(),
            decompressed: Mutex::new(None),
            file,
            length_bytes,
            grain_bytes,
            table_entries,
        };
        if extent.flags & COMPRESSED != 0 && number(77, 2) != 1 {
            return Err(refused(ImageRefusal::Compression(number(77, 1) as u8)));
        }
        if extent.is_possible() { Ok(extent) } else { Err(damaged("header")) }
    }

    /// Returns whether the sizes are supported and the grain directory lies inside the file.
    fn is_possible(&self) -> bool {
        let is_grain = self.grain_bytes.is_power_of_two()
            && (SECTOR_BYTES..=MAX_GRAIN_BYTES).contains(&self.grain_bytes);
        if !is_grain || !(1..=MAX_TABLE_ENTRIES).contains(&self.table_entries) {
            return false;
        }
        let tables = self.length_bytes.div_ceil(self.grain_bytes * self.table_entries);
        let end = self.directory.start.checked_add(tables * 4);
        end.is_some_and(|end| end <= self.file.length_bytes())
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Returns the text that describes the disk. Returns `None` if the file has no such text,
    /// because the file is a part of a split disk.
    pub(super) fn descriptor(&self) -> Result<Option<Vec<u8>>, ImageError> {
        if self.descriptor_at == 0 || self.descriptor_bytes == 0 {
            return Ok(None);
        }
        let length = self.descriptor_bytes.min(MAX_DESCRIPTOR_BYTES);
        let end = self.descriptor_at.checked_add(length);
        if end.is_none_or(|end| end > self.file.length_bytes()) {
            return Err(damaged("descriptor"));
        }
        let mut text = vec![0; length as usize];
        self.file.read_at(&mut text, self.descriptor_at)?;
        // qemu reserves the room of a descriptor in each part of a split disk.
        Ok(text.iter().any(|byte| *byte != 0).then_some(text))
    }

    /// Returns the location of the byte at `offset` of the extent.
    pub(super) fn find(&self, offset: u64) -> io::Result<Run<'_>> {
        let (grain, within) = (offset / self.grain_bytes, offset % self.grain_bytes);
        let length_bytes = self.grain_bytes - within;
        let (first, second) = (grain / self.table_entries, grain % self.table_entries);
        let start = self.pages.entry(&*self.file, self.directory, first)? * SECTOR_BYTES;
        let has_zeros = self.flags & ZERO_GRAINS != 0;
        let is_absent = |sector: u64| sector == 0 || (sector == 1 && has_zeros);
        if is_absent(start / SECTOR_BYTES) {
            return Ok(Run { location: Location::Zeros, length_bytes });
        }
        let table = Table { start, ..self.directory };
        let sector = self.pages.entry(&*self.file, table, second)?;
        let location = if is_absent(sector) {
            Location::Zeros
        } else if self.flags & COMPRESSED != 0 {
            Location::Encoded(sector)
        } else {
            Location::Stored(&self.file, sector * SECTOR_BYTES + within)
        };
        Ok(Run { location, length_bytes })
    }

    /// Fills `piece` with bytes of the extent from `offset` on. They lie in the compressed grain at
    /// `sector` of the file.
    pub(super) fn read_grain(&self, offset: u64, sector: u64, piece: &mut [u8]) -> io::Result<()> {
        let grain = offset / self.grain_bytes;
        let within = (offset % self.grain_bytes) as usize;
        let mut last = self.decompressed.lock();
        let (_, bytes) = match last.take().filter(|(number, _)| *number == grain) {
            Some(known) => last.insert(known),
            None => last.insert((grain, self.decompress(grain, sector)?)),
        };
        let found = bytes.get(within..).and_then(|rest| rest.get(..piece.len()));
        piece.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn decompress(&self, grain: u64, sector: u64) -> io::Result<Vec<u8>> {
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "a grain of the VMDK image is damaged");
        let start = sector * SECTOR_BYTES;
        let mut marker = [0; MARKER_BYTES as usize];
        self.file.read_at(&mut marker, start)?;
        let (first, length) = (little(&marker, 0, 8), little(&marker, 8, 4));
        // Deflate makes incompressible bytes only a little longer.
        let is_grain = first.checked_mul(SECTOR_BYTES) == Some(grain * self.grain_bytes)
            && (1..=self.grain_bytes * 2).contains(&length);
        if !is_grain {
            return Err(damaged());
        }
        let mut packed = vec![0; length as usize];
        self.file.read_at(&mut packed, start + MARKER_BYTES)?;
        let mut bytes = vec![0; self.grain_bytes as usize];
        let packed = std::iter::once(packed.as_slice());
        // The last grain of a disk can be stored up to the end of the disk only.
        let needed = self.grain_bytes.min(self.length_bytes - grain * self.grain_bytes);
        match decompress_slice_iter_to_slice(&mut bytes, packed, true, true) {
            Ok(length) if length as u64 >= needed => Ok(bytes),
            _ => Err(damaged()),
        }
    }
}

fn read_header(file: &dyn BlockDevice, at: u64) -> Result<[u8; HEADER_BYTES], ImageError> {
    let mut header = [0; HEADER_BYTES];
    if at.saturating_add(HEADER_BYTES as u64) > file.length_bytes() {
        return Err(damaged("header"));
    }
    file.read_at(&mut header, at)?;
    if part(&header, 0, 4) == b"KDMV" { Ok(header) } else { Err(damaged("header")) }
}
