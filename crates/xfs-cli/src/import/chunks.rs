//! The contents of a source, cut into chunks.
//!
//! Owns: the boundaries of the chunks, and which ranges become holes before a chunk is read. Does
//! **not** own: the use of the chunks: the writer puts them into a volume, and the thread that
//! reads ahead sends them to the writer.
//!
//! # Invariants
//!
//! - **I1** A chunk is full unless the contents end in it, even if the source returns only a few
//!   bytes at a time. So the boundaries of reads from a pipe or a network filesystem have no
//!   effect.
//! - **I2** With [`Holes::OfZeros`] the chunks depend only on the contents and their length.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::source::Source;

/// The largest size of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The ranges of a copy that become holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holes {
    /// The holes of the source become holes.
    OfSource,
    /// Each aligned unit of 4096 bytes that holds only zeros becomes a hole.
    OfZeros,
}

/// A failure to read a source.
pub(crate) struct ReadFailure(pub(crate) Failure);

/// Reads the contents of `source` into `chunk`, chunk by chunk, and calls `take` with the offset of
/// each and the chunk. `take` may leave another buffer for the next chunk. Returns the offset in
/// bytes at which the last chunk ended. If the length of the source was unknown, this offset is the
/// length.
///
/// # Errors
///
/// A source that cannot be read, or that has become shorter than its length; errors of `take`.
pub(crate) fn read<S: Source, E: From<ReadFailure>>(
    source: &S,
    holes: Holes,
    chunk: &mut Vec<u8>,
    take: impl FnMut(u64, &mut Vec<u8>) -> Result<(), E>,
) -> Result<u64, E> {
    match holes {
        Holes::OfSource => read_ranges(source, chunk, take),
        Holes::OfZeros => read_aligned(source, chunk, take),
    }
}

/// Reads the ranges in which the source has data.
fn read_ranges<S: Source, E: From<ReadFailure>>(
    source: &S,
    chunk: &mut Vec<u8>,
    mut take: impl FnMut(u64, &mut Vec<u8>) -> Result<(), E>,
) -> Result<u64, E> {
    let end = source.length().unwrap_or(u64::MAX);
    let (mut offset, mut ended) = (0, 0);
    while let Some(range) = source.data_after(offset).map_err(ReadFailure)? {
        offset = range.start;
        while offset < range.end.min(end) {
            let length = read_chunk(source, offset, range.end.min(end), chunk)?;
            if length == 0 {
                return Ok(ended);
            }
            take(offset, chunk)?;
            offset += length;
            ended = offset;
        }
        offset = offset.max(range.end);
        if offset >= end {
            break;
        }
    }
    Ok(ended)
}

/// Reads all contents. Chunks in which the source has no data are left out. Each chunk starts at a
/// multiple of its size, wherever the source has holes (I2).
fn read_aligned<S: Source, E: From<ReadFailure>>(
    source: &S,
    chunk: &mut Vec<u8>,
    mut take: impl FnMut(u64, &mut Vec<u8>) -> Result<(), E>,
) -> Result<u64, E> {
    let length = source.length();
    let end = length.unwrap_or(u64::MAX);
    let (mut offset, mut data) = (0, 0..0);
    while offset < end {
        if length.is_some() && data.end <= offset {
            match source.data_after(offset).map_err(ReadFailure)? {
                Some(range) => data = range,
                None => return Ok(offset),
            }
            // I2: the holes of the source move no boundary.
            let first = data.start - data.start % CHUNK_BYTES as u64;
            offset = offset.max(first);
        }
        let length = read_chunk(source, offset, end, chunk)?;
        if length == 0 {
            return Ok(offset);
        }
        take(offset, chunk)?;
        offset += length;
    }
    Ok(offset)
}

/// Reads one chunk from `offset` on, up to `end` (I1), and returns its length in bytes. Fails if
/// the length of the source is known, but the source has become shorter.
fn read_chunk<S: Source>(
    source: &S,
    offset: u64,
    end: u64,
    chunk: &mut Vec<u8>,
) -> Result<u64, ReadFailure> {
    let wanted = (end - offset).min(CHUNK_BYTES as u64) as usize;
    source.read_chunk(chunk, offset, wanted).map_err(ReadFailure)?;
    // I1: a chunk is full unless the contents end in it.
    if chunk.len() < wanted && source.length().is_some() {
        return Err(ReadFailure(Failure::new(Exit::Failed, "became shorter while it was read")));
    }
    Ok(chunk.len() as u64)
}

#[cfg(test)]
mod tests;
