//! Copying the contents of files into a volume.
//!
//! Owns: the search for zeros that become holes, and the size of single writes. Does **not** own:
//! the boundaries of the chunks ([`chunks`]), or the writes themselves, which the library makes.

use std::ops::Range;

use ferroxfs::{File, PosixError};

use super::failure::WriteFailure;
use crate::file::source::Source;
use crate::import::chunks::{self, CHUNK_BYTES, Holes, ReadFailure};
use crate::interrupt;
use crate::terminal::tally::Tally;

/// The unit in bytes in which [`Holes::OfZeros`] searches for zeros. Most filesystems report holes
/// in this unit, and cp(1) and tar(1) search for them in it.
const HOLE_BYTES: usize = 4096;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(HOLE_BYTES));
const ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];

impl From<ReadFailure> for WriteFailure {
    fn from(ReadFailure(failure): ReadFailure) -> Self {
        Self::Source(failure)
    }
}

/// Copies the contents of `source` into `file`, through the memory of `chunk`. `holes` says which
/// ranges become holes, and `tally` counts the copied bytes.
pub(super) fn copy<S: Source>(
    file: &File,
    source: &S,
    chunk: &mut Vec<u8>,
    holes: Holes,
    tally: &Tally,
) -> Result<(), WriteFailure> {
    let read = chunks::read(source, holes, chunk, |offset, bytes| {
        interrupt::check().map_err(WriteFailure::All)?;
        let written = match holes {
            Holes::OfSource => write_all(file, offset, bytes).map(|()| bytes.len() as u64)?,
            Holes::OfZeros => write_nonzero(file, offset, bytes)?,
        };
        tally.add_bytes(written);
        Ok::<_, WriteFailure>(())
    })?;
    let length = source.length().unwrap_or(read);
    if file.metadata().size < length {
        file.set_len(length)?;
    }
    Ok(())
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
