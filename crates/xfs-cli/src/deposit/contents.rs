//! The contents of files that are put into a volume.

use ferroxfs::{File, PosixError};

use super::Failed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::source::Source;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies contents, and leaves holes where the source has them.
pub(super) fn copy<S: Source>(file: &File, source: &S, size: u64) -> Result<(), Failed> {
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(size).unwrap_or(CHUNK_BYTES)).max(1)];
    let mut offset = 0;
    while let Some(range) = source.data_after(offset).map_err(Failed::One)? {
        offset = range.start;
        while offset < range.end.min(size) {
            let wanted = (range.end.min(size) - offset).min(buffer.len() as u64) as usize;
            let bytes = buffer.get_mut(..wanted).unwrap_or_default();
            let read = source.read_at(offset, bytes).map_err(Failed::One)?;
            if read == 0 {
                let message = "became shorter while it was read";
                return Err(Failed::One(Failure::new(Exit::Failed, message)));
            }
            write_all(file, offset, bytes.get(..read).unwrap_or_default())?;
            offset += read as u64;
        }
        offset = offset.max(range.end);
        if offset >= size {
            break;
        }
    }
    if file.metadata().size < size {
        file.set_len(size)?;
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
