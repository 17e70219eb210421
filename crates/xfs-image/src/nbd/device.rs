//! An export of an NBD server, opened as a block device.

use std::collections::VecDeque;
use std::io;

use xfs_device::{
    BlockDevice, DeviceAccess, Durability, FileOptions, check_read, check_write,
    write_zeros_plainly,
};
use xfs_sync::{Mutex, Volume};

use super::address::Address;
use super::connection::{Connection, Cookie, Kind, Request, Stream};
use super::error::NbdError;
use super::handshake::{self, Export};

const READ_ONLY: u64 = 1 << 1;
const SEND_FLUSH: u64 = 1 << 2;
const SEND_FUA: u64 = 1 << 3;
const SEND_TRIM: u64 = 1 << 5;
const SEND_WRITE_ZEROES: u64 = 1 << 6;

const SECTOR_BYTES: u64 = 512;
/// The most bytes of one read or write request. The server may accept fewer.
const PIECE_BYTES: u64 = 1 << 20;
/// The most requests that one call has in flight.
const IN_FLIGHT: usize = 8;
/// The most bytes in the range of one request without a payload: trim, or write zeros.
const RANGE_BYTES: u64 = 1 << 30;

/// An export of an NBD server.
pub(crate) struct NbdDevice {
    connection: Connection,
    export: Export,
    is_read_only: bool,
    /// Lock that a write holds while it reads a block, changes a part of it and writes it back.
    edges: Mutex<(), Volume>,
}

/// A range of an export in whole blocks.
#[derive(Clone, Copy)]
struct Blocks {
    start: u64,
    end: u64,
}

impl NbdDevice {
    /// Connects to the server and opens the export.
    ///
    /// # Errors
    ///
    /// See [`NbdError`].
    pub(crate) fn open(address: &Address, options: FileOptions) -> Result<Self, NbdError> {
        let stream = Stream::connect(&address.server)?;
        let export = handshake::negotiate(&stream, &address.export)?;
        let is_read_only = options.access() == DeviceAccess::ReadOnly;
        let device = Self {
            connection: Connection::new(stream),
            export,
            is_read_only,
            edges: Mutex::new(()),
        };
        if !is_read_only && device.offers(READ_ONLY) {
            return Err(NbdError::ReadOnly);
        }
        // I2 of `xfs_image::nbd`
        if !is_read_only && !device.offers(SEND_FLUSH) {
            return Err(NbdError::NoFlush);
        }
        Ok(device)
    }

    const fn offers(&self, flag: u64) -> bool {
        self.export.flags & flag != 0
    }

    fn piece_bytes(&self) -> u64 {
        PIECE_BYTES.min(self.export.max_payload)
    }

    /// Returns the smallest range of whole blocks that contains a range of bytes.
    fn around(&self, offset: u64, length: usize) -> Blocks {
        let block = self.export.block_bytes;
        let end = (offset + length as u64).next_multiple_of(block);
        Blocks { start: offset / block * block, end }
    }

    /// Reads whole blocks.
    fn read_blocks(&self, buffer: &mut [u8], start: u64) -> io::Result<()> {
        let pieces = buffer.chunks_mut(self.piece_bytes() as usize);
        let mut at = start;
        let mut sent: VecDeque<(Cookie, &mut [u8])> = VecDeque::new();
        let finish = |(cookie, piece): (Cookie, &mut [u8])| {
            self.connection.finish(&cookie).map(|bytes| piece.copy_from_slice(&bytes))
        };
        let mut result = Ok(());
        for piece in pieces {
            if sent.len() >= IN_FLIGHT {
                result = result.and(sent.pop_front().map_or(Ok(()), finish));
            }
            let length = u32::try_from(piece.len()).expect("a piece is short");
            let request = Request { kind: Kind::Read, is_durable: false, offset: at, length };
            match self.connection.submit(&request, &[]) {
                Ok(cookie) => sent.push_back((cookie, piece)),
                Err(error) => result = result.and(Err(error)),
            }
            at += u64::from(length);
            if result.is_err() {
                break;
            }
        }
        // Each request is finished, also after a failure: its reply must not find no request.
        sent.into_iter().map(finish).fold(result, io::Result::and)
    }

