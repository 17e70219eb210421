//! Copying the contents of one file to the host. Only ranges with data are written, so that holes
//! stay holes.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Stop;
use crate::file::source::Source;
use crate::interrupt;
use crate::terminal::tally::Tally;

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies the contents of `source`, which are `size` bytes long, to the empty file `to`.
pub(super) fn copy<S: Source>(
    source: &S,
    size: u64,
    to: BorrowedFd<'_>,
    tally: &Tally,
) -> Result<(), Stop> {
    if size == 0 {
        return Ok(());
    }
    rustix::fs::ftruncate(to, size)?;
    let mut buffer = Vec::new();
    let mut offset = 0;
    while let Some(range) = source.data_after(offset).map_err(Stop::Source)? {
        let end = range.end.min(size);
        // A range that makes no progress would loop forever.
        if range.start < offset || range.start >= end {
            break;
        }
        offset = range.start;
        while offset < end {
            interrupt::check().map_err(Stop::Signal)?;
            let length = (end - offset).min(CHUNK_BYTES as u64) as usize;
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            let chunk = buffer.get_mut(..length).unwrap_or_default();
            let read = source.read_at(chunk, offset).map_err(Stop::Source)?;
            if read == 0 {
                return Ok(());
            }
            write_all(to, chunk.get(..read).unwrap_or_default(), offset)?;
            offset += read as u64;
            tally.add_bytes(read as u64);
        }
    }
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(to, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
