//! The disk inside a VDI image of VirtualBox.
//!
//! ```text
//!  64 magic 0xbeda107f  68 version 1.1     76 kind: 1 dynamic, 2 fixed, 3 undo, 4 differencing
//! 340 block map: its byte  344 blocks: byte of the first   368 disk size, 8 bytes
//! 376 block size        380 extra bytes before each block   384 blocks of the disk
//! block map: 4 bytes for each block: the index of the block in the file, 0xffffffff for none,
//!            0xfffffffe for zeros
//! ```
//!
//! Numbers are little-endian. A fixed image stores every block, so it is written in place.

use std::io;

use xfs_device::{Contents, SharedDevice};

use crate::bytes::little;
use crate::device::{BlockMap, ImageDevice, Location, Run};
use crate::error::{ImageError, ImageRefusal};
use crate::tables::{ByteOrder, Table, TablePages};

const HEADER_BYTES: usize = 512;
const VERSION_1_1: u32 = 0x0001_0001;
const DYNAMIC: u64 = 1;
const FIXED: u64 = 2;
/// The lowest value of a block map entry that stands for a block without a place in the file.
const FIRST_ABSENT: u64 = 0xffff_fffe;

/// The block map of a VDI image.
pub(crate) struct VdiMap {
    file: SharedDevice,
    size_bytes: u64,
    block_bytes: u64,
    extra_bytes: u64,
    blocks: u64,
    table: Table,
    first_block: u64,
    pages: TablePages,
}

/// Opens the disk inside the image.
///
/// # Errors
///
/// See [`ImageError`].
pub(crate) fn open(file: SharedDevice) -> Result<ImageDevice<VdiMap>, ImageError> {
    let damaged = || ImageError::damaged(Contents::Vdi, "header");
    let refused = |refusal| Err(ImageError::refused(Contents::Vdi, refusal));
    let mut header = [0; HEADER_BYTES];
    if file.length_bytes() < HEADER_BYTES as u64 {
        return Err(damaged());
    }
    file.read_at(&mut header, 0)?;
    let number = |at, length| little(&header, at, length);
    if number(68, 4) != u64::from(VERSION_1_1) {
        return refused(ImageRefusal::Version(number(70, 2) as u32));
    }
    let kind = number(76, 4);
    if !matches!(kind, DYNAMIC | FIXED) {
        return refused(ImageRefusal::Differencing);
    }
    let map = VdiMap {
        size_bytes: number(368, 8),
        block_bytes: number(376, 4),
        extra_bytes: number(380, 4),
        blocks: number(384, 4),
        table: Table { start: number(340, 4), entry_bytes: 4, order: ByteOrder::Little },
        first_block: number(344, 4),
        pages: TablePages::new(),
        file,
    };
    let has_room = map.blocks.checked_mul(map.block_bytes).is_some_and(|all| all >= map.size_bytes);
    let is_map_there = map.table.start + map.blocks * 4 <= map.file.length_bytes();
    if map.block_bytes == 0 || !has_room || !is_map_there {
        return Err(damaged());
    }
    if kind == FIXED && map.stores_all()? {
        return Ok(ImageDevice::in_place(map));
    }
    Ok(ImageDevice::read_only(map))
}

impl VdiMap {
    /// Returns whether the file stores every block of the disk, each in a place of its own. The
    /// places must ascend with the blocks, as in a fixed image, so two blocks with the same place
    /// are noticed.
    fn stores_all(&self) -> io::Result<bool> {
        let mut next = 0;
        for index in 0..self.blocks {
            let block = self.pages.entry(&*self.file, self.table, index)?;
            let is_there = self
                .place(block)
                .and_then(|at| at.checked_add(self.block_bytes))
                .is_some_and(|end| end <= self.file.length_bytes());
            if block < next || block >= FIRST_ABSENT || !is_there {
                return Ok(false);
            }
            next = block + 1;
        }
        Ok(true)
    }

    /// Returns the offset in the file at which the contents of a stored block start. Returns `None`
    /// if the offset does not fit 64 bits.
    fn place(&self, block: u64) -> Option<u64> {
        let before = block.checked_mul(self.block_bytes.checked_add(self.extra_bytes)?)?;
        before.checked_add(self.extra_bytes)?.checked_add(self.first_block)
    }
}

impl BlockMap for VdiMap {
    fn length_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn find(&self, offset: u64) -> io::Result<Run<'_>> {
        let within = offset % self.block_bytes;
        let length_bytes = self.block_bytes - within;
        let block = self.pages.entry(&*self.file, self.table, offset / self.block_bytes)?;
        let location = if block >= FIRST_ABSENT {
            Location::Zeros
        } else {
            let place = self.place(block).and_then(|at| at.checked_add(within));
            Location::Stored(&self.file, place.ok_or(io::ErrorKind::UnexpectedEof)?)
        };
        Ok(Run { location, length_bytes })
    }

    fn read_encoded(&self, _offset: u64, _encoded: u64, _piece: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::InvalidData.into())
    }

    fn files(&self) -> Vec<&SharedDevice> {
        vec![&self.file]
    }
}