    /// Writes whole blocks.
    fn write_blocks(&self, bytes: &[u8], start: u64, is_durable: bool) -> io::Result<()> {
        let mut at = start;
        let mut sent: VecDeque<Cookie> = VecDeque::new();
        let finish = |cookie: Cookie| self.connection.finish(&cookie).map(drop);
        let mut result = Ok(());
        for piece in bytes.chunks(self.piece_bytes() as usize) {
            if sent.len() >= IN_FLIGHT {
                result = result.and(sent.pop_front().map_or(Ok(()), finish));
            }
            let length = u32::try_from(piece.len()).expect("a piece is short");
            let request = Request { kind: Kind::Write, is_durable, offset: at, length };
            match self.connection.submit(&request, piece) {
                Ok(cookie) => sent.push_back(cookie),
                Err(error) => result = result.and(Err(error)),
            }
            at += u64::from(length);
            if result.is_err() {
                break;
            }
        }
        sent.into_iter().map(finish).fold(result, io::Result::and)
    }

    /// Writes a range that covers only a part of its first or last block: reads the blocks,
    /// replaces the bytes of the range and writes the blocks.
    fn write_edges(&self, bytes: &[u8], offset: u64, is_durable: bool) -> io::Result<()> {
        let Blocks { start, end } = self.around(offset, bytes.len());
        let _guard = self.edges.lock();
        let mut whole = vec![0; (end - start) as usize];
        self.read_blocks(&mut whole, start)?;
        let within = (offset - start) as usize;
        let part = whole.get_mut(within..).and_then(|rest| rest.get_mut(..bytes.len()));
        part.expect("the range is inside of its blocks").copy_from_slice(bytes);
        self.write_blocks(&whole, start, is_durable)
    }

    /// Sends requests without a payload (trim, or write zeros) for a range of blocks, in parts, and
    /// waits for their replies.
    fn call_ranges(&self, kind: Kind, Blocks { start, end }: Blocks) -> io::Result<()> {
        let mut at = start;
        while at < end {
            let length = (end - at).min(RANGE_BYTES);
            let request = Request { kind, is_durable: false, offset: at, length: length as u32 };
            self.connection.call(&request, &[])?;
            at += length;
        }
        Ok(())
    }

    /// Returns the largest range of whole blocks inside a range of bytes.
    fn inside(&self, offset: u64, length: u64) -> Blocks {
        let block = self.export.block_bytes;
        let start = offset.next_multiple_of(block);
        Blocks { start, end: ((offset + length) / block * block).max(start) }
    }
}

impl BlockDevice for NbdDevice {
    fn length_bytes(&self) -> u64 {
        self.export.size_bytes
    }

    fn sector_size(&self) -> u32 {
        u32::try_from(self.export.block_bytes.max(SECTOR_BYTES)).expect("a block is short")
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let Blocks { start, end } = self.around(offset, buffer.len());
        if start == offset && end == offset + buffer.len() as u64 {
            return self.read_blocks(buffer, offset);
        }
        let mut whole = vec![0; (end - start) as usize];
        self.read_blocks(&mut whole, start)?;
        let part = whole.get((offset - start) as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(part.expect("the range is inside of its blocks"));
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        check_write(self, offset, bytes.len())?;
        let is_durable = durability == Durability::Durable;
        let has_fua = is_durable && self.offers(SEND_FUA);
        let Blocks { start, end } = self.around(offset, bytes.len());
        if start == offset && end == offset + bytes.len() as u64 {
            self.write_blocks(bytes, offset, has_fua)?;
        } else {
            self.write_edges(bytes, offset, has_fua)?;
        }
        if is_durable && !has_fua { self.flush() } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let request = Request { kind: Kind::Flush, is_durable: false, offset: 0, length: 0 };
        self.connection.call(&request, &[]).map(drop)
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        if !self.offers(SEND_TRIM) {
            return Ok(());
        }
        self.call_ranges(Kind::Trim, self.inside(offset, length))
    }

    fn write_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        check_write(self, offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        let Blocks { start, end } = self.inside(offset, length);
        if !self.offers(SEND_WRITE_ZEROES) || start >= end {
            return write_zeros_plainly(self, offset, length);
        }
        self.call_ranges(Kind::WriteZeroes, Blocks { start, end })?;
        write_zeros_plainly(self, offset, start - offset)?;
        write_zeros_plainly(self, end, offset + length - end)
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        self.connection.disconnect();
    }
}
