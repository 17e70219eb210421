//! The contents of files that are put into a volume.

use ferroxfs::{File, PosixError};

use super::Failed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::source::Source;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// The same of what may be empty, for all that is known.
const UNKNOWN_CHUNK_BYTES: usize = 64 << 10;

/// Copies contents, and leaves holes where the source has them.
pub(super) fn copy<S: Source>(file: &File, source: &S) -> Result<(), Failed> {
    let length = source.length();
    let end = length.unwrap_or(u64::MAX);
    let chunk = length.map_or(UNKNOWN_CHUNK_BYTES, |length| {
        CHUNK_BYTES.min(usize::try_from(length).unwrap_or(CHUNK_BYTES)).max(1)
    });
    let mut buffer = vec![0; chunk];
    let mut offset = 0;
    while let Some(range) = source.data_after(offset).map_err(Failed::Source)? {
        offset = range.start;
        while offset < range.end.min(end) {
            let wanted = (range.end.min(end) - offset).min(buffer.len() as u64) as usize;
            let bytes = buffer.get_mut(..wanted).unwrap_or_default();
            let read = source.read_at(offset, bytes).map_err(Failed::Source)?;
            match (read, length) {
                (0, None) => return Ok(()),
                (0, Some(_)) => {
                    let message = "became shorter while it was read";
                    return Err(Failed::Source(Failure::new(Exit::Failed, message)));
                }
                _ => {}
            }
            write_all(file, offset, bytes.get(..read).unwrap_or_default())?;
            offset += read as u64;
        }
        offset = offset.max(range.end);
        if offset >= end {
            break;
        }
    }
    if let Some(length) = length
        && file.metadata().size < length
    {
        file.set_len(length)?;
    }
    Ok(())
}

/// Writes all of these bytes.
pub(crate) fn write_all(file: &File, mut offset: u64, mut bytes: &[u8]) -> ferroxfs::Result<()> {
    while !bytes.is_empty() {
        let written = file.write_at(offset, bytes)?;
        if written == 0 {
            return Err(PosixError::NoSpace.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}
