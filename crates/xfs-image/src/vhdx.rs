//! The disk inside a VHDX image of Hyper-V, read-only.
//!
//! Owns: the block allocation table. Does **not** own the headers and the metadata ([`layout`]), or
//! the log ([`log`]).
//!
//! ```text
//! file: 0 "vhdxfile"   64 KiB, 128 KiB headers   192 KiB, 256 KiB region tables
//! block allocation table: 8 bytes for each block: bits 0-2 state, bits 20-63 place in MiB;
//!       after each chunk of blocks one more entry, for a bitmap that only differencing disks use
//! ```
//!
//! Numbers are little-endian. An image that was not closed has a log of changes to its tables. The
//! log is replayed in memory, and the file stays unchanged.

mod layout;
mod log;

use std::io;

use xfs_device::{Contents, SharedDevice};

use crate::device::{BlockMap, ImageDevice, Location, Run};
use crate::error::ImageError;
use crate::tables::{ByteOrder, Table, TablePages};
use layout::Layout;

const MEBIBYTE: u64 = 1 << 20;
/// Number of sectors of a chunk: those that one bitmap block of 1 MiB describes.
const CHUNK_SECTORS: u64 = 1 << 23;
const FULLY_PRESENT: u64 = 6;
const PARTIALLY_PRESENT: u64 = 7;

/// The block allocation table of a VHDX image.
pub(crate) struct BlockTable {
    file: SharedDevice,
    layout: Layout,
    pages: TablePages,
}

fn damaged(part: &'static str) -> ImageError {
    ImageError::damaged(Contents::Vhdx, part)
}

/// Opens the disk inside the image.
///
/// # Errors
///
/// See [`ImageError`].
pub(crate) fn open(file: SharedDevice) -> Result<ImageDevice<BlockTable>, ImageError> {
    let header = layout::read_header(&*file)?;
    let file = match header.log {
        Some(place) => log::replayed(file, &place)?,
        None => file,
    };
    let layout = Layout::read(&*file)?;
    let table = BlockTable { file, layout, pages: TablePages::new() };
    if table.is_possible() {
        return Ok(ImageDevice::read_only(table));
    }
    Err(damaged("block allocation table"))
}

impl BlockTable {
    /// Returns the number of blocks in a chunk.
    fn chunk_blocks(&self) -> u64 {
        CHUNK_SECTORS * self.layout.sector_bytes / self.layout.block_bytes
    }

    /// Returns the index of a block's entry in the table.
    fn index(&self, block: u64) -> u64 {
        block + block / self.chunk_blocks()
    }

    /// Returns whether the table has an entry for each block of the disk and lies inside the file.
    fn is_possible(&self) -> bool {
        let layout = &self.layout;
        let Some(last) = layout.size_bytes.div_ceil(layout.block_bytes).checked_sub(1) else {
            return true;
        };
        let needed = (self.index(last) + 1) * 8;
        let end = layout.table.offset.checked_add(layout.table.length_bytes);
        needed <= layout.table.length_bytes
            && end.is_some_and(|end| end <= self.file.length_bytes())
    }
}

impl BlockMap for BlockTable {
    fn length_bytes(&self) -> u64 {
        self.layout.size_bytes
    }

    fn find(&self, offset: u64) -> io::Result<Run<'_>> {
        let (block, within) = (offset / self.layout.block_bytes, offset % self.layout.block_bytes);
        let start = self.layout.table.offset;
        let table = Table { start, entry_bytes: 8, order: ByteOrder::Little };
        let entry = self.pages.entry(&*self.file, table, self.index(block))?;
        let location = match entry & 7 {
            FULLY_PRESENT => Location::Stored(&self.file, (entry & !(MEBIBYTE - 1)) + within),
            PARTIALLY_PRESENT => {
                let message = "the VHDX image has a block of a differencing disk";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            _ => Location::Zeros,
        };
        Ok(Run { location, length_bytes: self.layout.block_bytes - within })
    }

    fn read_encoded(&self, _offset: u64, _encoded: u64, _piece: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::InvalidData.into())
    }

    fn files(&self) -> Vec<&SharedDevice> {
        vec![&self.file]
    }
}
