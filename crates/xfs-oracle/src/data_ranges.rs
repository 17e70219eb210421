//! The ranges of a sparse file that are not holes.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Returns the next range of a file, from offset `at` on, that is not a hole. `None` if there is
/// none.
///
/// # Errors
///
/// The error of lseek(2).
pub fn next_data_range(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some(start..rustix::fs::seek(file, SeekFrom::Hole(start))?)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
