//! Copying the contents of files into a volume.
//!
//! Owns: the choice of the holes of a file, and the size of single writes. Does **not** own: the
//! writes themselves, which the library makes.
//!
//! # Invariants
//!
//! - **I1** A chunk is full unless the contents end in it, even if the source returns only a few
//!   bytes at a time. So the boundaries of reads from a pipe or a network filesystem have no
//!   effect.
//! - **I2** With [`Holes::OfZeros`] the chunks depend only on the contents.

use std::ops::Range;

use ferroxfs::{File, PosixError};

use super::failure::WriteFailure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::source::Source;
use crate::interrupt;
use crate::terminal::tally::Tally;

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The unit in bytes in which [`Holes::OfZeros`] searches for zeros. Most filesystems report holes
/// in this unit, and cp(1) and tar(1) search for them in it.
const HOLE_BYTES: usize = 4096;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(HOLE_BYTES));
const ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];

/// The ranges of a copy that become holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// The holes of the source become holes.
    OfSource,
    /// Each aligned unit of 4096 bytes that holds only zeros becomes a hole.
    OfZeros,
}

/// The memory of one chunk. One is enough for all files of a run: to allocate and zero it for each
/// file would take longer than to copy a small file.
#[derive(Default)]
pub(super) struct ChunkBuffer(Vec<u8>);

impl ChunkBuffer {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.resize(CHUNK_BYTES, 0);
        &mut self.0
    }
}

/// Copies the contents of `source` into `file`, through `buffer`. `holes` says which ranges become
/// holes, and `tally` counts the copied bytes.
pub(super) fn copy<S: Source>(
    file: &File,
    source: &S,
    buffer: &mut ChunkBuffer,
    holes: Holes,
    tally: &Tally,
) -> Result<(), WriteFailure> {
    let buffer = buffer.bytes();
    let read = match holes {
        Holes::OfSource => copy_ranges(file, source, buffer, tally)?,
        Holes::OfZeros => copy_chunks(file, source, buffer, tally)?,
    };
    let length = source.length().unwrap_or(read);
    if file.metadata().size < length {
        file.set_len(length)?;
    }
    Ok(())
}

/// Copies the ranges in which the source has data. Returns the offset in bytes at which the copy
/// ended. If the length of the source was unknown, this offset is the length.
fn copy_ranges<S: Source>(
    file: &File,
    source: &S,
    buffer: &mut [u8],
    tally: &Tally,
) -> Result<u64, WriteFailure> {
    let end = source.length().unwrap_or(u64::MAX);
    let mut offset = 0;
    while let Some(range) = source.data_after(offset).map_err(WriteFailure::Source)? {
        offset = range.start;
        while offset < range.end.min(end) {
            interrupt::check().map_err(WriteFailure::All)?;
            let bytes = read_chunk(source, offset, range.end.min(end), buffer)?;
            if bytes.is_empty() {
                return Ok(offset);
            }
            write_all(file, offset, bytes)?;
            offset += bytes.len() as u64;
            tally.add_bytes(bytes.len() as u64);
        }
        offset = offset.max(range.end);
        if offset >= end {
            break;
        }
    }
    Ok(offset)
}

/// Copies all contents except zeros, chunk by chunk. Chunks in which the source has no data are not
/// read. Returns the offset in bytes at which the copy ended. If the length of the source was
/// unknown, this offset is the length.
fn copy_chunks<S: Source>(
    file: &File,
    source: &S,
    buffer: &mut [u8],
    tally: &Tally,
) -> Result<u64, WriteFailure> {
    let length = source.length();
    let end = length.unwrap_or(u64::MAX);
    let (mut offset, mut data) = (0, 0..0);
    while offset < end {
        if length.is_some() && data.end <= offset {
            match source.data_after(offset).map_err(WriteFailure::Source)? {
                Some(range) => data = range,
                None => return Ok(offset),
            }
            // Each chunk starts at a multiple of its size, wherever the source has holes (I2).
            let first = data.start - data.start % CHUNK_BYTES as u64;
            offset = offset.max(first);
        }
        let bytes = read_chunk(source, offset, end, buffer)?;
        if bytes.is_empty() {
            return Ok(offset);
        }
        tally.add_bytes(write_nonzero(file, offset, bytes)?);
        offset += bytes.len() as u64;
    }
    Ok(offset)
}

/// Fills the buffer with contents from `offset` on, up to `end` (I1). Fails if the length of the
/// source is known, but the source has become shorter.
fn read_chunk<'b, S: Source>(
    source: &S,
    offset: u64,
    end: u64,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], WriteFailure> {
    let wanted = (end - offset).min(buffer.len() as u64) as usize;
    let mut done = 0;
    // I1: a chunk is full unless the contents end in it.
    while let Some(rest) = buffer.get_mut(done..wanted).filter(|rest| !rest.is_empty()) {
        let read = source.read_at(rest, offset + done as u64).map_err(WriteFailure::Source)?;
        if read == 0 && source.length().is_some() {
            let message = "became shorter while it was read";
            return Err(WriteFailure::Source(Failure::new(Exit::Failed, message)));
        }
        if read == 0 {
            break;
        }
        done += read;
    }
    Ok(buffer.get(..done).unwrap_or_default())
}

/// Writes `bytes` at `offset`, without those units of `HOLE_BYTES` that hold only zeros. Returns
/// the number of bytes written.
fn write_nonzero(file: &File, offset: u64, bytes: &[u8]) -> ferroxfs::Result<u64> {
    let (mut run, mut written) = (0..0, 0);
    for unit in bytes.chunks(HOLE_BYTES) {
        let end = run.end + unit.len();
        if ZEROS.starts_with(unit) {
            written += write_run(file, offset, bytes, run)?;
            run = end..end;
        } else {
            run.end = end;
        }
    }
    Ok(written + write_run(file, offset, bytes, run)?)
}

fn write_run(file: &File, offset: u64, bytes: &[u8], run: Range<usize>) -> ferroxfs::Result<u64> {
    let at = offset + run.start as u64;
    let bytes = bytes.get(run).unwrap_or_default();
    write_all(file, at, bytes)?;
    Ok(bytes.len() as u64)
}

/// Writes all of these bytes to the file, from `offset` on.
pub(crate) fn write_all(file: &File, mut offset: u64, mut bytes: &[u8]) -> ferroxfs::Result<()> {
    while !bytes.is_empty() {
        let written = file.write_at(bytes, offset)?;
        if written == 0 {
            return Err(PosixError::NoSpace.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}
